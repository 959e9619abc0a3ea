"""What tests of whole reconciles hold in their hands: an operator on a cluster in memory, and jobs for it."""

from collections.abc import Callable
from datetime import datetime, timedelta

from dtj_api.progress import Progress
from dtj_operator.informer import Cache
from dtj_operator.pods import Pod
from dtj_operator.reconciler import Reconciler
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.snapshot import JobKey
from dtj_operator.workqueue import Requeue

from tests.unit.operator.builders import NOW, SCRIPT, SETTINGS
from tests.unit.operator.memory_cluster import NAMESPACE, Killed, MemoryCluster

KEY = JobKey(NAMESPACE, "gpt")
AGAIN = {"workers": 3, "template": SCRIPT, "checkpoint": {"size": "1Gi", "accessModes": ["ReadWriteMany"]}}
GANG = {**AGAIN, "restart": {"policy": "Never"}}


class NoProgress:
    """Stands for pods that serve no progress."""

    record: Progress | None = None

    def latest(self, key: JobKey, chief: Pod | None, pause: float | None = None) -> Progress | None:
        return self.record

    def forget(self, key: JobKey) -> None:
        pass


class Operator:
    """Reconciles one job again and again on a clock of its own; a new process after each kill."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.now: datetime = NOW
        self.progress = NoProgress()

    async def step(self, cache: Cache | None = None) -> Requeue:
        """One look, by default of one who has heard of everything."""
        return await self.process(cache or self.cluster.as_watched()).reconcile(KEY)

    def process(self, known: Cache, under_load: Callable[[], bool] = lambda: False) -> Reconciler:
        """One that remembers what a process does, from look to look."""
        rehearsals = Rehearsals(self.cluster)
        return Reconciler(self.cluster, known, SETTINGS, self.progress, rehearsals, under_load, self._tick)

    def _tick(self) -> datetime:
        """No two looks at the clock see the same time."""
        self.now += timedelta(microseconds=1)
        return self.now

    async def settle(self, rounds: int = 20) -> None:
        """Until nothing is written any more. Later looks that were asked for are taken."""
        quiet = 0
        for _ in range(rounds):
            before = self.cluster.writes
            try:
                requeue = await self.step()
            except Killed:
                continue
            quiet = quiet + 1 if self.cluster.writes == before else 0
            if quiet == 3:
                return
            self.now += timedelta(seconds=requeue.after or 1)
        raise AssertionError("it never comes to rest")


def pods(cluster: MemoryCluster) -> list[str]:
    return [pod["metadata"]["name"] for pod in cluster.of_kind("Pod")]


def run_all(cluster: MemoryCluster) -> None:
    for name in pods(cluster):
        cluster.run_pod(name)
