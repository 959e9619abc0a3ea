"""Plays the rows of the table against one operator. Rows seen on children go step by step, all together: one LIST
serves them all. Rows seen on the run have a thread each."""

import json
import time
import traceback
import urllib.error
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dtj_api import names

from tests.api.fields.rows import Children, ChildRow, Row, RunRow, merged, undone
from tests.api.harness import Api, Object, eventually

Outcomes = dict[str, str]
KINDS = {
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodMonitor": ("/apis/monitoring.coreos.com/v1", "podmonitors"),
}
STAGE_SECONDS = 30.0
# between two looks at all jobs
LOOK_SECONDS = 0.25
RUN_THREADS = 10
# of metadata, what is not the operator's doing
NOT_OURS = {"creationTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields", "resourceVersion", "uid"}


def children_by_job(api: Api) -> dict[str, list[Object]]:
    """All children in the namespace that are not being deleted."""
    found: dict[str, list[Object]] = {}
    for kind, (prefix, plural) in KINDS.items():
        for child in api.request("GET", f"{prefix}/namespaces/{api.namespace}/{plural}")["items"]:
            job = (child["metadata"].get("labels") or {}).get(names.LABEL_JOB)
            if job and not child["metadata"].get("deletionTimestamp"):
                found.setdefault(job, []).append({"kind": kind, **child})
    return found


def masked(job: Object, children: Iterable[Object]) -> Children:
    """Children of the attempt at hand, and those that outlive attempts, with what differs by attempt or by job
    replaced: the job's name by JOB, the attempt's number by A."""
    metadata, attempt = job["metadata"], job["status"]["attempt"]
    name, uid = metadata["name"], metadata["uid"]
    found = {}
    for child in children:
        labels = child["metadata"]["labels"]
        if labels.get(names.LABEL_ATTEMPT, str(attempt)) != str(attempt):
            continue
        kept = {"metadata": {k: v for k, v in child["metadata"].items() if k not in NOT_OURS}, "spec": child["spec"]}
        text = json.dumps(kept).replace(names.rendezvous_token(uid, attempt), "TOKEN").replace(uid, "UID")
        text = text.replace(f"{name}-{attempt}", "JOB-A").replace(name, "JOB")
        masked_child: Object = _unnumbered(json.loads(text))
        found[f"{child['kind']} {masked_child['metadata']['name']}"] = masked_child
    return found


def _unnumbered(value: Any) -> Any:
    """Labels, selectors and variables that hold the attempt's number."""
    if isinstance(value, dict):
        if value.get("name") == "DTJ_ATTEMPT":
            return {"name": "DTJ_ATTEMPT", "value": "A"}
        return {k: "A" if k == names.LABEL_ATTEMPT else _unnumbered(v) for k, v in value.items()}
    return [_unnumbered(item) for item in value] if isinstance(value, list) else value


class Lockstep:
    """All rows seen on children: create, change, roll back; after each step the children are looked at.

    A row that falls behind is left behind: `failures` says at which step and in what state.
    """

    def __init__(self, api: Api, rows: Iterable[ChildRow]) -> None:
        self.api = api
        self.rows = {row.job: row for row in rows}
        self.failures: Outcomes = {}
        self.jobs: dict[str, Object] = {}

    def play(self) -> Outcomes:
        """What went wrong, by row."""
        for row in self.going(anew=None):
            self.api.submit(row.job, row.former)
        before = self.capture("with the former value")
        self.apply(lambda row: row.changed, lambda row: row.valid)
        after = self.capture("with the change")
        self.apply(lambda row: row.former, lambda row: undone(row.former, row.valid))
        back = self.capture("rolled back")
        for row in self.going(anew=None):
            self.judge(row, before[row.job], after[row.job], back[row.job])
        return self.failures

    def judge(self, row: ChildRow, before: Children, after: Children, back: Children) -> None:
        try:
            assert row.look(after) == row.shows, f"after the change: {row.look(after)!r}, not {row.shows!r}"
            assert row.same or row.look(before) != row.shows, f"before the change it was {row.shows!r} already"
            assert back == before, f"rolled back, {_difference(before, back)}"
        except (AssertionError, KeyError, IndexError) as error:
            self.failures[row.id] = f"{type(error).__name__}: {error}"

    def going(self, *, anew: bool | None) -> list[ChildRow]:
        return [r for r in self.rows.values() if r.id not in self.failures and anew in (None, r.anew)]

    def apply(self, spec: Callable[[ChildRow], Object], patch: Callable[[ChildRow], Object]) -> None:
        """Change the suspended jobs, and go on with them; make the others anew."""
        for row in self.going(anew=True):
            self.api.delete(names.PLURAL, row.job)
        for row in self.going(anew=False):
            self.patch(row, {"suspend": True})
        self.wait("suspended or gone", self._is_out_of_the_way)
        for row in self.going(anew=False):
            self.patch(row, {**patch(row), "suspend": False})
        for row in self.going(anew=True):
            self.api.submit(row.job, spec(row))

    def patch(self, row: ChildRow, spec: Object) -> None:
        try:
            self.api.request("PATCH", self.api.path(names.PLURAL, row.job), {"spec": spec})
        except urllib.error.HTTPError as error:
            self.failures[row.id] = f"{spec} was refused: {error.read().decode()}"

    def capture(self, when: str) -> dict[str, Children]:
        self.wait(f"created {when}", lambda _, job: _holds(job, "Created") and not _holds(job, "Suspended"))
        children = children_by_job(self.api)
        return {row.job: masked(self.jobs[row.job], children.get(row.job, [])) for row in self.going(anew=None)}

    def _is_out_of_the_way(self, row: ChildRow, job: Object | None) -> bool:
        if not row.anew:
            return _holds(job, "Suspended")
        return job is None and self.api.get("persistentvolumeclaims", names.checkpoint_claim(row.job)) is None

    def wait(self, what: str, done: Callable[[ChildRow, Object | None], bool]) -> None:
        """Until `done` of every row that still goes; those that are not by then have failed."""
        end = time.monotonic() + STAGE_SECONDS
        while True:
            self.jobs = {job["metadata"]["name"]: job for job in self.api.list(names.PLURAL)}
            late = [row for row in self.going(anew=None) if not done(row, self.jobs.get(row.job))]
            if not late:
                return
            if time.monotonic() > end:
                break
            self.api.reap()
            time.sleep(LOOK_SECONDS)
        for row in late:
            status = self.jobs.get(row.job, {}).get("status")
            self.failures[row.id] = f"not {what} within {STAGE_SECONDS:g} s: {status}"


