"""Every rule of the oracle can fail: made-up lives, a good one and what is wrong with others."""

import json
from dataclasses import replace

import pytest
from dtj_api import names

from tests.api.harness import Object
from tests.chaos.oracle import Record, differences, judge, violations
from tests.chaos.recorder import Seen

# kind, type of the event, object
Change = tuple[str, str, Object]
Changes = list[Change]
UID = "11111111-2222-3333-4444-555555555555"


def job(phase: str, attempt: int, *conditions: str, restarts: int = 0, **status: object) -> Change:
    found = [{"type": c.split("=")[0], "status": c.split("=")[1], "reason": "Any"} for c in conditions]
    told = {"phase": phase, "attempt": attempt, "restarts": restarts, "conditions": found, **status}
    return names.PLURAL, "MODIFIED", {"kind": names.KIND, "metadata": metadata("gpt", UID), "status": told}


def pod(
    type_: str, attempt: int, worker: int = 0, *, phase: str = "Running", uid: str = "", deleting: bool = False
) -> Change:
    name = f"gpt-{attempt}-{worker}"
    labels = {names.LABEL_JOB: "gpt", names.LABEL_ATTEMPT: str(attempt), names.LABEL_WORKER: str(worker)}
    end = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    data = metadata(name, uid or f"uid-of-{name}", labels=labels, ownerReferences=[{"uid": UID}], **end)
    return "pods", type_, {"kind": "Pod", "metadata": data, "status": {"phase": phase}}


def event(reason: str) -> Change:
    return "events", "ADDED", {"kind": "Event", "reason": reason, "metadata": metadata(reason, reason)}


def metadata(name: str, uid: str, **more: object) -> Object:
    return {"name": name, "uid": uid, "namespace": "chaos-0", **more}


def record(changes: Changes, **more: object) -> Record:
    seen = [Seen(kind, type_, version, thing) for version, (kind, type_, thing) in enumerate(changes)]
    last = {(one.kind, one.name): one.object for one in seen}
    for one in seen:
        if one.type == "DELETED":
            last.pop((one.kind, one.name))
    return replace(Record(seen, list(last.values())), **more)  # type: ignore[arg-type]


FAILED = {"lastFailure": {"reason": "SIGKILL", "time": "2026-01-01T00:00:00Z"}}
GOOD: Changes = [
    job("Pending", 0, "Running=False"),
    pod("ADDED", 0),
    job("Running", 0, "Running=True"),
    event("Started"),
    pod("MODIFIED", 0, phase="Failed"),
    job("Restarting", 1, "Running=False", restarts=1, **FAILED),
    pod("ADDED", 1),
    pod("MODIFIED", 0, phase="Failed", deleting=True),
    pod("DELETED", 0, phase="Failed", deleting=True),
    job("Pending", 1, "Running=False", restarts=1, **FAILED),
    job("Running", 1, "Running=True", restarts=1, **FAILED),
    pod("MODIFIED", 1, phase="Succeeded"),
    job("Succeeded", 1, "Running=False", "Succeeded=True", restarts=1, **FAILED),
]


def without(*indices: int) -> Changes:
    return [change for index, change in enumerate(GOOD) if index not in indices]


def after(index: int, *changes: Change) -> Changes:
    return [*GOOD[: index + 1], *changes, *GOOD[index + 1 :]]


def instead(index: int, *changes: Change) -> Changes:
    return [*GOOD[:index], *changes, *GOOD[index + 1 :]]


def test_a_life_that_is_as_it_should_be() -> None:
    assert judge(record(GOOD), record(GOOD)) == []


def test_a_step_between_may_be_merged() -> None:
    assert judge(record(without(9)), record(GOOD)) == []


def test_uids_times_and_versions_differ_in_any_two_lives() -> None:
    other = json.dumps(GOOD).replace(UID, UID[::-1]).replace("2026-01-01", "2027-02-02").replace("chaos-0", "chaos-7")
    assert judge(record(json.loads(other)), record(GOOD)) == []


def suspended(*between: Change) -> Changes:
    attempts = [{"attempt": 0, "reason": "Suspended"}]
    return [
        job("Running", 0),
        pod("ADDED", 0),
        job("Suspended", 0, attempts=attempts),
        *between,
        job("Pending", 1, attempts=attempts),
        pod("ADDED", 1),
    ]


