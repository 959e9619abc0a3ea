"""A real API server with garbage collection, the real operator beside it, and no nodes: tests play the kubelet."""

import base64
import itertools
import os
import re
import ssl
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from dtj_api import names
from dtj_testbed import ApiServer

from tests.api.harness import TRAINER_IMAGE, Api, Object, Operator, eventually

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "crds" / "dtj.dev_distributedtrainingjobs.yaml"
# the user that operators run as, and the webhook configurations that they may use
OPERATOR = "operator-under-test"
CONFIGURATIONS = ("one", "another")
LEASE = "dtj-operator"
HELPERS = ROOT / "charts" / "dtj" / "templates" / "_helpers.tpl"


def kubeconfig_context(server: ApiServer) -> ssl.SSLContext:
    config = yaml.safe_load(server.kubeconfig.read_text())
    user = config["users"][0]["user"]
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    certificate, key = server.folder / "test.crt", server.folder / "test.key"
    certificate.write_bytes(base64.b64decode(user["client-certificate-data"]))
    key.write_bytes(base64.b64decode(user["client-key-data"]))
    context.load_cert_chain(certificate, key)
    return context


@pytest.fixture(scope="session")
def server() -> Iterator[ApiServer]:
    """One API server a test process, with the CRD and the operator's role."""
    with ApiServer(garbage_collection=True) as server:
        prepare(server)
        yield server


def prepare(server: ApiServer) -> None:
    """Install the CRD and the operator's role."""
    for manifest in (yaml.safe_load(CRD.read_text()), *operator_role()):
        plural = manifest["kind"].lower() + "s"
        server.request("POST", f"/apis/{manifest['apiVersion']}/{plural}", manifest)
    ready = {"type": "Ready", "status": "True"}
    server.request("POST", "/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"conditions": [ready]}})
    eventually(lambda: _serves_jobs(server))


def operator_role() -> list[Object]:
    """The chart's own rules, bound to the user the operator runs as: a right that is missing fails the tests."""
    rules = [rule for name in ("rules", "clusterRules", "leaseRules", "webhookRules") for rule in _rules(name)]
    api, reference = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    metadata = {"name": OPERATOR}
    return [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": metadata, "rules": rules},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": reference, "kind": "ClusterRole", "name": metadata["name"]},
            "subjects": [{"apiGroup": reference, "kind": "User", "name": metadata["name"]}],
        },
    ]


def _rules(name: str) -> list[Object]:
    found = re.search(rf'define "dtj.{name}" -}}}}\n(.*?){{{{- end }}}}', HELPERS.read_text(), re.DOTALL)
    assert found, f"{HELPERS} does not define dtj.{name} any more"
    text = found[1].replace('{{ include "dtj.clusterName" . }}', ", ".join(CONFIGURATIONS))
    rules: list[Object] = yaml.safe_load(text.replace('{{ include "dtj.name" . }}', LEASE))
    return rules


def _serves_jobs(server: ApiServer) -> bool:
    try:
        server.request("GET", f"/apis/{names.API_VERSION}/{names.PLURAL}")
    except urllib.error.HTTPError:
        return False
    return True


def environment(kubeconfig: Path, namespace: str) -> dict[str, str]:
    """The operator's, with pauses made short."""
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "KUBECONFIG": str(kubeconfig),
        "DTJ_TRAINER_IMAGE": TRAINER_IMAGE,
        "DTJ_NAMESPACES": namespace,
        "DTJ_LOG_LEVEL": "debug",
        "DTJ_PROGRESS_SECONDS": "0.5",
        "DTJ_CLAIM_SECONDS": "0.5",
        "DTJ_SETTLE_SECONDS": "1.5",
        "DTJ_QUIET_SECONDS": "0.1",
    }


@pytest.fixture(scope="session")
def operator_kubeconfig(server: ApiServer) -> Path:
    return server.user_kubeconfig(OPERATOR)


@pytest.fixture(scope="session")
def admin_context(server: ApiServer) -> ssl.SSLContext:
    return kubeconfig_context(server)


_numbers = itertools.count()


@pytest.fixture
def api(server: ApiServer, admin_context: ssl.SSLContext) -> Api:
    """A namespace of the test's own."""
    namespace = f"test-{next(_numbers)}"
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    return Api(server.url, admin_context, namespace)


@pytest.fixture
def operator(api: Api, operator_kubeconfig: Path, tmp_path: Path) -> Iterator[Operator]:
    """The operator, running, for the test's namespace alone. Its log is shown when the test fails."""
    operator = Operator(environment(operator_kubeconfig, api.namespace), tmp_path / "operator.log")
    operator.start()
    yield operator
    operator.kill()
    print(operator.log.read_text()[-8000:])
