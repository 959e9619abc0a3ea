"""Every field of `spec`: what a change does, that it can be taken back, and what is said of a value that is refused.

The table is in fields/. A field of the schema without a row fails, and a row without a field.
"""

import re
import ssl
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml
from dtj_api import names
from dtj_testbed import ApiServer

from docs.generate_reference import Field, fields, root_schema
from tests.api.conftest import CRD, environment, kubeconfig_context, prepare
from tests.api.fields.checkpoint import CLAIMS
from tests.api.fields.connection import SteadyApi
from tests.api.fields.play import Lockstep, play_invalid, play_runs
from tests.api.fields.rows import ChildRow, RunRow
from tests.api.fields.table import BY_ID, ROWS, spec_with
from tests.api.harness import Api, Operator, eventually

# all rows share one operator: on one worker
pytestmark = pytest.mark.xdist_group("fields")

SPEC = root_schema(yaml.safe_load(CRD.read_text()))["properties"]["spec"]


def _is_below(field: Field, other: Field) -> bool:
    return field.path.startswith((f"{other.path}.", f"{other.path}[]"))


FIELDS = [*fields(SPEC, "")]
LEAVES = {field.path.removeprefix(".") for field in FIELDS if not any(_is_below(o, field) for o in FIELDS)}
EXAMPLES = {field.path.removeprefix("."): field.schema.get("example") for field in FIELDS if field.is_leaf}


@pytest.fixture(scope="module")
def server() -> Iterator[ApiServer]:
    """One of its own: nodes and PodMonitors are not for other tests."""
    with ApiServer(garbage_collection=True) as server:
        prepare(server)
        server.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", POD_MONITORS)
        yield server


POD_MONITORS = {
    "metadata": {"name": "podmonitors.monitoring.coreos.com"},
    "spec": {
        "group": "monitoring.coreos.com",
        "scope": "Namespaced",
        "names": {"kind": "PodMonitor", "plural": "podmonitors"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def context(server: ApiServer) -> ssl.SSLContext:
    return kubeconfig_context(server)


@pytest.fixture(scope="module")
def apis(server: ApiServer, context: ssl.SSLContext) -> dict[str, Api]:
    """A namespace for each way of playing rows: a LIST finds only what it is for."""
    apis: dict[str, Api] = {name: SteadyApi(server.url, context, name) for name in ("invalid", "children", "run")}
    for name in apis:
        server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    for name in CLAIMS:
        spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
        apis["children"].create("persistentvolumeclaims", {"metadata": {"name": name}, "spec": spec})
    eventually(lambda: _serves_pod_monitors(apis["children"]))
    return apis


def _serves_pod_monitors(api: Api) -> bool:
    try:
        return "items" in api.request("GET", "/apis/monitoring.coreos.com/v1/podmonitors")
    except urllib.error.HTTPError:
        return False


@dataclass(frozen=True)
class Played:
    """What went wrong with each row's valid value, and what was told about its invalid one."""

    failures: dict[str, str]
    told: dict[str, str]


@pytest.fixture(scope="module")
def played(server: ApiServer, apis: dict[str, Api], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """All rows, played once against one operator."""
    settings = environment(server.user_kubeconfig("operator-under-test"), ",".join(apis))
    settings |= {"DTJ_ALLOW": "hostNetwork", "DTJ_SETTLE_SECONDS": "0.5"}
    operator = Operator(settings, tmp_path_factory.mktemp("operator") / "operator.log")
    operator.start()
    try:
        told = play_invalid(apis["invalid"], ROWS)
        failures = Lockstep(apis["children"], [row for row in ROWS if isinstance(row, ChildRow)]).play()
        failures |= play_runs(apis["run"], [row for row in ROWS if isinstance(row, RunRow)])
        yield Played(failures, told)
    finally:
        operator.kill()
    assert "Traceback" not in operator.log.read_text()


def test_every_field_has_a_row_and_every_row_a_field() -> None:
    assert {row.path for row in ROWS} == LEAVES
    assert len(BY_ID) == len(ROWS)


@pytest.mark.parametrize("row", BY_ID)
def test_change_has_its_effect_and_can_be_taken_back(played: Played, row: str) -> None:
    if row in played.failures:
        pytest.fail(played.failures[row], pytrace=False)


@pytest.mark.parametrize("row", BY_ID)
def test_invalid_value_is_told_and_nothing_is_made(played: Played, row: str) -> None:
    assert re.search(BY_ID[row].says, played.told[row], re.DOTALL), played.told[row]
    assert "(and was made)" not in played.told[row]


@pytest.mark.parametrize("path", EXAMPLES)
def test_example_is_accepted(apis: dict[str, Api], path: str) -> None:
    manifest = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": "example"},
        "spec": spec_with(path, EXAMPLES[path]),
    }
    api = apis["invalid"]
    api.request("POST", api.path(names.PLURAL) + "?dryRun=All&fieldValidation=Strict", manifest)
