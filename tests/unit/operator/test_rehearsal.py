"""rehearsal.py: the API server is not asked the same twice, and is asked again once it has said no."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from dtj_operator.cluster import Object
from dtj_operator.errors import Refused
from dtj_operator.rehearsal import REMEMBERED_SECONDS, Rehearsals
from dtj_operator.snapshot import Job, read_job

from tests.unit.operator.builders import SCRIPT
from tests.unit.operator.memory_cluster import MemoryCluster

POD: Object = {"kind": "Pod", "metadata": {"name": "gpt-0-0", "namespace": "ml"}}
CLAIM: Object = {"kind": "PersistentVolumeClaim", "metadata": {"name": "gpt", "namespace": "ml"}}


class Asked(MemoryCluster):
    """Counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    async def create(self, manifest: Object, *, rehearse: bool = False) -> Object:
        assert rehearse
        self.asked += 1
        return await super().create(manifest, rehearse=True)


def job(spec: Any = None) -> Job:
    found = read_job(MemoryCluster().submit("gpt", spec or {"workers": 2, "template": SCRIPT}))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("second", "manifest", "asked"),
    [
        (job(), POD, 1),
        (replace(job(), name="other", uid="2"), POD, 1),
        (replace(job(), namespace="another"), POD, 2),
        (job({"workers": 3, "template": SCRIPT}), POD, 2),
        # its name may be taken
        (job(), CLAIM, 2),
        # cannot be compared
        (job({"workers": 2**70}), POD, 2),
    ],
)
async def test_of_the_same_words_the_api_server_is_asked_once(second: Job, manifest: Object, asked: int) -> None:
    cluster = Asked()
    rehearsals = Rehearsals(cluster)
    first = second if second.spec.get("workers") == 2**70 else job()
    await rehearsals.ask(first, manifest)
    await rehearsals.ask(second, manifest)
    assert cluster.asked == asked


async def test_a_no_is_not_remembered_and_ends_what_is_remembered_of_its_namespace() -> None:
    cluster = Asked()
    rehearsals = Rehearsals(cluster)
    cluster.refuse = {"Pod": Refused(403, "Forbidden", "exceeded quota")}
    for _ in range(2):
        with pytest.raises(Refused):
            await rehearsals.ask(job(), POD)
    cluster.refuse = {}
    elsewhere = replace(job(), namespace="another")
    await rehearsals.ask(job(), POD)
    await rehearsals.ask(elsewhere, POD)
    rehearsals.doubt("ml")
    await rehearsals.ask(job(), POD)
    await rehearsals.ask(elsewhere, POD)
    assert cluster.asked == 5


async def test_a_yes_is_not_remembered_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, now = Asked(), 100.0
    rehearsals = Rehearsals(cluster)
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)
    await rehearsals.ask(job(), POD)
    now += REMEMBERED_SECONDS - 1
    await rehearsals.ask(job(), POD)
    assert cluster.asked == 1
    now += 2
    await rehearsals.ask(job(), POD)
    assert cluster.asked == 2
