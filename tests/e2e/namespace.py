"""One namespace of the cluster, used through kubectl as a person would."""

import json
import subprocess
import time
from collections.abc import Callable
from typing import Any

from dtj_api import names

# A pod on this testbed runs within seconds; what a test waits for is training on two shared cores.
DEADLINE_SECONDS = 300
POLL_SECONDS = 0.5

Object = dict[str, Any]


def log_lines(text: str) -> list[Object]:
    """The JSON lines in a container's output."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def losses(lines: list[Object]) -> dict[int, float]:
    """The training loss of each logged step."""
    return {line["step"]: line["loss"] for line in lines if line["event"] == "step"}


class Namespace:
    """One namespace, through kubectl."""

    def __init__(self, name: str) -> None:
        self.name = name

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """What kubectl prints; its own words in the error when it fails and `check` is set."""
        command = ["kubectl", "--namespace", self.name, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=180)
        if check and done.returncode:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout + ("" if check else done.stderr)

    def apply(self, *manifests: Object) -> None:
        self.kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests}))

    def get(self, kind: str, name: str) -> Object | None:
        found = self.kubectl("get", kind, name, "--ignore-not-found", "-o", "json")
        return json.loads(found) if found else None

    def log(self, pod: str) -> list[Object]:
        """The trainer's log lines of a pod."""
        return log_lines(self.kubectl("logs", pod))

    def list(self, kinds: str, selector: str = "") -> list[Object]:
        items = json.loads(self.kubectl("get", kinds, "-l", selector, "-o", "json"))["items"]
        assert isinstance(items, list)
        return items

    def job(self, name: str) -> Object:
        return self.get("dtj", name) or {}

    def status(self, name: str) -> Object:
        return self.job(name).get("status") or {}

    def pod(self, job: str, worker: int, attempt: int = 0) -> Object:
        return self.get("pod", names.pod(job, attempt, worker)) or {}

    def patch(self, job: str, **spec: Any) -> None:
        """Change fields of the job's spec."""
        self.kubectl("patch", "dtj", job, "--type=merge", "--patch", json.dumps({"spec": spec}))

    def refusal(self, manifest: Object) -> str:
        """What `kubectl apply` says to a manifest that must be refused."""
        said = self.kubectl("apply", "-f", "-", stdin=json.dumps(manifest), check=False)
        assert self.get("dtj", manifest["metadata"]["name"]) is None, f"not refused: {said}"
        return said

    def condition(self, job: str, kind: str) -> Object:
        conditions = self.status(job).get("conditions") or []
        return next((c for c in conditions if c["type"] == kind), {})

    def until(self, what: str, holds: Callable[[], Any], deadline: float = DEADLINE_SECONDS) -> Any:
        """The first true value of `holds`; on the deadline an error that shows the namespace as it is."""
        end = time.monotonic() + deadline
        while time.monotonic() < end:
            if found := holds():
                return found
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"not within {deadline:.0f} s: {what}\n{self.picture()}")

    def until_phase(self, job: str, phase: str, deadline: float = DEADLINE_SECONDS) -> Object:
        """The status once the job is in `phase`; fails at once when it ended otherwise."""

        def reached() -> Object | None:
            status = self.status(job)
            ended = status.get("phase") in ("Succeeded", "Failed")
            assert not ended or status["phase"] == phase, f"{status['phase']}\n{self.picture()}"
            return status if status.get("phase") == phase else None

        found = self.until(f"phase {phase} of {job}", reached, deadline)
        assert isinstance(found, dict)
        return found

    def until_pod_succeeds(self, name: str) -> None:
        def succeeded() -> bool:
            pod = self.get("pod", name)
            return pod is not None and pod["status"]["phase"] == "Succeeded"

        self.until(f"pod {name} to succeed", succeeded, 60)

    def until_step(self, job: str, step: int, attempt: int = 0) -> Object:
        """The status once that attempt of the job has trained that far."""

        def there() -> Object | None:
            status = self.status(job)
            far = status.get("progress", {}).get("step", 0) >= step
            return status if far and status["attempt"] >= attempt and status["phase"] != "Restarting" else None

        found = self.until(f"step {step} in attempt {attempt} of {job}", there)
        assert isinstance(found, dict)
        return found

    def picture(self) -> str:
        """What a person would look at first."""
        parts = [
            self.kubectl("get", "dtj,pods,pvc,services", "-o", "wide", check=False),
            self.kubectl("get", "dtj", "-o", "jsonpath={.items[*].status}", check=False),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False)[-3000:],
        ]
        for pod in self.list("pods"):
            logs = self.kubectl("logs", pod["metadata"]["name"], "--tail=15", check=False)
            parts.append(f"{pod['metadata']['name']}:\n{logs}")
        return "\n".join(parts)
