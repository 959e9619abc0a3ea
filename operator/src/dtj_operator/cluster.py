"""The gateway to Kubernetes: the only file that knows its calls, kopf's watch of jobs aside. Raw dicts in, raw dicts
out; no decisions. Raw because kubernetes 37's models drop fields they do not know, and refuse manifests that have one.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from urllib.parse import quote

from dtj_api import names
from kubernetes.aio.client import Configuration

from dtj_operator.connection import Connection, Object
from dtj_operator.errors import AlreadyExists, NotFound, Refused, Unavailable

__all__ = ["Cluster", "Object"]

# A watch is ended by the server after so long.
WATCH_SECONDS = 290
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE = 500
JOBS = f"/apis/{names.API_VERSION}"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
# kind -> who brings it
OPTIONAL_KINDS = {"PodMonitor": "install the CRDs of prometheus-operator first"}
# kind -> where its API is, and what it is called there
COLLECTIONS = {
    "Pod": ("/api/v1", "pods"),
    "Service": ("/api/v1", "services"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodMonitor": ("/apis/monitoring.coreos.com/v1", "podmonitors"),
    names.KIND: (JOBS, names.PLURAL),
}


class Cluster:
    """Calls by what they are for. Every method raises one of errors.py where the API server says no.

    Attributes:
        may_write: asked before each write to a job or for one; where it says no the call is Unavailable. An operator
            that was paused finds out here, at the last moment, that another is at work.
    """

    may_write: Callable[[], bool] = staticmethod(lambda: True)

    def __init__(self, configuration: Configuration) -> None:
        self._connection = Connection(configuration)
        self._call = self._connection.call

    async def close(self) -> None:
        await self._connection.close()

    async def get_job(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._call("GET", f"{JOBS}/namespaces/{namespace}/{names.PLURAL}/{name}")
        except NotFound:
            return None

    async def list_jobs(self, namespace: str | None) -> tuple[list[Object], str]:
        """Metadata of all jobs of one namespace, or of all, and the version of that list.

        https://kubernetes.io/docs/reference/using-api/api-concepts/#metadata-only-fetches
        """
        return await self._pages(_collection(names.KIND, namespace), {}, accept=METADATA_ONLY)

    async def list_children(self, kind: str, namespace: str, job: str) -> list[Object]:
        """Objects of that kind with the job's label, whoever owns them. Never from a stale cache. A kind that the
        cluster does not know has none."""
        try:
            children = await self._list(_collection(kind, namespace), {"labelSelector": f"{names.LABEL_JOB}={job}"})
        except NotFound:
            return []
        return [{"kind": kind, **child} for child in children]

    async def list_all(self, kind: str, namespace: str | None) -> tuple[list[Object], str]:
        """Children of all jobs, and the version of the collection from which to watch on."""
        items, version = await self._pages(_collection(kind, namespace), {"labelSelector": names.LABEL_JOB})
        return [{"kind": kind, **item} for item in items], version

    async def watch(self, kind: str, namespace: str | None, version: str) -> AsyncIterator[Object]:
        """What happens to children of all jobs after `version`, bookmarks included, until the server ends the stream.

        Raises:
            Unavailable: the connection broke or fell silent.
            ApiError: the server says no, 410 where it does not know that version any more.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "labelSelector": names.LABEL_JOB,
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async for event in self._connection.stream(_collection(kind, namespace), query, WATCH_SECONDS):
            yield {"type": event["type"], "object": {"kind": kind, **event["object"]}}

    async def find(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object of that name. A list with a selector: the operator needs no right to get single pods or services,
        and a name out of a manifest never becomes part of a path."""
        escaped = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        found = await self._list(_collection(kind, namespace), {"fieldSelector": f"metadata.name={escaped}"})
        return next(({"kind": kind, **item} for item in found if item["metadata"]["name"] == name), None)

    async def create(self, manifest: Object, *, rehearse: bool = False) -> Object:
        """Create a child; with `rehearse` only have the API server say whether it would.

        Unknown fields are refused rather than dropped: a mistyped field of a user's template would do nothing.
        """
        if not rehearse:
            self._check_leadership()
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if rehearse else {})
        kind, namespace = manifest["kind"], manifest["metadata"]["namespace"]
        try:
            return await self._call("POST", _collection(kind, namespace), query, manifest)
        except NotFound as error:
            if kind not in OPTIONAL_KINDS:
                raise
            raise Refused(error.status, error.reason, f"the cluster has no {kind}s: {OPTIONAL_KINDS[kind]}") from None

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> Object | None:
        """Delete that very object, and leave another of its name alone. What it owns goes later.

        Returns:
            the object where it is ending and still there; None where it is gone.

        Raises:
            Conflict: it is another by now, or somebody who is asked at admission would have it stay for the moment.
        """
        self._check_leadership()
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            left = await self._call("DELETE", f"{_collection(kind, namespace)}/{quote(name, safe='')}", body=body)
        except NotFound:
            return None
        metadata = left.get("metadata") or {}
        # what went with this very call comes back too, as it was, but has no version any more
        ending = metadata.get("deletionTimestamp") and metadata.get("resourceVersion")
        return {**left, "kind": kind} if ending else None

    async def get_node(self, name: str) -> Object | None:
        try:
            return await self._call("GET", f"/api/v1/nodes/{quote(name, safe='')}")
        except NotFound:
            return None

    async def patch_status(self, namespace: str, name: str, metadata: Mapping[str, str], status: Object) -> Object:
        """Merge `status` into the job's. `metadata` holds the uid and resourceVersion that were decided on.

        Returns:
            the job as it is now.

        Raises:
            Conflict: the job has changed since.
        """
        self._check_leadership()
        path = f"{JOBS}/namespaces/{namespace}/{names.PLURAL}/{name}/status"
        return await self._call("PATCH", path, body={"metadata": dict(metadata), "status": status})

    async def create_event(self, event: Object) -> None:
        """An event that is there already is not made again."""
        self._check_leadership()
        try:
            await self._call("POST", f"/api/v1/namespaces/{event['metadata']['namespace']}/events", body=event)
        except AlreadyExists:
            return

    async def get_lease(self, namespace: str, name: str) -> Object:
        """
        Raises:
            NotFound: there is none.
        """
        return await self._call("GET", f"{_leases(namespace)}/{quote(name, safe='')}")

    async def create_lease(self, lease: Object) -> None:
        await self._call("POST", _leases(lease["metadata"]["namespace"]), body=lease)

    async def replace_lease(self, lease: Object) -> None:
        """
        Raises:
            Conflict: it has changed since it was read.
        """
        metadata = lease["metadata"]
        await self._call("PUT", f"{_leases(metadata['namespace'])}/{quote(metadata['name'], safe='')}", body=lease)

    async def get_webhook_configuration(self, name: str) -> Object:
        """
        Raises:
            NotFound: there is no ValidatingWebhookConfiguration of that name.
        """
        return await self._call("GET", f"{WEBHOOKS}/{quote(name, safe='')}")

    async def patch_webhook_configuration(self, name: str, patch: Object) -> None:
        await self._call("PATCH", f"{WEBHOOKS}/{quote(name, safe='')}", body=patch)

    async def _list(self, path: str, query: Mapping[str, str]) -> list[Object]:
        return (await self._pages(path, query))[0]

    async def _pages(
        self, path: str, query: Mapping[str, str], accept: str = "application/json"
    ) -> tuple[list[Object], str]:
        items: list[Object] = []
        token = ""
        while True:
            more = {"continue": token} if token else {}
            page = await self._call("GET", path, {**query, "limit": str(PAGE), **more}, accept=accept)
            # metadata of nothing is null, not an empty list
            items += page["items"] or []
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, page["metadata"].get("resourceVersion") or ""

    def _check_leadership(self) -> None:
        if not self.may_write():
            raise Unavailable(0, "NotLeading", "this operator does not hold the lease")


def _collection(kind: str, namespace: str | None) -> str:
    prefix, plural = COLLECTIONS[kind]
    return f"{prefix}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{prefix}/{plural}"


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"
