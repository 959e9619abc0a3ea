"""What can happen to a job, played on its pods; each returns the outcome in a word or two.

What does not happen is waited for a little longer than it would have taken (`PATIENCE`).
"""

import http.server
import json
import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

from dtj_api import names

from tests.api.fields.rows import Scene
from tests.api.harness import Api, eventually, now, run_all, script

# seconds; the short times that rows set are 1 or 2
PATIENCE = 3.5


def soon_or(look: Callable[[], str | None], otherwise: str) -> str:
    """What `look` finds within PATIENCE."""
    end = time.monotonic() + PATIENCE
    return eventually(lambda: look() or (otherwise if time.monotonic() > end else None))


def fate(api: Api, job: str, after: int = 0) -> str | None:
    """Whether a failure of attempt `after` ended the job, with its reason, or led to another attempt."""
    status = api.status(job)
    if status.get("phase") == "Failed":
        return f"failed: {api.condition(job, 'Failed')['reason']}"
    return "restarted" if status.get("attempt", 0) > after else None


def end_all(api: Api, job: str, exit_code: int, **end: Any) -> None:
    """All workers of the attempt at hand end alike: nobody is waited for to tell more."""
    attempt = str(api.status(job)["attempt"])
    for pod in api.pods(job):
        if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == attempt:
            api.end_pod(pod["metadata"]["name"], exit_code, **end)


def exits(code: int, **end: Any) -> Scene:
    """All workers run, and then end with this code."""

    def scene(api: Api, job: str) -> str:
        run_all(api, job)
        end_all(api, job, code, **end)
        return eventually(lambda: fate(api, job))

    return scene


def last_words(code: int, words: str) -> Scene:
    """All workers end with this code; whether these words are told."""

    def scene(api: Api, job: str) -> str:
        exits(code)(api, job)
        return "told" if words in api.status(job)["lastFailure"]["message"] else "not told"

    return scene


def exits_on_node_with(condition: str) -> Scene:
    """The workers fail on a node that has this condition."""

    def scene(api: Api, job: str) -> str:
        node = make_node(api, job, {condition: "True"})
        api.until(job, "Created")
        for pod in api.pods(job):
            api.run_pod(pod["metadata"]["name"], node=node)
        api.until(job, "Running")
        end_all(api, job, 1)
        return eventually(lambda: fate(api, job))

    return scene


def make_node(api: Api, name: str, conditions: dict[str, str]) -> str:
    api.request("POST", "/api/v1/nodes", {"metadata": {"name": name}})
    set_node(api, name, {"Ready": "True", **conditions})
    return name


def set_node(api: Api, name: str, conditions: dict[str, str]) -> None:
    listed = [{"type": kind, "status": status, "lastTransitionTime": now()} for kind, status in conditions.items()]
    api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"conditions": listed}})


def loses_its_node(api: Api, job: str) -> str:
    node = make_node(api, job, {})
    api.until(job, "Created")
    pods = [pod["metadata"]["name"] for pod in api.pods(job)]
    for pod in pods:
        api.run_pod(pod, node=node)
    api.until(job, "Running")
    set_node(api, node, {"Ready": "Unknown"})
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": now()}
    for pod in pods:
        api.request("PATCH", api.path("pods", pod) + "/status", {"status": {"conditions": [unready]}})
    return soon_or(lambda: fate(api, job), "waits")


def never_starts(api: Api, job: str) -> str:
    """The workers get a node, and their containers do not run."""
    api.until(job, "Created")
    for pod in api.pods(job):
        api.bind(pod["metadata"]["name"])

    def look() -> str | None:
        stalled = [c for c in api.status(job)["conditions"] if c["type"] == "Stalled" and c["status"] == "True"]
        return "stalled" if stalled else fate(api, job)

    return soon_or(look, "waits")


def fails_twice_with_a_pause(api: Api, job: str) -> str:
    """A failure, and another one more than a second after it."""
    exits(1)(api, job)
    first = time.monotonic()
    run_next_attempt(api, job)
    eventually(lambda: time.monotonic() > first + 1.2)
    end_all(api, job, 1)
    return eventually(lambda: fate(api, job, after=1))


def run_next_attempt(api: Api, job: str) -> None:
    api.until(job, "Created")
    for pod in api.pods(job):
        if pod["metadata"]["labels"][names.LABEL_ATTEMPT] == str(api.status(job)["attempt"]):
            api.run_pod(pod["metadata"]["name"])
    api.until(job, "Running")


