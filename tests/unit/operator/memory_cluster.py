"""A cluster in memory with the gateway's interface. The operator can be killed after any write, as by `kill -9`."""

import copy
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

from dtj_api import names
from dtj_operator.cluster import Cluster, Object
from dtj_operator.errors import AlreadyExists, Conflict, NotFound, Refused
from dtj_operator.informer import WATCHED_KINDS, Cache

NAMESPACE = "ml"


READY_NODE: Object = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


class Killed(BaseException):
    """The operator's process ended here."""


class MemoryCluster(Cluster):
    """Objects by (kind, name), all in one namespace.

    Attributes:
        die_after: number of the write after which the operator is killed; None for never.
        refuse: kind -> what the API server says to such an object.
        slow_to_end: deleted pods stay, as they do while they end.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.creations: Counter[str] = Counter()
        self.events: list[Object] = []
        self.writes = 0
        self.die_after: int | None = None
        self.refuse: dict[str, Refused] = {}
        self.slow_to_end = False
        self.nodes_asked_for: list[str] = []
        self._numbers = itertools.count(1)

    # the operator's side

    async def get_job(self, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.objects.get((names.KIND, name)))

    def as_watched(self) -> Cache:
        """What an operator knows whose watches have told it all there is."""
        cache = Cache()
        for (kind, _), stored in self.objects.items():
            if kind == names.KIND:
                cache.see_job(copy.deepcopy(stored))
            elif kind in WATCHED_KINDS:
                cache.see(copy.deepcopy(stored))
        return cache

    async def list_children(self, kind: str, namespace: str, job: str) -> list[Object]:
        return [
            copy.deepcopy(o)
            for (its_kind, _), o in self.objects.items()
            if its_kind == kind and (o["metadata"].get("labels") or {}).get(names.LABEL_JOB) == job
        ]

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        return copy.deepcopy(self.objects.get((kind, name)))

    async def create(self, manifest: Object, *, rehearse: bool = False) -> Object:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        if kind in self.refuse:
            raise self.refuse[kind]
        if (kind, name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", f"{kind} {name} already exists")
        if rehearse:
            return manifest
        stored = self.put(manifest)
        self.creations[f"{kind} {name}"] += 1
        self._wrote()
        return copy.deepcopy(stored)

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> Object | None:
        found = self.objects.get((kind, name))
        if found is None or found["metadata"]["uid"] != uid:
            return None
        if kind == "Pod" and self.slow_to_end:
            found["metadata"]["deletionTimestamp"] = "2036-01-01T00:00:00Z"
            self._touch(found)
        else:
            del self.objects[kind, name]
        self._wrote()
        return copy.deepcopy(found) if found["metadata"].get("deletionTimestamp") else None

    async def get_node(self, name: str) -> Object | None:
        self.nodes_asked_for.append(name)
        return copy.deepcopy(self.objects.get(("Node", name), READY_NODE))

    async def patch_status(self, namespace: str, name: str, metadata: Mapping[str, str], status: Object) -> Object:
        job = self.objects.get((names.KIND, name))
        if job is None:
            raise NotFound(404, "NotFound", name)
        if any(job["metadata"][field] != value for field, value in metadata.items()):
            raise Conflict(409, "Conflict", f"{name} has changed")
        if status:
            job["status"] = _merged(job.get("status") or {}, status)
            self._touch(job)
            self._wrote()
        return copy.deepcopy(job)

    async def create_event(self, event: Object) -> None:
        if event["metadata"]["name"] not in {known["metadata"]["name"] for known in self.events}:
            self.events.append(event)
            self._wrote()

    def _wrote(self) -> None:
        self.writes += 1
        if self.writes == self.die_after:
            raise Killed

    # the world's side

    def put(self, manifest: Object) -> Object:
        stored = copy.deepcopy(manifest)
        stored["metadata"].setdefault("uid", f"uid-{next(self._numbers)}")
        stored["metadata"].setdefault("namespace", NAMESPACE)
        stored["metadata"].setdefault("generation", 1)
        self._touch(stored)
        self.objects[stored["kind"], stored["metadata"]["name"]] = stored
        return stored

    def submit(self, name: str, spec: Any) -> Object:
        return self.put({"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec})

    def edit(self, name: str, **fields: Any) -> None:
        """Change fields of a job's spec."""
        job = self.objects[names.KIND, name]
        job["spec"] = {**job["spec"], **fields}
        job["metadata"]["generation"] += 1
        self._touch(job)

    def of_kind(self, kind: str) -> list[Object]:
        return [o for (its_kind, _), o in sorted(self.objects.items()) if its_kind == kind]

    def status(self, job: str) -> Object:
        status: Object = self.objects[names.KIND, job].get("status") or {}
        return status

    def condition(self, job: str, kind: str) -> Object:
        found: Object = next(c for c in self.status(job)["conditions"] if c["type"] == kind)
        return found

    def set_pod(self, name: str, phase: str, state: Object) -> None:
        pod = self.objects["Pod", name]
        self._touch(pod)
        container = pod["spec"]["containers"][0]
        status = {"name": container["name"], "image": container["image"], "ready": "running" in state, "state": state}
        pod["spec"]["nodeName"] = "n1"
        pod["status"] = {"phase": phase, "podIP": "10.0.0.1", "containerStatuses": [status]}

    def run_pod(self, name: str) -> None:
        self.set_pod(name, "Running", {"running": {}})

    def end_pod(self, name: str, exit_code: int, message: str = "", finished_at: str = "2026-01-01T00:00:00Z") -> None:
        ended = {"exitCode": exit_code, "message": message, "finishedAt": finished_at}
        self.set_pod(name, "Failed" if exit_code else "Succeeded", {"terminated": ended})

    def _touch(self, stored: Object) -> None:
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merged(result.get(name), value)
    return result
