"""Jobs and their children as last heard of: from watches, and from the answers to the operator's own calls, so that it
never knows less than it has done itself. No I/O.

Versions are compared as numbers, which the API has promised to be sound:
https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
"""

from collections import Counter, deque
from collections.abc import Iterable

from dtj_operator.children import Object
from dtj_operator.snapshot import JobKey, Observed, observe

# Children that watches keep current; of other kinds the cache knows nothing.
WATCHED_KINDS = ("Pod", "Service", "NetworkPolicy", "PersistentVolumeClaim")
# An answer to a creation can be overtaken by the word of the object's end, but not by so many others.
REMEMBERED_ENDS = 4096


class Cache:
    """Methods that take news return the key of the job it concerns, where it is news."""

    def __init__(self) -> None:
        self._jobs: dict[JobKey, Object] = {}
        self._confirmed: dict[JobKey, str] = {}
        self._children: dict[JobKey, dict[str, Observed]] = {}
        # uid -> whose child
        self._owners: dict[str, JobKey] = {}
        self._ended: set[str] = set()
        self._ends: deque[str] = deque()

    # jobs

    def job(self, key: JobKey) -> Object | None:
        return self._jobs.get(key)

    def jobs(self) -> list[JobKey]:
        return list(self._jobs)

    def phases(self) -> Counter[str]:
        """How many jobs there are of each phase; one that has none yet is Pending."""
        return Counter(str((raw.get("status") or {}).get("phase") or "Pending") for raw in self._jobs.values())

    def is_confirmed(self, key: JobKey, version: str) -> bool:
        """Whether the job of that version is what the API server last answered to a write."""
        return self._confirmed.get(key) == version

    def see_job(self, raw: Object, *, confirmed: bool = False) -> JobKey | None:
        """A job as a watch, a read or, `confirmed`, the answer to a write has it."""
        metadata = raw["metadata"]
        key = _key(raw)
        if metadata["uid"] in self._ended:
            return None
        if confirmed:
            self._confirmed[key] = metadata["resourceVersion"]
        known = self._jobs.get(key)
        if known is not None and _version(known) >= _version(raw):
            return None
        metadata.pop("managedFields", None)
        self._jobs[key] = raw
        return key

    def lose_job(self, raw: Object) -> JobKey | None:
        """A job that is gone."""
        key = _key(raw)
        self._remember_end(raw["metadata"]["uid"])
        known = self._jobs.get(key)
        if known is None or known["metadata"]["uid"] != raw["metadata"]["uid"]:
            return None
        self.forget_job(key)
        return key

    def forget_job(self, key: JobKey) -> None:
        self._jobs.pop(key, None)
        self._confirmed.pop(key, None)

    def compare_jobs(
        self, namespace: str | None, listed: Iterable[Object], version: str
    ) -> tuple[set[JobKey], set[JobKey]]:
        """Compare with a list (of metadata) of a namespace's jobs, or of all, as they were at `version`.

        Returns:
            those that are not in it, which are forgotten, and those of which it knows a later version.
        """
        current = {_key(raw): _version(raw) for raw in listed}
        known = {key: _version(raw) for key, raw in self._jobs.items() if namespace in (None, key.namespace)}
        gone = {key for key, seen in known.items() if key not in current and seen <= int(version)}
        for key in gone:
            self.forget_job(key)
        return gone, {key for key, now in current.items() if known.get(key, -1) < now}

    # children

    def children(self, key: JobKey) -> list[Observed]:
        return list(self._children.get(key, {}).values())

    def see(self, raw: Object) -> JobKey | None:
        """An object with a job's label as a watch or an answer has it."""
        if raw["kind"] not in WATCHED_KINDS or raw["metadata"]["uid"] in self._ended:
            return None
        seen = observe(raw)
        key = JobKey(raw["metadata"]["namespace"], seen.job)
        before = self._owners.get(seen.uid)
        if before is not None:
            if self._children[before][seen.uid].version >= seen.version:
                return None
            if before != key:
                self._drop(seen.uid)
        self._children.setdefault(key, {})[seen.uid] = seen
        self._owners[seen.uid] = key
        return key

    def lose(self, uid: str) -> JobKey | None:
        """An object that is gone."""
        self._remember_end(uid)
        return self._drop(uid)

    def replace(self, kind: str, namespace: str | None, listed: Iterable[Object], version: str) -> set[JobKey]:
        """All children of a kind, in a namespace or in all, as they were at `version`; the jobs it is news for."""
        current = {raw["metadata"]["uid"]: raw for raw in listed}
        gone = [
            child.uid
            for key, children in self._children.items()
            if namespace in (None, key.namespace)
            for child in children.values()
            # what was heard of since is of a later version
            if child.kind == kind and child.uid not in current and child.version <= int(version)
        ]
        news = {key for uid in gone if (key := self.lose(uid)) is not None}
        return news | {key for raw in current.values() if (key := self.see(raw)) is not None}

    def _drop(self, uid: str) -> JobKey | None:
        key = self._owners.pop(uid, None)
        if key is not None:
            children = self._children[key]
            del children[uid]
            if not children:
                del self._children[key]
        return key

    def _remember_end(self, uid: str) -> None:
        if uid not in self._ended:
            self._ended.add(uid)
            self._ends.append(uid)
        if len(self._ends) > REMEMBERED_ENDS:
            self._ended.discard(self._ends.popleft())


def _key(raw: Object) -> JobKey:
    return JobKey(raw["metadata"]["namespace"], raw["metadata"]["name"])


def _version(raw: Object) -> int:
    return int(raw["metadata"]["resourceVersion"])
