"""Manifests made at random: each is refused or answered, and the operator goes on as if nothing had been."""

import json
import os
import urllib.error
from typing import Any

import pytest
from dtj_api import names
from hypothesis import HealthCheck, Phase, given, settings

from tests.api.fields.connection import SteadyApi
from tests.api.fields.generate import specs
from tests.api.harness import Api, Operator, eventually, run_all, script

# a few in every run; thousands where asked for
MANIFESTS = int(os.environ.get("DTJ_TEST_MANIFESTS", "150"))


def random_specs(count: int) -> list[Any]:
    """The same ones in every run."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(specs())
    def collect(spec: Any) -> None:
        found.append(spec)

    collect()
    return found


@pytest.fixture
def steady(api: Api) -> Api:
    return SteadyApi(api.url, api.context, api.namespace)


def test_random_manifests_are_answered_and_leave_nothing_behind(steady: Api, operator: Operator) -> None:
    made = random_specs(MANIFESTS)
    refused = [told for n, spec in enumerate(made) if (told := refusal(steady, "POST", f"m-{n}", spec))]
    assert all(told["code"] in (400, 422) for told in refused), refused
    accepted = len(steady.list(names.PLURAL))
    assert accepted + len(refused) == MANIFESTS
    # a generator of which the schema refuses all, or none, would show nothing
    assert MANIFESTS / 4 < accepted < MANIFESTS * 3 / 4
    eventually(lambda: not unanswered(steady))

    for job, spec in zip(steady.list(names.PLURAL), reversed(made), strict=False):
        refusal(steady, "PUT", job["metadata"]["name"], spec, job["metadata"]["resourceVersion"])
    eventually(lambda: not unanswered(steady))

    steady.submit("sound", script())
    run_all(steady, "sound")
    for job in steady.list(names.PLURAL):
        steady.delete(names.PLURAL, job["metadata"]["name"])
    eventually(lambda: gone(steady))
    assert "Traceback" not in operator.log.read_text()


def refusal(api: Api, method: str, name: str, spec: Any, version: str | None = None) -> dict[str, Any] | None:
    """What the API server says to a manifest it does not take."""
    metadata = {"name": name} | ({"resourceVersion": version} if version else {})
    manifest = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec}
    try:
        api.request(method, api.path(names.PLURAL, name if version else ""), manifest)
    except urllib.error.HTTPError as error:
        told: dict[str, Any] = json.loads(error.read())
        return told
    return None


def unanswered(api: Api) -> list[str]:
    """Jobs whose spec, as it is now, has no word in the status yet, those of other controllers aside."""
    api.reap()
    return [
        job["metadata"]["name"]
        for job in api.list(names.PLURAL)
        if job["spec"].get("managedBy", names.MANAGER) == names.MANAGER
        and (job.get("status") or {}).get("observedGeneration") != job["metadata"]["generation"]
    ]


def gone(api: Api) -> bool:
    api.reap()
    return not any(api.list(plural) for plural in (names.PLURAL, "pods", "services"))
