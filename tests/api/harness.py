"""What the tests hold in their hands: the API as administrator, a kubelet's part to play, the operator as a process."""

import functools
import json
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from dtj_api import names
from dtj_testbed.processes import Reaper

TRAINER_IMAGE = "example.test/dtj-trainer:1"
DEADLINE = 60.0

T = TypeVar("T")
Object = dict[str, Any]
Objects = list[Object]


def eventually(look: Callable[[], T], deadline: float = DEADLINE) -> T:
    """Call `look` until it neither raises AssertionError nor returns something false; that is returned."""
    end = time.monotonic() + deadline
    while True:
        try:
            found = look()
            if found:
                return found
            problem: object = f"still {found!r}"
        except AssertionError as error:
            problem = error
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline:g} s: {problem}")
        time.sleep(0.05)


class Api:
    """The administrator's view of one namespace, and a hand that plays the kubelet."""

    def __init__(self, url: str, context: ssl.SSLContext, namespace: str) -> None:
        self.url = url
        self.context = context
        self.namespace = namespace

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body).encode()
        call = urllib.request.Request(self.url + path, data, {"Content-Type": kind}, method=method)
        with urllib.request.urlopen(call, context=self.context, timeout=20) as answer:
            result: Object = json.loads(answer.read())
        return result

    def path(self, plural: str, name: str = "") -> str:
        prefix = f"/apis/{names.API_VERSION}" if plural == names.PLURAL else "/api/v1"
        return f"{prefix}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def get(self, plural: str, name: str) -> Object | None:
        try:
            return self.request("GET", self.path(plural, name))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def list(self, plural: str) -> Objects:
        items: Objects = self.request("GET", self.path(plural))["items"]
        return items

    def create(self, plural: str, body: Object) -> Object:
        return self.request("POST", self.path(plural), body)

    def delete(self, plural: str, name: str, **options: Any) -> None:
        self.request("DELETE", self.path(plural, name), options or None)

    # jobs

    def submit(self, name: str, spec: Object) -> Object:
        manifest = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
        return self.create(names.PLURAL, manifest)

    def job(self, name: str) -> Object:
        job = self.get(names.PLURAL, name)
        assert job is not None, f"there is no job {name}"
        return job

    def status(self, name: str) -> Object:
        status: Object = self.job(name).get("status") or {}
        return status

    def condition(self, name: str, kind: str) -> Object:
        found = [c for c in self.status(name).get("conditions", []) if c["type"] == kind]
        assert found, f"{name} has no condition {kind}: {self.status(name)}"
        condition: Object = found[0]
        return condition

    def until(self, name: str, kind: str, status: str = "True", reason: str | None = None) -> Object:
        """Wait for a condition of a job; the condition."""

        def look() -> Object:
            condition = self.condition(name, kind)
            assert condition["status"] == status, condition
            assert reason is None or condition["reason"] == reason, condition
            return condition

        return eventually(look)

    def until_phase(self, name: str, phase: str) -> Object:
        def look() -> Object:
            status = self.status(name)
            assert status.get("phase") == phase, status
            return status

        return eventually(look)

    # the kubelet's part

    def pods(self, job: str) -> Objects:
        pods = [p for p in self.list("pods") if (p["metadata"].get("labels") or {}).get(names.LABEL_JOB) == job]
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_WORKER]))

    def bind(self, pod: str, node: str = "n1") -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.request("POST", self.path("pods", pod) + "/binding", body)

    def set_pod(self, pod: str, phase: str, state: Object, **more: Any) -> None:
        """Report the state of the pod's trainer container, as its node would."""
        found = self.get("pods", pod)
        assert found is not None
        container = found["spec"]["containers"][0]
        status = {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        self.request("PATCH", self.path("pods", pod) + "/status", {
            "status": {"phase": phase, "containerStatuses": [status], **more},
        })  # fmt: skip

    def run_pod(self, pod: str, ip: str = "127.0.0.1", node: str = "n1") -> None:
        self.bind(pod, node)
        self.set_pod(pod, "Running", {"running": {"startedAt": now()}}, podIP=ip)

    def end_pod(self, pod: str, exit_code: int, message: str = "", reason: str = "", **more: Any) -> None:
        ended = {
            "exitCode": exit_code,
            "reason": reason or ("Error" if exit_code else "Completed"),
            "message": message,
            "startedAt": now(),
            "finishedAt": now(),
        }
        self.set_pod(pod, "Failed" if exit_code else "Succeeded", {"terminated": ended}, **more)

    def reap(self) -> None:
        """Confirm the end of deleted pods (the kubelet's part) and of deleted claims (the storage controllers')."""
        for pod in self.list("pods"):
            if pod["metadata"].get("deletionTimestamp"):
                self._gone("pods", pod["metadata"]["name"], gracePeriodSeconds=0)
        for claim in self.list("persistentvolumeclaims"):
            if claim["metadata"].get("deletionTimestamp"):
                path = self.path("persistentvolumeclaims", claim["metadata"]["name"])
                self.request("PATCH", path, {"metadata": {"finalizers": None}})

    def _gone(self, plural: str, name: str, **options: Any) -> None:
        try:
            self.delete(plural, name, **options)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@functools.cache
def _reaper() -> Reaper:
    """For a test run that is killed."""
    return Reaper(Path(tempfile.mkdtemp(prefix="dtj-operators-")))


class Operator:
    """`python -m dtj_operator` as a process, to be killed and started again."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.environment = environment
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "dtj_operator"], env=self.environment, stdout=log, stderr=log
            )
        _reaper().watch(self.process.pid)

    def kill(self) -> None:
        """As `kill -9`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            _reaper().forget(self.process.pid)
            self.process = None

    def restart(self) -> None:
        self.kill()
        self.start()


# jobs to submit

SCRIPT = {"spec": {"containers": [{"name": "trainer", "image": "example.test/mine:1", "command": ["python", "x.py"]}]}}
TRAINING = {
    "model": {"name": "gpt", "size": "tiny"},
    "data": {"text": "tinydocs"},
    "steps": 10,
    "batch": {"global": 8},
}


def script(workers: int = 2, **more: object) -> Object:
    """A job that its first failure ends."""
    return {"workers": workers, "template": SCRIPT, "restart": {"policy": "Never"}, **more}


def variables(pod: Object) -> dict[str, str]:
    return {v["name"]: v.get("value", "") for v in pod["spec"]["containers"][0]["env"]}


def run_all(api: Api, job: str) -> list[str]:
    """Bring all pods of a created job to Running; their names."""
    api.until(job, "Created")
    pods = [pod["metadata"]["name"] for pod in api.pods(job)]
    for pod in pods:
        api.run_pod(pod)
    api.until(job, "Running")
    return pods
