"""webhook/server.py and check.py: an answer for every question, from a cluster in memory."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from dtj_api.fields import FieldError
from dtj_operator.cluster import Object
from dtj_operator.errors import ApiError, NotFound, Refused, Unavailable
from dtj_operator.rehearsal import Rehearsals
from dtj_operator.webhook import server
from dtj_operator.webhook.check import check
from dtj_operator.webhook.review import read

from tests.unit.operator.builders import SCRIPT, SETTINGS, TRAINING
from tests.unit.operator.memory_cluster import MemoryCluster
from tests.unit.operator.test_webhook_review import job, review

GOOD = {"workers": 2, "template": SCRIPT}
BAD = {"workers": 2, "training": TRAINING | {"batch": {"global": 7}}}
BATCH = "spec.training.batch.global"


class Failing(MemoryCluster):
    """An API server that fails whatever is asked of it; with no error, it never answers."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error

    async def create(self, manifest: Object, *, rehearse: bool = False) -> Object:
        await self._fail()
        return manifest

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        await self._fail()
        return None

    async def _fail(self) -> None:
        if self.error is None:
            await asyncio.Event().wait()
        else:
            raise self.error


async def faults(cluster: MemoryCluster, spec: Any, seconds: float = 5) -> list[str]:
    question = read(review("CREATE", job(spec)))
    assert question.job is not None
    return [error.path for error in await check(cluster, Rehearsals(cluster), SETTINGS, question.job, seconds)]


async def test_good_job_has_no_fault_and_nothing_is_made() -> None:
    cluster = MemoryCluster()
    assert await faults(cluster, GOOD) == []
    assert cluster.writes == 0


async def test_faults_of_the_spec_and_of_its_objects_come_together() -> None:
    cluster = MemoryCluster()
    cluster.refuse = {kind: Refused(422, "Invalid", "wrong") for kind in ("Pod", "PersistentVolumeClaim")}
    assert await faults(cluster, BAD | {"checkpoint": {"size": "1Gi"}}) == [BATCH, "spec.checkpoint", "spec.template"]


@pytest.mark.parametrize(
    ("error", "denied"),
    [
        (Refused(422, "Invalid", "wrong"), True),
        (Refused(403, "Forbidden", "violates PodSecurity"), True),
        (Refused(403, "Forbidden", "exceeded quota: q"), False),
    ],
)
async def test_full_quota_is_no_reason_to_deny(error: Refused, denied: bool) -> None:
    cluster = MemoryCluster()
    cluster.refuse = {"Pod": error}
    assert bool(await faults(cluster, GOOD)) == denied


async def test_object_that_is_there_already_is_no_fault() -> None:
    cluster = MemoryCluster()
    cluster.put({"kind": "Pod", "metadata": {"name": "gpt-0-0"}})
    assert await faults(cluster, GOOD) == []


@pytest.mark.parametrize(
    "error", [None, Unavailable(0, "Unreachable", "gone"), ApiError(401, "Unauthorized", "no"), NotFound(404, "", "")]
)
async def test_api_server_that_does_not_answer_denies_nothing_but_what_the_spec_shows(error: Exception | None) -> None:
    named = {"checkpoint": {"claimName": "mine"}}
    assert await faults(Failing(error), GOOD | named, seconds=0.05) == []
    assert await faults(Failing(error), BAD | named, seconds=0.05) == [BATCH]


async def test_access_modes_of_the_claim_are_looked_at_and_its_absence_is_no_fault() -> None:
    cluster = MemoryCluster()
    spec = GOOD | {"checkpoint": {"claimName": "mine"}}
    assert await faults(cluster, spec) == []
    cluster.put({
        "kind": "PersistentVolumeClaim", "metadata": {"name": "mine"}, "spec": {"accessModes": ["ReadWriteOncePod"]},
    })  # fmt: skip
    assert await faults(cluster, spec) == ["spec.checkpoint.claimName"]


# over HTTP


@pytest.fixture
async def client() -> AsyncIterator[TestClient[Any, Any]]:
    cluster = MemoryCluster()
    async with TestClient(TestServer(server.application(cluster, Rehearsals(cluster), SETTINGS))) as client:
        yield client


async def post(client: TestClient[Any, Any], spec: Any) -> dict[str, Any]:
    answer = await client.post("/validate", json=review("CREATE", job(spec)))
    assert answer.status == 200
    response: dict[str, Any] = (await answer.json())["response"]
    return response


async def test_job_is_allowed_or_denied(client: TestClient[Any, Any]) -> None:
    assert await post(client, GOOD) == {"uid": "r", "allowed": True}
    denied = await post(client, BAD)
    assert not denied["allowed"]
    assert denied["status"]["message"].startswith(f"{BATCH}: 7 does not divide by 2")


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'{"kind": "AdmissionReview"}', b"[" * 100_000])
async def test_what_is_no_review_is_a_bad_request(client: TestClient[Any, Any], body: bytes) -> None:
    assert (await client.post("/validate", data=body)).status == 400


async def test_review_of_the_largest_jobs_is_read(client: TestClient[Any, Any]) -> None:
    annotated = {"metadata": {"annotations": {"a": "x" * 3 * 2**20}}, **SCRIPT}
    assert await post(client, {"workers": 2, "template": annotated}) == {"uid": "r", "allowed": True}


async def test_mistake_of_ours_lets_the_job_in_and_is_logged(
    client: TestClient[Any, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fails(*_: object) -> list[FieldError]:
        raise KeyError("nobody thought of this")

    monkeypatch.setattr(server, "check", fails)
    assert await post(client, BAD) == {"uid": "r", "allowed": True}
    assert "ml/gpt: cannot be checked" in caplog.text


async def test_health_is_told(client: TestClient[Any, Any]) -> None:
    assert (await client.get("/healthz")).status == 200
