"""The gateway to Kubernetes: the only file that calls it, kopf's watch of jobs aside. Raw dicts in, raw dicts out; no
decisions.

Raw because kubernetes 37's models drop fields they do not know, and refuse manifests that have one; and over a session
of its own, with that client's TLS and credentials, because the client's way of serialising takes longer than the call.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from dtj_api import names
from kubernetes.aio.client import ApiClient, Configuration

from dtj_operator import metrics
from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused, Unavailable

Object = dict[str, Any]

CALL_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
# A watch is ended by the server at the one, and a healthy one brings a bookmark well before the other:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
WATCH_SECONDS, SILENT_SECONDS = 290, 75
WATCH_TIMEOUT = aiohttp.ClientTimeout(total=WATCH_SECONDS + 30, sock_connect=10, sock_read=SILENT_SECONDS)
CONNECTIONS = 120
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
        self._configuration = configuration
        self._proxy = configuration.proxy or _proxy_of_the_environment(configuration.host)
        self._open: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()

    async def get_job(self, namespace: str, name: str) -> Object | None:
        try:
            return await self._call("GET", f"{JOBS}/namespaces/{namespace}/{names.PLURAL}/{name}")
        except NotFound:
            return None

    async def list_jobs(self, namespace: str | None) -> tuple[list[Object], str]:
        """All jobs of one namespace, or of all, and the version of that list."""
        return await self._pages(_collection(names.KIND, namespace), {})

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
        path = _collection(kind, namespace)
        try:
            async with self._session().get(
                self._url(path), params=query, headers=await self._headers(), timeout=WATCH_TIMEOUT, **self._proxying()
            ) as response:
                if response.status >= 400:
                    raise _error(response.status, response.headers.get("Retry-After"), await response.read())
                async for line in _lines(response.content):
                    yield _event(kind, line)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(0, "Unreachable", f"watch {path}: {error or type(error).__name__}") from error

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
        """Delete that very object; one that is gone, or another of its name, is left alone. What it owns goes later.

        Returns:
            the object where it is ending and still there.
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
        except (NotFound, Conflict):
            return None
        return {**left, "kind": kind} if (left.get("metadata") or {}).get("deletionTimestamp") else None

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

    async def _pages(self, path: str, query: Mapping[str, str]) -> tuple[list[Object], str]:
        items: list[Object] = []
        token = ""
        while True:
            page = await self._call("GET", path, {**query, "limit": str(PAGE)} | ({"continue": token} if token else {}))
            items += page["items"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return items, page["metadata"].get("resourceVersion") or ""

    async def _call(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Object | None = None
    ) -> Object:
        headers = await self._headers()
        data = None
        if body is not None:
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
            data = _encode(body)
        code = 0
        try:
            with metrics.API_SECONDS.labels(method).time():
                async with self._session().request(
                    method, self._url(path), params=query, data=data, headers=headers, timeout=CALL_TIMEOUT,
                    **self._proxying(),
                ) as response:  # fmt: skip
                    text = await response.read()
                    code = response.status
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(0, "Unreachable", f"{method} {path}: {error or type(error).__name__}") from error
        finally:
            metrics.API_REQUESTS.labels(method, _resource(path), code).inc()
        if response.status >= 400:
            raise _error(response.status, response.headers.get("Retry-After"), text)
        try:
            return _decode(text)
        except ValueError as error:
            raise Unavailable(response.status, "NotJSON", f"{method} {path}: the answer is no JSON: {error}") from error

    def _check_leadership(self) -> None:
        if not self.may_write():
            raise Unavailable(0, "NotLeading", "this operator does not hold the lease")

    def _session(self) -> aiohttp.ClientSession:
        if self._open is None:
            # the client knows how to read the certificates of every kind of kubeconfig
            tls = ApiClient(self._configuration).rest_client.ssl_context
            # not trust_env: with it aiohttp looks for a netrc file at every call
            self._open = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS))
        return self._open

    def _url(self, path: str) -> str:
        return f"{self._configuration.host}{path}"

    def _proxying(self) -> dict[str, Any]:
        given = {
            "proxy": self._proxy,
            "proxy_headers": self._configuration.proxy_headers,
            "server_hostname": self._configuration.tls_server_name,
        }
        return {name: value for name, value in given.items() if value}

    async def _headers(self) -> dict[str, str]:
        """The token is read again as it is renewed."""
        headers = {"Accept": "application/json", "User-Agent": names.MANAGED_BY}
        authorization = await self._configuration.get_api_key_with_prefix("BearerToken")
        if authorization:
            headers["Authorization"] = authorization
        return headers


def _proxy_of_the_environment(url: str) -> str | None:
    """HTTPS_PROXY and its like, unless NO_PROXY names the host."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.netloc) else getproxies().get(parts.scheme)


def _encode(body: Object) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError:  # nested deeper than 254 levels, or a number beyond 64 bits
        return json.dumps(body).encode()


def _decode(text: bytes) -> Object:
    try:
        answer: Object = orjson.loads(text)
    except orjson.JSONDecodeError:
        # it stops at 1,024 levels; the API server lets in ten times as many, and one such job is in a list of all
        answer = json.loads(text)
    return answer


def _collection(kind: str, namespace: str | None) -> str:
    prefix, plural = COLLECTIONS[kind]
    return f"{prefix}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{prefix}/{plural}"


def _resource(path: str) -> str:
    """
    >>> _resource("/api/v1/namespaces/ml/pods/gpt-0-0"), _resource("/apis/dtj.dev/v1/namespaces/ml/jobs/gpt/status")
    ('pods', 'jobs/status')
    """
    _, group, *parts = path.strip("/").split("/")
    parts = parts[1:] if "." in group else parts
    parts = parts[2:] if parts[0] == "namespaces" else parts
    return f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]


def _leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{quote(namespace, safe='')}/leases"


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """aiohttp's own refuses lines beyond its buffer; an object may have 3 MiB."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _event(kind: str, line: bytes) -> Object:
    event = _decode(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise _error(status.get("code") or 500, None, _encode(status))
    return {"type": event["type"], "object": {"kind": kind, **event["object"]}}


def _error(status: int, retry_after: str | None, text: bytes) -> ApiError:
    """The typed form of a Status object, or of whatever a proxy in between has sent."""
    try:
        answer = _decode(text)
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
