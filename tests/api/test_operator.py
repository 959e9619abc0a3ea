"""Jobs from submission to their end on a real API server; the test plays the kubelet."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from dtj_api import names

from tests.api.harness import TRAINER_IMAGE, TRAINING, Api, Object, Operator, eventually, run_all, script, variables


def test_job_runs_to_succeeded(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(workers=3))
    pods = run_all(api, "gpt")
    assert pods == ["gpt-0-0", "gpt-0-1", "gpt-0-2"]
    running = api.status("gpt")
    assert running["phase"] == "Running"
    assert running["attempt"] == 0
    assert running["worldSize"] == 3
    assert running["workers"] == {
        "desired": 3, "active": 3, "ready": 3, "succeeded": 0, "failed": 0, "summary": "3/3",
    }  # fmt: skip
    for pod in pods:
        api.end_pod(pod, 0)
    done = api.until_phase("gpt", "Succeeded")
    assert done["completionTime"] >= done["startTime"]
    assert api.condition("gpt", "Succeeded")["status"] == "True"
    assert api.condition("gpt", "Running")["status"] == "False"
    reasons = {event["reason"] for event in api.list("events")}
    assert {"GangCreated", "AllWorkersRunning", "AllWorkersSucceeded"} <= reasons


def test_every_pod_has_the_environment_of_its_rank(api: Api, operator: Operator) -> None:
    api.submit("gpt", {"workers": 3, "training": TRAINING | {"batch": {"global": 12}}, "processesPerWorker": 2})
    api.until("gpt", "Created")
    pods = api.pods("gpt")
    assert [pod["spec"]["hostname"] for pod in pods] == ["gpt-0-0", "gpt-0-1", "gpt-0-2"]
    for worker, pod in enumerate(pods):
        seen = variables(pod)
        assert "RANK" not in seen
        assert seen["NODE_RANK"] == str(worker)
        assert seen["WORLD_SIZE"] == "6"
        assert seen["MASTER_ADDR"] == f"gpt-0-0.gpt-0.{api.namespace}.svc"
        assert json.loads(seen["DTJ_CONFIG"])["training"]["steps"] == 10
        assert pod["spec"]["containers"][0]["image"] == TRAINER_IMAGE
        assert pod["metadata"]["ownerReferences"][0]["uid"] == api.job("gpt")["metadata"]["uid"]
    service = api.get("services", "gpt-0")
    assert service is not None
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True


def test_first_failing_worker_is_named_and_the_others_are_stopped(api: Api, operator: Operator) -> None:
    api.submit("gpt", script(workers=3))
    run_all(api, "gpt")
    api.end_pod("gpt-0-1", 137, "step 7\n")
    condition = api.until("gpt", "Failed")
    assert condition["reason"] == "SIGKILL"
    assert condition["message"].startswith("worker 1 (pod gpt-0-1, node n1) exited with 137 (SIGKILL): step 7; read ")
    eventually(lambda: all(p["metadata"].get("deletionTimestamp") for p in api.pods("gpt")[::2]))
    assert api.pods("gpt")[1]["metadata"].get("deletionTimestamp") is None, "its logs stay"
    api.reap()
    status = api.until_phase("gpt", "Failed")
    assert status["workers"] == {
        "desired": 3, "active": 0, "ready": 0, "succeeded": 0, "failed": 1, "summary": "0/3",
    }  # fmt: skip
    api.delete("pods", "gpt-0-1", gracePeriodSeconds=0)
    operator.restart()
    api.submit("other", script(workers=1))
    api.until("other", "Created")
    assert api.pods("gpt") == []
    assert api.status("gpt") == status


def test_symptom_waits_for_its_cause(api: Api, operator: Operator) -> None:
    api.submit("gpt", {"workers": 2, "training": TRAINING, "restart": {"policy": "Never"}})
    run_all(api, "gpt")
    lost = {
        "rank": 0,
        "exitCode": 201,
        "reason": "PeerLost",
        "message": "rank 1 is gone",
        "time": "2026-01-01T00:00:00Z",
    }
    api.end_pod("gpt-0-0", 201, json.dumps({"failure": lost}))
    api.end_pod("gpt-0-1", 137, reason="OOMKilled")
    condition = api.until("gpt", "Failed")
    assert condition["reason"] == "OOMKilled"
    assert "worker 1" in condition["message"]


def test_deleted_pod_fails_the_job(api: Api, operator: Operator) -> None:
    api.submit("gpt", script())
    run_all(api, "gpt")
    api.delete("pods", "gpt-0-1", gracePeriodSeconds=0)
    assert "worker 1's pod was deleted" in api.until("gpt", "Failed", reason="PodDeleted")["message"]


@contextmanager
def worker_zero(answer: Object) -> Iterator[int]:
    """Stands for worker 0's supervisor: serves `answer` at /progress; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(answer).encode()
            self.send_response(200 if self.path == names.PROGRESS_PATH else 404)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def test_progress_and_checkpoint_show_while_the_job_runs_and_nothing_is_written_when_nothing_changes(
    api: Api, operator: Operator
) -> None:
    checkpoint = {"step": 4, "path": "/checkpoints/4", "savedAt": "2026-01-01T00:00:04Z", "bytes": 9, "checksum": "ab"}
    answer: Object = {
        "step": 5, "totalSteps": 10, "loss": 2.345678, "etaSeconds": 80.0,
        "firstStepTime": "2026-01-01T00:00:01Z", "lastStepTime": "2026-01-01T00:00:05.25Z", "checkpoint": checkpoint,
    }  # fmt: skip
    with worker_zero(answer) as port:
        api.submit("gpt", {"workers": 2, "training": TRAINING, "monitoring": {"port": port}})
        run_all(api, "gpt")
        eventually(lambda: api.status("gpt").get("progress"))
        status = api.status("gpt")
        assert status["progress"]["step"] == 5
        assert status["progress"]["loss"] == 2.3457
        assert status["progress"]["eta"] == "1m20s"
        assert status["checkpoint"]["step"] == 4
        assert status["firstStepTime"] == "2026-01-01T00:00:01Z"
        version = api.job("gpt")["metadata"]["resourceVersion"]
        threading.Event().wait(2)  # four more questions
        assert api.job("gpt")["metadata"]["resourceVersion"] == version
        answer |= {"step": 7, "loss": float("nan")}
        eventually(lambda: api.status("gpt")["progress"]["step"] == 7)
        assert "loss" not in api.status("gpt")["progress"]
    final = {"progress": {"step": 10, "totalSteps": 10, "loss": 1.5}}
    api.end_pod("gpt-0-0", 0, json.dumps(final))
    api.end_pod("gpt-0-1", 0)
    done = api.until_phase("gpt", "Succeeded")
    assert done["progress"]["step"] == 10
    assert done["checkpoint"]["step"] == 4
