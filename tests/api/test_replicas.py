"""Two operators for one API server: one at work at a time, and the other as soon as that one is not."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from dtj_api import names

from tests.api.conftest import LEASE, environment
from tests.api.harness import Api, Operator, eventually, run_all, script

SECONDS = 3


@pytest.fixture
def replicas(api: Api, operator_kubeconfig: Path, tmp_path: Path) -> Iterator[list[Operator]]:
    shared = environment(operator_kubeconfig, api.namespace) | {
        "DTJ_LEASE": LEASE,
        "DTJ_LEASE_SECONDS": str(SECONDS),
        "DTJ_OPERATOR_NAMESPACE": api.namespace,
    }
    replicas = [Operator(shared | {"DTJ_IDENTITY": name}, tmp_path / name) for name in ("a", "b")]
    yield replicas
    for replica in replicas:
        replica.kill()
        print(replica.log.read_text()[-4000:] if replica.log.exists() else "")


def holder(api: Api) -> str:
    """Whose lease it is: a or b, or nobody's."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api.namespace}/leases/{LEASE}"
    return str(api.request("GET", path)["spec"]["holderIdentity"]).partition("_")[0]


def start(api: Api, replicas: list[Operator]) -> tuple[Operator, Operator]:
    """The one at work, and the one that waits."""
    first, second = replicas
    first.start()
    api.submit("gpt", script(restart={"backoffSeconds": 0}))
    run_all(api, "gpt")
    second.start()
    eventually(lambda: "waiting for the lease" in second.log.read_text())
    assert holder(api) == "a"
    return first, second


def restarted_once(api: Api) -> None:
    """Attempt 1 runs, made by one operator: each of its pods was created once, and there was no third attempt."""
    eventually(lambda: len([p for p in api.pods("gpt") if p["metadata"]["name"].startswith("gpt-1-")]) == 2)
    for worker in range(2):
        api.run_pod(names.pod("gpt", 1, worker))
    api.until_phase("gpt", "Running")
    status = api.status("gpt")
    assert (status["attempt"], status["restarts"]) == (1, 1)


def test_the_other_goes_on_when_the_one_at_work_dies_within_a_restart(api: Api, replicas: list[Operator]) -> None:
    first, _ = start(api, replicas)
    api.end_pod(names.pod("gpt", 0, 1), 137)
    eventually(lambda: api.status("gpt").get("attempt") == 1)
    first.kill()
    eventually(lambda: holder(api) == "b")
    restarted_once(api)


def test_one_that_was_paused_finds_out_before_it_writes(api: Api, replicas: list[Operator]) -> None:
    first, _ = start(api, replicas)
    assert first.process is not None
    first.process.send_signal(signal.SIGSTOP)
    api.end_pod(names.pod("gpt", 0, 1), 137)
    eventually(lambda: holder(api) == "b")
    restarted_once(api)
    before = api.job("gpt")["metadata"]["resourceVersion"]
    first.process.send_signal(signal.SIGCONT)
    assert first.process.wait(20) == 1
    assert "another operator may be at work" in first.log.read_text()
    assert "Traceback" not in first.log.read_text()
    assert (holder(api), api.job("gpt")["metadata"]["resourceVersion"]) == ("b", before)


def test_one_that_is_told_to_stop_hands_over_at_once(api: Api, replicas: list[Operator]) -> None:
    first, second = start(api, replicas)
    assert first.process is not None
    first.process.terminate()
    assert first.process.wait(5) == 0
    assert holder(api) in ("", "b")
    eventually(lambda: "this operator is at work" in second.log.read_text())
    api.end_pod(names.pod("gpt", 0, 1), 137)
    restarted_once(api)
