"""One contender once through one part: a fresh bed, a warm-up, the load, and the wait until all is quiet again."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import orjson
from dtj_testbed import TestbedError

from benchmarks.operator import audit, manifests
from benchmarks.operator.bed import Bed
from benchmarks.operator.client import Client
from benchmarks.operator.contenders import ROOT, Contender
from benchmarks.operator.observer import PODS, Observer, looking, until
from benchmarks.operator.results import Run

WARM_UP_SECONDS = 90.0
QUIET_SECONDS = 3.0
MOST_UNQUIET_SECONDS = 90.0
_CONFIG_MAPS = f"/api/v1/namespaces/{manifests.NAMESPACE}/configmaps"


@dataclass(frozen=True)
class Task:
    """
    Attributes:
        part: `A`, `B`, `C30`, ...
        restart: one pod of the one job is failed, and that is what is measured.
        services: the floor creates each job's service too.
        deadline: seconds after which the contender is told not to have finished.
    """

    part: str
    jobs: int
    workers: int
    deadline: float
    restart: bool = False
    services: bool = False


@dataclass
class _Scene:
    """What a measurement has in hand."""

    bed: Bed
    client: Client
    contender: Contender
    task: Task
    observer: Observer
    tail: audit.Tail
    requests: list[audit.Request] = field(default_factory=list)

    def settled(self) -> bool:
        return self.contender.is_floor or len(self.observer.settled) >= self.task.jobs

    def check(self) -> None:
        self.observer.check()
        self.bed.cluster.processes.check()


async def measure(contender: Contender, task: Task, repeat: int) -> Run:
    """Run it, from an empty bed to an empty bed."""
    load = os.getloadavg()[0]
    crds = [contender.crd()] if contender.crd else []
    with Bed(crds, raised=contender.raised) as bed:
        async with Client(bed.load_kubeconfig) as client:
            if not contender.is_floor:
                contender.start(bed, contender.raised)
            await _warm_up(bed, client, contender)
            async with looking(client, contender, task.workers) as observer:
                scene = _Scene(bed, client, contender, task, observer, audit.Tail(bed.log))
                run = await (_restart(scene, repeat) if task.restart else _create(scene, repeat))
    return Run(**{**vars(run), "load": load})


async def _warm_up(bed: Bed, client: Client, contender: Contender) -> None:
    """One small job (the floor: one pod), made and deleted: watches and connections are there then."""
    if contender.is_floor:
        await client.call("POST", _CONFIG_MAPS, {"metadata": {"name": "floor"}})
    path = PODS if contender.is_floor else contender.jobs_path()
    pods, jobs = (1, 0) if contender.is_floor else (2, 1)
    body = manifests.template() if contender.is_floor else contender.manifest("warm-up", pods)
    async with looking(client, contender, pods) as observer:
        end = time.monotonic() + WARM_UP_SECONDS
        await client.call("POST", path, body | {"metadata": {"name": "warm-up"}})

        def ran() -> bool:
            return len(observer.settled) == jobs and len(observer.running) == pods

        if not await until(ran, WARM_UP_SECONDS, bed.cluster.processes.check):
            raise TestbedError(f"{contender.title} did not even run one small job\n{bed.cluster.processes.logs()}")
        await client.call("DELETE", f"{path}/warm-up", {"propagationPolicy": "Background"})
        while (await client.call("GET", PODS))["items"]:
            if time.monotonic() > end:
                raise TestbedError(f"{contender.title}: the pods of a deleted job stay")
            await asyncio.sleep(0.2)
    await _quiet(audit.Tail(bed.log), [])


async def _create(scene: _Scene, repeat: int) -> Run:
    """Parts A and B: jobs out of nothing."""
    task, observer, bed = scene.task, scene.observer, scene.bed
    scene.tail.skip()
    before = bed.cpu_seconds()
    await _submit(scene)
    pods = task.jobs * task.workers
    finished = await until(lambda: len(observer.running) >= pods and scene.settled(), task.deadline, scene.check)
    cpu = await _settle(scene, before)
    start = min((r.received for r in scene.requests if _submits(r)), default=time.time())
    return _run(scene, repeat, start, pods, dict(observer.running), finished, cpu)


async def _restart(scene: _Scene, repeat: int) -> Run:
    """Part C: one pod of a running gang fails."""
    task, observer, bed, contender = scene.task, scene.observer, scene.bed, scene.contender
    await _submit(scene)
    if not await until(lambda: len(observer.running) >= task.workers and scene.settled(), task.deadline, scene.check):
        return _run(scene, repeat, time.time(), task.workers, {}, False, {}, note="the gang never ran")
    await _quiet(scene.tail, [])
    before, old = bed.cpu_seconds(), set(observer.running)
    scene.tail.skip()
    observer.settled.clear()
    observer.restarts = 1 if contender.replaces_gang else 0
    pods = sorted((await scene.client.call("GET", PODS))["items"], key=lambda pod: str(pod["metadata"]["name"]))
    status = manifests.failed_status(pods[1], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    await scene.client.call("PATCH", f"{PODS}/{pods[1]['metadata']['name']}/status", status)
    expected = task.workers if contender.replaces_gang else 1

    def fresh() -> dict[str, float]:
        return {uid: when for uid, when in observer.running.items() if uid not in old}

    def done() -> bool:
        # the status of a job that replaces one pod may never have shown it
        return len(fresh()) >= expected and (scene.settled() or not contender.replaces_gang)

    finished = await until(done, task.deadline, scene.check)
    cpu = await _settle(scene, before)
    start = next(r.received for r in scene.requests if r.who == audit.LOAD and r.resource == "pods/status")
    note = "" if contender.replaces_gang else "replaces the failed pod only"
    return _run(scene, repeat, start, expected, fresh(), finished, cpu, note=note)


async def _submit(scene: _Scene) -> None:
    task, contender = scene.task, scene.contender
    if contender.is_floor:
        await _submit_floor(scene)
        return
    path = contender.jobs_path()
    bodies = [orjson.dumps(contender.manifest(f"job-{number}", task.workers)) for number in range(task.jobs)]
    await scene.client.post_all((path, body) for body in bodies)


async def _submit_floor(scene: _Scene) -> None:
    task, bed = scene.task, scene.bed
    owner = await scene.client.call("GET", f"{_CONFIG_MAPS}/floor")
    words: Sequence[str] = [str(task.jobs), str(task.workers), owner["metadata"]["uid"]]
    environment: Mapping[str, str] = {"KUBECONFIG": str(bed.load_kubeconfig), "PYTHONPATH": str(ROOT)}
    more = ["services"] if task.services else []
    bed.start([sys.executable, "-m", "benchmarks.operator.floor", *words, *more], environment)


def _submits(request: audit.Request) -> bool:
    return request.who == audit.LOAD and request.verb == "create" and request.namespace == manifests.NAMESPACE


async def _settle(scene: _Scene, before: Mapping[str, float]) -> dict[str, float]:
    """CPU seconds by process since `before`, once nothing is written any more."""
    await _quiet(scene.tail, scene.requests)
    return {name: seconds - before.get(name, 0.0) for name, seconds in scene.bed.cpu_seconds().items()}


async def _quiet(tail: audit.Tail, requests: list[audit.Request]) -> None:
    """Collect requests until nothing has been written for a while."""
    end = time.monotonic() + MOST_UNQUIET_SECONDS
    last = time.time()
    while time.time() - last < QUIET_SECONDS and time.monotonic() < end:
        await asyncio.sleep(0.25)
        gained = tail.read()
        requests += gained
        last = max((r.answered for r in gained if r.writes and not r.resource.startswith("nodes")), default=last)


def _run(
    scene: _Scene,
    repeat: int,
    start: float,
    pods: int,
    running: Mapping[str, float],
    finished: bool,
    cpu: Mapping[str, float],
    note: str = "",
) -> Run:
    task, observer = scene.task, scene.observer
    created = [r.answered for r in scene.requests if r.made_a_pod and r.received >= start]
    settled = running if scene.contender.is_floor else observer.settled
    jobs = pods if scene.contender.is_floor else task.jobs
    moments = {
        "created": audit.nth(created, pods),
        "running": audit.nth(running.values(), pods),
        "settled": audit.nth(settled.values(), jobs),
    }
    ours = [r for r in scene.requests if r.namespace == manifests.NAMESPACE]
    return Run(
        part=task.part,
        contender=scene.contender.name,
        repeat=repeat,
        jobs=task.jobs,
        workers=task.workers,
        seconds={name: None if moment is None else round(moment - start, 3) for name, moment in moments.items()},
        reached={"created": len(created), "running": len(running), "settled": len(settled)},
        finished=finished,
        cpu={name: round(seconds, 2) for name, seconds in cpu.items()},
        memory={name: round(peak, 1) for name, peak in scene.bed.memory_peaks().items()},
        requests=tuple(audit.tally(ours)),
        note=note,
    )
