"""Namespaces take turns: whoever submits a hundred jobs does not hold up one who submits one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from dtj_api import names

from tests.api.conftest import environment
from tests.api.harness import Api, Operator, eventually, script

MANY = 100


@pytest.fixture
def neighbour(api: Api) -> Api:
    """A second namespace."""
    name = f"{api.namespace}-neighbour"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return Api(api.url, api.context, name)


@pytest.fixture
def stopped(api: Api, neighbour: Api, operator_kubeconfig: Path, tmp_path: Path) -> Iterator[Operator]:
    """An operator of both namespaces, to be started by the test."""
    scopes = f"{api.namespace},{neighbour.namespace}"
    operator = Operator(environment(operator_kubeconfig, scopes), tmp_path / "operator.log")
    yield operator
    operator.kill()


def test_one_job_of_a_namespace_does_not_wait_for_a_hundred_of_another(
    api: Api, neighbour: Api, stopped: Operator
) -> None:
    for number in range(MANY):
        api.submit(f"many-{number}", script(1))
    neighbour.submit("one", script(1))
    stopped.start()
    neighbour.until("one", "Created")
    eventually(lambda: len(api.list("pods")) == MANY, 120)
    [one] = neighbour.pods("one")
    # nobody changes these pods: their versions tell the order in which they were made
    before = [pod for pod in api.list("pods") if version(pod) < version(one)]
    assert len(before) < MANY / 3
    assert all(pod["metadata"]["labels"][names.LABEL_JOB].startswith("many-") for pod in before)


def version(pod: dict[str, dict[str, str]]) -> int:
    return int(pod["metadata"]["resourceVersion"])
