"""The gateway to Kubernetes: the only file that calls it. Raw dicts in, raw dicts out; no decisions.

Raw because kubernetes 37's models drop fields they do not know, and refuse manifests that have one.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import aiohttp
from dtj_api import names
from kubernetes.aio.client import ApiClient, Configuration

from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused, Unavailable

Object = dict[str, Any]

CALL_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
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
    """Calls by what they are for. Every method raises one of errors.py where the API server says no."""

    def __init__(self, configuration: Configuration) -> None:
        self._client = ApiClient(configuration)
        self._client.user_agent = names.MANAGED_BY

    async def close(self) -> None:
        await self._client.close()

    async def get_job(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._call("GET", f"{JOBS}/namespaces/{namespace}/{names.PLURAL}/{name}")
        except NotFound:
            return None

    async def list_jobs(self, namespace: str | None) -> list[Object]:
        """All jobs of one namespace, or of all."""
        scope = f"/namespaces/{namespace}" if namespace else ""
        return await self._list(f"{JOBS}{scope}/{names.PLURAL}", {})

    async def list_children(self, kind: str, namespace: str, job: str) -> list[Object]:
        """Objects of that kind with the job's label, whoever owns them. Never from a stale cache. A kind that the
        cluster does not know has none."""
        try:
            children = await self._list(_collection(kind, namespace), {"labelSelector": f"{names.LABEL_JOB}={job}"})
        except NotFound:
            return []
        return [{"kind": kind, **child} for child in children]

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
        query = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if rehearse else {})
        kind, namespace = manifest["kind"], manifest["metadata"]["namespace"]
        try:
            return await self._call("POST", _collection(kind, namespace), query, manifest)
        except NotFound as error:
            if kind not in OPTIONAL_KINDS:
                raise
            raise Refused(error.status, error.reason, f"the cluster has no {kind}s: {OPTIONAL_KINDS[kind]}") from None

    async def delete(self, kind: str, namespace: str, name: str, uid: str) -> None:
        """Delete that very object; one that is gone, or another of its name, is left alone. What it owns goes later."""
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid},
            "propagationPolicy": "Background",
        }
        try:
            await self._call("DELETE", f"{_collection(kind, namespace)}/{quote(name, safe='')}", body=body)
        except (NotFound, Conflict):
            return

    async def get_node(self, name: str) -> Object | None:
        try:
            return await self._call("GET", f"/api/v1/nodes/{quote(name, safe='')}")
        except NotFound:
            return None

    async def patch_status(self, namespace: str, name: str, metadata: Mapping[str, str], status: Object) -> None:
        """Merge `status` into the job's. `metadata` holds the uid and resourceVersion that were decided on.

        Raises:
            Conflict: the job has changed since.
        """
        path = f"{JOBS}/namespaces/{namespace}/{names.PLURAL}/{name}/status"
        await self._call("PATCH", path, body={"metadata": dict(metadata), "status": status})

    async def create_event(self, event: Object) -> None:
        """An event that is there already is not made again."""
        try:
            await self._call("POST", f"/api/v1/namespaces/{event['metadata']['namespace']}/events", body=event)
        except AlreadyExists:
            return

    async def get_webhook_configuration(self, name: str) -> Object:
        """
        Raises:
            NotFound: there is no ValidatingWebhookConfiguration of that name.
        """
        return await self._call("GET", f"{WEBHOOKS}/{quote(name, safe='')}")

    async def patch_webhook_configuration(self, name: str, patch: Object) -> None:
        await self._call("PATCH", f"{WEBHOOKS}/{quote(name, safe='')}", body=patch)

    async def _list(self, path: str, query: Mapping[str, str]) -> list[Object]:
        items: list[Object] = []
        token = ""
        while True:
            page = await self._call("GET", path, {**query, "limit": str(PAGE)} | ({"continue": token} if token else {}))
            items += page["items"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return items

    async def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Object | None = None
    ) -> Object:
        content_type = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            request = await self._client.param_serialize(
                method,
                path,
                query_params=list((query or {}).items()),
                header_params={"Accept": "application/json", "Content-Type": content_type},
                body=body,
                auth_settings=["BearerToken"],
            )
            response = await self._client.call_api(*request, _request_timeout=CALL_TIMEOUT)
            text = await response.read()
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(0, "Unreachable", f"{method} {path}: {error or type(error).__name__}") from error
        if response.status >= 400:
            raise _error(response.status, response.getheader("Retry-After"), text)
        answer: Object = json.loads(text)
        return answer


def _collection(kind: str, namespace: str) -> str:
    prefix, plural = COLLECTIONS[kind]
    return f"{prefix}/namespaces/{quote(namespace, safe='')}/{plural}"


def _error(status: int, retry_after: str | None, text: bytes) -> ApiError:
    """The typed form of a Status object, or of whatever a proxy in between has sent."""
    try:
        answer = json.loads(text)
        reason, message = str(answer.get("reason") or ""), str(answer.get("message") or "")
    except (ValueError, AttributeError):
        reason, message = "", text[:200].decode(errors="replace")
    if status == 404:
        return NotFound(status, reason, message)
    if status == 409:
        return (AlreadyExists if reason == "AlreadyExists" else Conflict)(status, reason, message)
    if status in (400, 403, 422):
        return Refused(status, reason, message)
    # 410: the continuation of a list has expired
    if status in (410, 429) or status >= 500:
        seconds = float(retry_after) if retry_after and retry_after.isdigit() else None
        return Unavailable(status, reason, message, seconds)
    return ApiError(status, reason, message)
