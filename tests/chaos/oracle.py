"""What is wrong with a disturbed life, beside the undisturbed one. Pure: histories in, sentences out.

Rules of the first kind hold of any life alone (`violations`); those of the second compare two (`differences`).
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_api import names

from tests.api.harness import Object
from tests.chaos.recorder import CHILDREN, Seen

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
# of metadata, what is not the operator's doing
NOT_OURS = ("creationTimestamp", "deletionGracePeriodSeconds", "managedFields", "resourceVersion")
# with the same meaning in another order
KEYED = {"conditions": "type"}
ENDED = ("Succeeded", "Failed")
# told only where the gang does not run soon after
IMPLIED = ("GangCreated",)


@dataclass(frozen=True)
class Record:
    """One life as the oracle needs it.

    Attributes:
        seen: every change, by version.
        last: what there was before the job was deleted.
        left: what there was after everything should have gone.
    """

    seen: Sequence[Seen]
    last: Sequence[Object]
    left: Sequence[str] = ()

    def of(self, kind: str) -> list[Seen]:
        return [one for one in self.seen if one.kind == kind]

    @property
    def statuses(self) -> list[Object]:
        return [one.object.get("status") or {} for one in self.of(names.PLURAL) if one.type != "DELETED"]


def judge(record: Record, calm: Record, *, events_lost: int = 0) -> list[str]:
    """Everything that is wrong; [] when nothing is.

    Args:
        events_lost: so many may be missing: an event is told once, after the status that it tells of.
    """
    return [*violations(record), *differences(record, calm, events_lost=events_lost)]


def violations(record: Record) -> list[str]:
    rules: tuple[Callable[[Record], Iterable[str]], ...] = (
        pods_made_twice,
        live_pods,
        pods_out_of_their_attempt,
        pods_beside_a_suspended_attempt,
        steps_back,
        orphans,
    )
    return [problem for rule in rules for problem in rule(record)]


def differences(record: Record, calm: Record, *, events_lost: int = 0) -> list[str]:
    return [
        *counts(record, calm),
        *phases(record, calm),
        *conditions(record, calm),
        *events(record, calm, events_lost),
        *final_objects(record, calm),
    ]


# of one life


def pods_made_twice(record: Record) -> Iterator[str]:
    """A rank of an attempt has one pod, ever: what it wrote is not written again by another."""
    made: dict[tuple[str, ...], set[str]] = {}
    for one in record.of("pods"):
        made.setdefault(_rank(one), set()).add(one.uid)
    for rank, uids in made.items():
        if len(uids) > 1:
            yield f"{len(uids)} pods were made for worker {rank[2]} of attempt {rank[1]}"


def live_pods(record: Record) -> Iterator[str]:
    """At most one live pod a rank at any time; only neighbouring attempts overlap."""
    live: dict[str, Seen] = {}
    told: set[str] = set()
    for one in record.seen:
        if one.kind == "pods":
            live.pop(one.uid, None)
            if not one.deleting and (one.object.get("status") or {}).get("phase") not in ENDED:
                live[one.uid] = one
        for problem in _crowd(live.values()):
            if problem not in told:
                told.add(problem)
                yield problem


def _crowd(live: Iterable[Seen]) -> Iterator[str]:
    ranks = Counter(_rank(one) for one in live)
    for rank, count in ranks.items():
        if count > 1:
            yield f"{count} live pods of worker {rank[2]} of attempt {rank[1]} at once"
    attempts = {int(rank[1]) for rank in ranks}
    if attempts and max(attempts) - min(attempts) > 1:
        yield f"pods of attempts {sorted(attempts)} live at once"


def pods_out_of_their_attempt(record: Record) -> Iterator[str]:
    """A pod is made for the attempt that the status names at that time, of a job that is neither suspended nor over."""
    job: Object = {}
    for one in record.seen:
        if one.kind == names.PLURAL:
            job = {} if one.type == "DELETED" else one.object
        if one.kind != "pods" or one.type != "ADDED":
            continue
        status = job.get("status") or {}
        if str(status.get("attempt")) != _rank(one)[1]:
            yield f"{one.name} was made while the status said attempt {status.get('attempt')}"
        if status.get("phase") in (*ENDED, "Suspended"):
            yield f"{one.name} was made for a job that was {status['phase']}"


def pods_beside_a_suspended_attempt(record: Record) -> Iterator[str]:
    """After a suspension the next attempt waits until the last pod is gone: it is to find what that one saves."""
    there: dict[str, Seen] = {}
    attempts: Sequence[Object] = ()
    for one in record.seen:
        if one.kind == names.PLURAL:
            attempts = (one.object.get("status") or {}).get("attempts") or ()
        if one.kind != "pods":
            continue
        there.pop(one.uid, None)
        if one.type != "DELETED":
            there[one.uid] = one
        suspended = {str(a["attempt"]) for a in attempts if a.get("reason") == "Suspended"}
        older = sorted(old.name for old in there.values() if _rank(old)[1] in suspended)
        if one.type == "ADDED" and older:
            yield f"{one.name} was made while {', '.join(older)} of a suspended attempt were there"


def steps_back(record: Record) -> Iterator[str]:
    """Attempts and restarts count up one by one; what is over stays over."""
    before: Object = {}
    for status in record.statuses:
        for count in ("attempt", "restarts"):
            step = (status.get(count) or 0) - (before.get(count) or 0)
            if step not in (0, 1):
                yield f"{count} went from {before.get(count)} to {status.get(count)}"
        if before.get("phase") in ENDED and status.get("phase") != before["phase"]:
            yield f"the job went from {before['phase']} to {status.get('phase')}"
        before = status


def orphans(record: Record) -> Iterator[str]:
    if record.left:
        yield f"left behind: {', '.join(record.left)}"


# of two lives


def counts(record: Record, calm: Record) -> Iterator[str]:
    """Objects made, and deleted before the job was."""
    for what, count in (("made", _made), ("deleted", _deleted)):
        here, there = count(record), count(calm)
        for kind in sorted(here.keys() | there.keys()):
            if here[kind] != there[kind]:
                yield f"{here[kind]} {kind} {what}, undisturbed {there[kind]}"


def _made(record: Record) -> Counter[str]:
    return Counter(kind for kind, _ in {(one.kind, one.uid) for one in record.seen if one.kind in CHILDREN})


def _deleted(record: Record) -> Counter[str]:
    end = next((one.version for one in record.of(names.PLURAL) if one.deleting), float("inf"))
    gone = {(one.kind, one.uid) for one in record.seen if one.kind in CHILDREN and one.deleting and one.version < end}
    return Counter(kind for kind, _ in gone)


def phases(record: Record, calm: Record) -> Iterator[str]:
    yield from _story("phases", _phases(record), _phases(calm), _kept_phase)


def _phases(record: Record) -> list[str]:
    return [f"{status.get('phase')}/{status.get('attempt')}" for status in record.statuses]


def _kept_phase(step: str) -> bool:
    """What a watcher must have seen; the steps between may be merged."""
    return step.split("/")[0] in (*ENDED, "Running", "Restarting", "Suspended")


def conditions(record: Record, calm: Record) -> Iterator[str]:
    """Every change of every condition; quiet reasons between two that hold may be merged."""
    kinds = {c["type"] for status in calm.statuses for c in status.get("conditions") or ()}
    kinds |= {c["type"] for status in record.statuses for c in status.get("conditions") or ()}
    for kind in sorted(kinds):
        here, there = _condition(record, kind), _condition(calm, kind)
        yield from _story(f"condition {kind}", here, there, lambda step: step.startswith("True"))


def _condition(record: Record, kind: str) -> list[str]:
    found = ([c for c in status.get("conditions") or () if c["type"] == kind] for status in record.statuses)
    return [
        f"{c[0]['status']} {c[0]['reason']}/{s.get('attempt')}"
        for c, s in zip(found, record.statuses, strict=True)
        if c
    ]


def _story(what: str, here: list[str], there: list[str], kept: Callable[[str], bool]) -> Iterator[str]:
    """`here` may lack steps of `there`, save those to be kept; it has no others, and none out of order."""
    here, there = _without_repeats(here), _without_repeats(there)
    rest = iter(there)
    strange = next((step for step in here if step not in rest), None)
    if strange is not None:
        yield f"{what}: {strange} is out of order or new: {here}, undisturbed {there}"
    lost = Counter(filter(kept, there)) - Counter(filter(kept, here))
    if lost:
        yield f"{what}: {', '.join(lost)} was lost: {here}, undisturbed {there}"


def _without_repeats(steps: Iterable[str]) -> list[str]:
    kept: list[str] = []
    for step in steps:
        if kept[-1:] != [step]:
            kept.append(step)
    return kept


def events(record: Record, calm: Record, may_be_lost: int) -> Iterator[str]:
    """None is told twice; each hindered write may lose one."""
    here, there = _told(record), _told(calm)
    for reason, count in (here - there).items():
        yield f"event {reason} told {count} times too often"
    lost = Counter({reason: count for reason, count in (there - here).items() if reason not in IMPLIED})
    if lost.total() > may_be_lost:
        yield f"events lost: {dict(lost)}, where {may_be_lost} may be"


def _told(record: Record) -> Counter[str]:
    return Counter(str(one.object["reason"]) for one in record.of("events") if one.type == "ADDED")


def final_objects(record: Record, calm: Record) -> Iterator[str]:
    here, there = masked(record.last), masked(calm.last)
    for name in sorted(here.keys() | there.keys()):
        if name not in here:
            yield f"at the end there is no {name}"
        elif name not in there:
            yield f"at the end there is a {name}"
        else:
            yield from (f"at the end {name}{problem}" for problem in _difference(here[name], there[name]))


def masked(things: Iterable[Object]) -> dict[str, Object]:
    """Objects by kind and name, without what no two lives have in common: uids, versions, times, the namespace."""
    found = {}
    for thing in things:
        if thing["kind"] == "Event":
            continue
        metadata = {key: value for key, value in thing["metadata"].items() if key not in NOT_OURS}
        text = TIME.sub("TIME", json.dumps({**thing, "metadata": metadata}))
        owners = [owner["uid"] for owner in metadata.get("ownerReferences") or ()]
        for uid in (thing["metadata"]["uid"], *owners):
            text = text.replace(uid, "UID")
        text = re.sub(rf"\b{re.escape(metadata['namespace'])}\b", "NAMESPACE", text)
        found[f"{thing['kind']} {metadata['name']}"] = json.loads(text)
    return found


def _difference(here: Any, there: Any, path: str = "") -> Iterator[str]:
    if isinstance(here, dict) and isinstance(there, dict):
        for key in sorted(here.keys() | there.keys()):
            one, other = here.get(key), there.get(key)
            if key in KEYED and isinstance(one, list) and isinstance(other, list):
                one, other = ({item[KEYED[key]]: item for item in items} for items in (one, other))
            yield from _difference(one, other, f"{path}.{key}")
    elif isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        for index, (one, other) in enumerate(zip(here, there, strict=True)):
            yield from _difference(one, other, f"{path}[{index}]")
    elif here != there:
        yield f"{path} is {here!r}, undisturbed {there!r}"


def _rank(pod: Seen) -> tuple[str, str, str]:
    """Job, attempt, worker."""
    labels, owners = pod.object["metadata"]["labels"], pod.object["metadata"].get("ownerReferences") or [{}]
    return owners[0].get("uid", ""), labels[names.LABEL_ATTEMPT], labels[names.LABEL_WORKER]
