"""specs.py: a spec that was read before means what it meant, whoever changed what was made of it."""

import pytest
from dtj_api.fields import InvalidFields
from dtj_operator import children, specs
from dtj_operator.children import Blueprint

ANYTHING: frozenset[str] = frozenset()
SPEC = {"workers": 2, "template": {"spec": {"containers": [{"name": "trainer", "image": "x:1"}]}}}


def test_the_same_words_mean_the_same_and_others_do_not() -> None:
    assert specs.load(SPEC, ANYTHING) is specs.load({**SPEC}, ANYTHING)
    assert specs.load(SPEC | {"workers": 3}, ANYTHING).workers == 3
    host = SPEC | {"network": {"hostNetwork": True}}
    assert specs.load(host, frozenset({"hostNetwork"})).network.host_network
    with pytest.raises(InvalidFields):
        specs.load(host, ANYTHING)


def test_faults_are_told_each_time() -> None:
    told = []
    for _ in range(2):
        with pytest.raises(InvalidFields) as invalid:
            specs.load({"workers": 0}, ANYTHING)
        told.append([str(error) for error in invalid.value.errors])
    assert told[0] == told[1] != []


def test_what_is_made_of_a_remembered_spec_is_each_jobs_own() -> None:
    made = []
    for job in ("one", "other"):
        [pod] = children.pods(Blueprint("ml", job, "uid", 0, specs.load(SPEC, ANYTHING), "trainer:1"), [0])
        pod["spec"]["containers"][0]["image"] = "changed"
        made.append(pod)
    [third] = children.pods(Blueprint("ml", "third", "uid", 0, specs.load(SPEC, ANYTHING), "trainer:1"), [0])
    assert third["spec"]["containers"][0]["image"] == "x:1"
    assert [pod["metadata"]["name"] for pod in made] == ["one-0-0", "other-0-0"]


@pytest.mark.parametrize("odd", [None, [], "gpt", {"workers": 10**30}, {"a": {"b": 10**30}}])
def test_what_is_no_spec_is_told_too(odd: object) -> None:
    with pytest.raises(InvalidFields):
        specs.load(odd, ANYTHING)


def test_a_spec_nested_too_deeply_for_the_fast_way_is_read_the_slow_way() -> None:
    deep: dict[str, object] = {}
    for _ in range(400):
        deep = {"a": deep}
    with pytest.raises(InvalidFields, match="deep"):
        specs.load(SPEC | {"deep": deep}, ANYTHING)