ALONE: dict[str, tuple[Changes, str]] = {
    "a rank made twice": (
        after(8, pod("ADDED", 1, uid="another"), pod("DELETED", 1, uid="another")),
        "2 pods were made for worker 0 of attempt 1",
    ),
    "a rank that lives twice": (
        after(6, pod("ADDED", 1, uid="another")), "2 live pods of worker 0 of attempt 1 at once",
    ),
    "attempts that overlap by two": (
        [
            job("Running", 0), pod("ADDED", 0), job("Running", 1), pod("ADDED", 1), job("Running", 2), pod("ADDED", 2),
        ],
        "pods of attempts [0, 1, 2] live at once",
    ),
    "a pod before its attempt": (
        [job("Running", 0), pod("ADDED", 1)], "gpt-1-0 was made while the status said attempt 0",
    ),
    "a straggler": ([job("Running", 1), pod("ADDED", 0)], "gpt-0-0 was made while the status said attempt 1"),
    "a pod of a job that is over": ([job("Failed", 0), pod("ADDED", 0)], "gpt-0-0 was made for a job that was Failed"),
    "a pod of a suspended job": (
        [job("Suspended", 0), pod("ADDED", 0)], "gpt-0-0 was made for a job that was Suspended",
    ),
    "no wait for a suspended attempt": (
        suspended(pod("MODIFIED", 0, deleting=True)),
        "gpt-1-0 was made while gpt-0-0 of a suspended attempt were there",
    ),
    "an attempt left out": ([job("Running", 0), job("Running", 2)], "attempt went from 0 to 2"),
    "an attempt taken back": ([job("Running", 1), job("Running", 0)], "attempt went from 1 to 0"),
    "restarts that jump": ([job("Running", 0), job("Running", 0, restarts=2)], "restarts went from 0 to 2"),
    "a job that goes on after its end": (
        [job("Succeeded", 0), job("Running", 0)], "the job went from Succeeded to Running",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), ALONE.values(), ids=ALONE.keys())
def test_what_is_wrong_with_any_life(changes: Changes, problem: str) -> None:
    assert problem in violations(record(changes))


def test_a_suspended_attempt_that_was_waited_for() -> None:
    assert violations(record(suspended(pod("DELETED", 0, deleting=True)))) == []


def test_what_is_left_after_the_deletion() -> None:
    assert violations(record(GOOD, left=["services gpt-1"])) == ["left behind: services gpt-1"]


BESIDE: dict[str, tuple[Changes, str]] = {
    "a pod too many": (after(1, pod("ADDED", 0, 1)), "3 pods made, undisturbed 2"),
    "a pod that was not deleted": (without(7, 8), "0 pods deleted, undisturbed 1"),
    "a phase lost": (without(5), "phases: Restarting/1 was lost"),
    "a phase that is new": (after(10, job("Restarting", 1, restarts=1)), "phases: Restarting/1 is out of order or new"),
    "a condition lost": (instead(2, job("Running", 0, "Running=False")), "condition Running: True Any/0 was lost"),
    "a condition that is new": (
        after(10, job("Running", 1, "Running=True", "Stalled=True", restarts=1)),
        "condition Stalled: True Any/1 is out of order or new",
    ),
    "an event told twice": (after(3, event("Started")), "event Started told 1 times too often"),
    "an event lost": (without(3), "events lost: {'Started': 1}, where 0 may be"),
    "another count of restarts": (
        instead(12, job("Succeeded", 1, "Running=False", "Succeeded=True", restarts=2, **FAILED)),
        ".status.restarts is 2, undisturbed 1",
    ),
    "another last failure": (
        instead(12, job("Succeeded", 1, "Running=False", "Succeeded=True", restarts=1, lastFailure={"reason": "Lost"})),
        ".status.lastFailure.reason is 'Lost', undisturbed 'SIGKILL'",
    ),
    "an object too many": (after(1, pod("ADDED", 0, 1)), "at the end there is a Pod gpt-0-1"),
    "an object that is missing": (
        after(11, pod("DELETED", 1, phase="Succeeded")), "at the end there is no Pod gpt-1-0",
    ),
    "an object that is another": (
        instead(11, pod("MODIFIED", 1, phase="Failed")), "at the end Pod gpt-1-0.status.phase is 'Failed'",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "problem"), BESIDE.values(), ids=BESIDE.keys())
def test_what_differs_from_the_undisturbed_life(changes: Changes, problem: str) -> None:
    assert any(problem in told for told in differences(record(changes), record(GOOD)))


def test_that_a_gang_was_created_need_not_be_told() -> None:
    told = record(after(2, event("GangCreated")))
    assert differences(record(GOOD), told) == []
    assert differences(told, record(GOOD)) == ["event GangCreated told 1 times too often"]


def test_an_event_may_be_lost_where_a_write_was_hindered() -> None:
    assert differences(record(without(3)), record(GOOD), events_lost=1) == []
