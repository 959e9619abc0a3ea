"""Fixtures of the end-to-end tests: a namespace for each test on the cluster that `make install` prepared."""

import json
import os
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.namespace import Namespace


@pytest.fixture(scope="session")
def operator_ready() -> None:
    """The operator that `make install` put there; a test never installs it behind a person's back."""
    if "KUBECONFIG" not in os.environ:
        pytest.fail('KUBECONFIG is not set; run: make test-e2e, or: eval "$(make env)"')
    system = Namespace("dtj-system")
    system.kubectl("rollout", "status", "deployment/dtj", "--timeout=120s")


@pytest.fixture
def namespace(operator_ready: None) -> Iterator[Namespace]:
    """A namespace of the test's own, gone afterwards."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    own = Namespace(name)
    own.kubectl("create", "namespace", name)
    yield own
    own.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def operator_image() -> str:
    """A small image with Python and no torch, for containers that merely play a trainer."""
    return Namespace("dtj-system").kubectl(
        "get", "deployment", "dtj", "-o", "jsonpath={.spec.template.spec.containers[0].image}"
    )


@pytest.fixture(scope="session")
def trainer_image() -> str:
    environment = Namespace("dtj-system").kubectl(
        "get", "deployment", "dtj", "-o", "jsonpath={.spec.template.spec.containers[0].env}"
    )
    return next(str(v["value"]) for v in json.loads(environment) if v["name"] == "DTJ_TRAINER_IMAGE")
