"""The API server fixture itself: RBAC for other users, several side by side, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dtj_testbed import ApiServer, TestbedError, binaries


def kubectl(kubeconfig: Path, *arguments: str) -> str:
    command = [str(binaries.need("kubectl")), f"--kubeconfig={kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def test_a_user_may_do_only_what_a_role_grants() -> None:
    with ApiServer() as server:
        user = server.user_kubeconfig("bob", ["developers"])
        assert kubectl(user, "auth", "can-i", "create", "pods") == "no"
        kubectl(server.kubeconfig, "create", "role", "r", "--verb=create", "--resource=pods")
        kubectl(server.kubeconfig, "create", "rolebinding", "b", "--role=r", "--group=developers")
        server.processes.wait_until(
            "the role", lambda: kubectl(user, "auth", "can-i", "create", "pods") == "yes", deadline=10
        )
        account = server.service_account_kubeconfig("default", "operator")
        assert "system:serviceaccount:default:operator" in kubectl(account, "auth", "whoami")


def test_owned_objects_are_collected() -> None:
    with ApiServer(garbage_collection=True) as server:
        pods = "/api/v1/namespaces/default/pods"
        spec = {"containers": [{"name": "c", "image": "i"}]}
        owner = server.request("POST", pods, {"metadata": {"name": "owner"}, "spec": spec})
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner["metadata"]["uid"]}
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}, "spec": spec}
        server.request("POST", pods, owned)
        server.request("DELETE", f"{pods}/owner?gracePeriodSeconds=0")
        server.processes.wait_until("garbage collection", lambda: not server.request("GET", pods)["items"], deadline=30)


def test_a_server_that_cannot_start_says_why() -> None:
    with pytest.raises(TestbedError, match="unknown flag"):
        ApiServer(api_arguments=["--no-such-flag"]).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_the_test_process_dies(number: signal.Signals) -> None:
    script = (
        "import os; from dtj_testbed import ApiServer; server = ApiServer().start();"
        f"print(server.folder, flush=True); os.kill(os.getpid(), {number.value})"
    )
    died = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    folder = Path(died.stdout.strip())
    assert died.returncode == -number
    deadline = time.monotonic() + 10
    while folder.exists() or str(folder) in _command_lines():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _command_lines() -> str:
    lines = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            lines.append(Path(f"/proc/{process}/cmdline").read_text())
        except OSError:
            continue
    return "\n".join(lines)