def _holds(job: Object | None, condition: str) -> bool:
    """Whether a condition is true of the spec as it is."""
    status = (job or {}).get("status") or {}
    current = job is not None and status.get("observedGeneration") == job["metadata"]["generation"]
    return current and any(c["type"] == condition and c["status"] == "True" for c in status.get("conditions", []))


def _difference(before: Children, after: Children) -> str:
    if before.keys() != after.keys():
        return f"there are {sorted(after)}, not {sorted(before)}"
    name = next(name for name in before if before[name] != after[name])
    return f"{name} is {after[name]}, not {before[name]}"


def play_runs(api: Api, rows: Iterable[RunRow]) -> Outcomes:
    """Each row's scene with the change, made while the job runs where it may be, and after its rollback."""

    def played(play: Callable[[Api, RunRow], None], row: RunRow) -> tuple[str, str]:
        try:
            play(api, row)
        except AssertionError as error:
            return row.id, str(error)
        except Exception:  # noqa: BLE001  a scene that broke is its row's failure
            return row.id, traceback.format_exc()
        return row.id, ""

    with ThreadPoolExecutor(RUN_THREADS) as threads:
        plays = [threads.submit(played, play, row) for row in rows for play in (_play_change, _play_rollback)]
        ended = [play.result() for play in plays]
    return {name: problem for name, problem in ended if problem}


def _play_change(api: Api, row: RunRow) -> None:
    job = f"{row.job}-a"
    api.submit(job, row.former if row.mutable else row.changed)
    if row.mutable:
        _change_live(api, job, row.valid)
    outcome = row.scene(api, job)
    assert outcome == row.outcome, f"with the change: {outcome}, not {row.outcome}"


def _play_rollback(api: Api, row: RunRow) -> None:
    job = f"{row.job}-b"
    api.submit(job, row.changed if row.mutable else row.former)
    if row.mutable:
        _change_live(api, job, undone(row.former, row.valid))
    outcome = row.scene(api, job)
    assert outcome == row.otherwise, f"rolled back: {outcome}, not {row.otherwise}"


def _change_live(api: Api, job: str, change: Object) -> None:
    """Once the operator has taken the job up."""
    eventually(lambda: api.status(job).get("observedGeneration"))
    api.request("PATCH", api.path(names.PLURAL, job), {"spec": change})


def play_invalid(api: Api, rows: Sequence[Row]) -> dict[str, str]:
    """What the user is told about each row's invalid value, by the API server or by the operator."""
    told: dict[str, str] = {}
    waiting = {}
    for row in rows:
        name = f"{row.job}-i"
        try:
            api.submit(name, merged(row.former, row.invalid))
            waiting[name] = row
        except urllib.error.HTTPError as error:
            told[row.id] = json.loads(error.read())["message"]

    end = time.monotonic() + STAGE_SECONDS

    def look() -> bool:
        for job in api.list(names.PLURAL):
            row = waiting.get(job["metadata"]["name"])
            for condition in job.get("status", {}).get("conditions", []) if row else []:
                decided = condition["reason"].startswith("Invalid") or condition["status"] == "True"
                if row and condition["type"] == "Created" and decided:
                    told[row.id] = condition["message"]
        return len(told) == len(rows) or time.monotonic() > end

    eventually(look, STAGE_SECONDS + 10)
    made = children_by_job(api)
    told = {row.id: told.get(row.id, "nothing") for row in rows}
    return told | {row.id: f"{told[row.id]} (and was made)" for name, row in waiting.items() if made.get(name)}
