"""`python -m benchmarks.operator.calls`: what each of an operator's calls costs the API server and etcd.

One API server with nothing behind it; each call is made 1,000 times, 16 at a time, and the CPU seconds of the two
processes are divided by that. It is what bounds part B of the benchmark: on two cores, 1,000 jobs take as long as
their calls take CPU.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dtj_api import names
from dtj_operator.children.network_policy import build as network_policy
from dtj_operator.children.service import build as service
from dtj_testbed import ApiServer

from benchmarks.operator import manifests
from benchmarks.operator.bed import cpu_of
from benchmarks.operator.client import Client, Object
from benchmarks.operator.contenders import OURS

COUNT, IN_FLIGHT = 1000, 16
CORE = f"/api/v1/namespaces/{manifests.NAMESPACE}"
POLICIES = f"/apis/networking.k8s.io/v1/namespaces/{manifests.NAMESPACE}/networkpolicies"


@dataclass(frozen=True)
class Cost:
    """Milliseconds of CPU for one call."""

    call: str
    api_server: float
    etcd: float


class Bench:
    """Makes calls, numbered from 0, and looks at what they cost."""

    def __init__(self, server: ApiServer, client: Client) -> None:
        self._server, self._client = server, client
        self._jobs: dict[int, Object] = {}

    async def costs(self) -> list[Cost]:
        plain: list[tuple[str, Callable[[int], Awaitable[object]]]] = [
            ("POST config map", lambda n: self._post(f"{CORE}/configmaps", {"metadata": {"name": f"c-{n}"}})),
            ("POST event", lambda n: self._post(f"{CORE}/events", _event(n))),
            ("POST service", lambda n: self._post(f"{CORE}/services", service(manifests.blueprint(f"job-{n}")))),
            ("POST network policy", lambda n: self._post(POLICIES, _policy(n))),
            ("POST pod, dry run", lambda n: self._post(f"{CORE}/pods?dryRun=All", _pod(n))),
            ("POST pod", lambda n: self._post(f"{CORE}/pods", _pod(n))),
            ("POST job", self._post_job),
            ("PATCH job's status, first", lambda n: self._patch(n, "False")),
            ("PATCH job's status, again", lambda n: self._patch(n, "True")),
            ("PATCH job's status, empty", self._confirm),
            ("PUT job's status", self._put),
        ]
        return [await self._cost(name, call) for name, call in plain]

    async def _cost(self, name: str, call: Callable[[int], Awaitable[object]]) -> Cost:
        before, turns = self._cpu(), asyncio.Semaphore(IN_FLIGHT)

        async def one(number: int) -> None:
            async with turns:
                await call(number)

        await asyncio.gather(*map(one, range(COUNT)))
        after = self._cpu()
        used = {process: (after[process] - before[process]) * 1000 / COUNT for process in after}
        cost = Cost(name, round(used["kube-apiserver"], 2), round(used["etcd"], 2))
        print(f"{name}: {cost.api_server} ms", file=sys.stderr, flush=True)
        return cost

    def _cpu(self) -> dict[str, float]:
        return {name: cpu_of(pid) for name, pid in self._server.processes.pids().items()}

    async def _post(self, path: str, body: Object) -> Object:
        return await self._client.call("POST", path, body)

    async def _post_job(self, number: int) -> None:
        self._jobs[number] = await self._post(OURS.jobs_path(), manifests.dtj(f"job-{number}", 2))

    async def _patch(self, number: int, created: str) -> None:
        body = {"metadata": self._identity(number), "status": _status(created)}
        self._jobs[number] = await self._client.call("PATCH", self._status_path(number), body)

    async def _confirm(self, number: int) -> None:
        body = {"metadata": self._identity(number), "status": {}}
        await self._client.call("PATCH", self._status_path(number), body)

    async def _put(self, number: int) -> None:
        job = self._jobs[number]
        place = {"name": job["metadata"]["name"], "namespace": manifests.NAMESPACE}
        body = {key: job[key] for key in ("apiVersion", "kind")} | {"status": _status("False")}
        await self._client.call("PUT", self._status_path(number), body | {"metadata": place | self._identity(number)})

    def _identity(self, number: int) -> Object:
        metadata = self._jobs[number]["metadata"]
        return {name: metadata[name] for name in ("uid", "resourceVersion")}

    def _status_path(self, number: int) -> str:
        return f"{OURS.jobs_path()}/job-{number}/status"


def _pod(number: int) -> Object:
    return {"metadata": {"name": f"pod-{number}"}, **manifests.template()}


def _policy(number: int) -> Object:
    policy = network_policy(manifests.blueprint(f"job-{number}"))
    assert policy is not None
    return policy


def _event(number: int) -> Object:
    about = {"kind": names.KIND, "namespace": manifests.NAMESPACE, "name": "job"}
    return {"metadata": {"name": f"event-{number}"}, "involvedObject": about, "reason": "Any", "message": "words"}


def _status(created: str) -> Object:
    """As of a job that has just begun."""

    def condition(kind: str, status: str) -> Object:
        time = "2026-01-01T00:00:00Z"
        words = {"reason": "Creating", "message": "creating the service and 2 worker pods", "lastTransitionTime": time}
        return {"type": kind, "status": status, "observedGeneration": 1, **words}

    return {
        "phase": "Pending",
        "attempt": 0,
        "worldSize": 2,
        "startTime": "2026-01-01T00:00:00Z",
        "workers": {"desired": 2, "active": 0, "ready": 0, "succeeded": 0, "failed": 0, "summary": "0/2"},
        "conditions": [condition("Created", created), condition("Running", "False")],
    }


async def measure() -> list[Cost]:
    with ApiServer(crds=[OURS.crd()] if OURS.crd else []) as server:
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": manifests.NAMESPACE}})
        async with Client(server.user_kubeconfig("load", ["system:masters"])) as client:
            return await Bench(server, client).costs()


def main() -> int:
    costs = asyncio.run(measure())
    print("| call | API server, ms of CPU | etcd |\n|---|--:|--:|")
    for cost in costs:
        print(f"| {cost.call} | {cost.api_server:.2f} | {cost.etcd:.2f} |")
    print(json.dumps({cost.call: cost.api_server for cost in costs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
