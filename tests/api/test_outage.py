"""The API server crashes and comes back; the operator process stays, and sees what happened meanwhile."""

from pathlib import Path

from dtj_testbed import ApiServer

from tests.api.conftest import environment, kubeconfig_context, prepare
from tests.api.harness import Api, Operator


def command_of(name: str, argument: str) -> list[str]:
    """The command line of the running process with that argument."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_text().split("\0")[:-1]
        except OSError:
            continue
        if words and words[0].endswith(name) and argument in words:
            return words
    raise AssertionError(f"no {name} runs with {argument}")


def test_api_server_that_crashes_and_returns(tmp_path: Path) -> None:
    with ApiServer() as server:
        prepare(server)
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}})
        api = Api(server.url, kubeconfig_context(server), "ml")
        kubeconfig = server.user_kubeconfig("operator-under-test")
        operator = Operator(environment(kubeconfig, "ml"), tmp_path / "operator.log")
        operator.start()
        try:
            template = {"spec": {"containers": [{"name": "trainer", "image": "example.test/mine:1"}]}}
            api.submit("before", {"workers": 2, "template": template})
            api.until("before", "Created")
            port = server.url.rsplit(":", 1)[1]
            command = command_of("kube-apiserver", f"--secure-port={port}")
            server.processes.stop("kube-apiserver")
            server.processes.start("kube-apiserver", command)
            server.processes.wait_until("kube-apiserver", lambda: _serves(server))
            api.submit("after", {"workers": 2, "template": template})
            api.until("after", "Created")
            for worker in range(2):
                api.run_pod(f"before-0-{worker}")
            api.until("before", "Running")
            assert operator.process is not None
            assert operator.process.poll() is None
        finally:
            operator.kill()


def _serves(server: ApiServer) -> bool:
    try:
        return bool(server.request("GET", "/readyz"))
    except OSError:
        return False