def pauses_after_a_failure(api: Api, job: str) -> str:
    """Whether the pods of the next attempt are there soon after a failure."""
    exits(1)(api, job)
    return soon_or(lambda: "pods at once" if api.condition(job, "Created")["status"] == "True" else None, "pause")


def chief_succeeds(api: Api, job: str) -> str:
    chief = run_all(api, job)[0]
    api.end_pod(chief, 0)
    eventually(lambda: api.status(job)["workers"]["succeeded"] == 1)
    return soon_or(lambda: "succeeded" if api.status(job)["phase"] == "Succeeded" else None, "goes on")


def lasts(api: Api, job: str) -> str:
    """Whether the job ends by itself, be its workers running yet or not."""
    return soon_or(lambda: fate(api, job), "goes on")


def is_kept_or_not(api: Api, job: str) -> str:
    """Whether a job that has succeeded stays."""
    run_all(api, job)
    end_all(api, job, 0)
    return soon_or(lambda: None if api.get(names.PLURAL, job) else "deleted", "kept")


def leaves_pods(api: Api, job: str) -> str:
    """Worker 1 fails for good while worker 0 runs: whose pods stay."""
    pods = run_all(api, job)
    api.end_pod(pods[1], 1)
    api.until(job, "Failed")

    def left() -> str:
        return " ".join(
            p["metadata"]["labels"][names.LABEL_WORKER]
            for p in api.pods(job)
            if not p["metadata"].get("deletionTimestamp")
        )

    end = time.monotonic() + PATIENCE
    return eventually(lambda: "none" if not left() else left() if time.monotonic() > end else "")


def stops_or_goes_on(api: Api, job: str) -> str:
    """What the operator makes of the spec as it is now."""

    def look() -> str | None:
        found = api.job(job)
        if found.get("status", {}).get("observedGeneration") != found["metadata"]["generation"]:
            return None
        conditions = {c["type"]: c for c in found["status"]["conditions"]}
        suspended = conditions.get("Suspended", {"status": "False", "reason": ""})
        if conditions["Created"]["status"] == "True" and suspended["reason"] != "Suspending":
            return f"{len(api.pods(job))} pods"
        return "suspended, no pod" if suspended["status"] == "True" and not api.pods(job) else None

    return eventually(look)


def is_left_alone(api: Api, job: str) -> str:
    """Whether the operator takes the job up: by the time a later one is made, it would have."""
    canary = f"{job}-canary"
    api.submit(canary, script(workers=1))
    api.until(canary, "Created")
    return "taken" if api.status(job) or api.pods(job) else "left alone"


def claim_after_deletion(api: Api, job: str) -> str:
    """Whether the claim outlives the job."""
    api.until(job, "Created")
    api.delete(names.PLURAL, job)

    def look() -> str | None:
        if api.pods(job) or any(s["metadata"]["name"].startswith(job) for s in api.list("services")):
            return None
        claim = api.get("persistentvolumeclaims", names.checkpoint_claim(job))
        owners = claim["metadata"].get("ownerReferences") if claim else None
        if claim is None or claim["metadata"].get("deletionTimestamp"):
            return "claim deleted"
        return None if owners else "claim kept"

    return eventually(look)


class _Steps(http.server.BaseHTTPRequestHandler):
    """A step more each time it is asked."""

    steps = 0

    def do_GET(self) -> None:
        type(self).steps += 1
        body = json.dumps({"step": self.steps, "totalSteps": 1000}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def progress_is_asked_for(api: Api, job: str) -> str:
    """Whether progress is asked for a second time soon."""
    handler = type("Steps", (_Steps,), {})
    port = api.job(job)["spec"]["monitoring"]["port"]
    api.until(job, "Created")
    chief, *others = (pod["metadata"]["name"] for pod in api.pods(job))
    # an address of its own: the port is the job's, not ours to choose
    address = f"127.0.0.{2 + zlib.crc32(job.encode()) % 250}"
    with http.server.ThreadingHTTPServer((address, port), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        api.run_pod(chief, ip=address)
        for pod in others:
            api.run_pod(pod)
        eventually(lambda: api.status(job).get("progress"))
        outcome = soon_or(lambda: "often" if api.status(job)["progress"]["step"] > 1 else None, "rarely")
        server.shutdown()
    return outcome
