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

    def list(self, kinds: str, selector: str = "") -> list[Object]:
        items = json.loads(self.kubectl("get", kinds, "-l", selector, "-o", "json"))["items"]
        assert isinstance(items, list)
        return items

    def job(self, name: str) -> Object:
        return self.get("dtj", name) or {}

    def status(self, name: str) -> Object:
        return self.job(name).get("status") or {}

    def pod(self, job: str, worker: int) -> Object:
        return self.get("pod", names.pod(job, 0, worker)) or {}

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

    def until_step(self, job: str, step: int) -> Object:
        """The status once the job has trained that far."""
        self.until(f"step {step} of {job}", lambda: self.status(job).get("progress", {}).get("step", 0) >= step)
        return self.status(job)

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
