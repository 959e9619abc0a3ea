"""One connection to the API server: credentials, TLS, JSON and typed errors. Knows no resource.

Over a session of its own, with the TLS and the credentials of the kubernetes client, because that client's way of
serialising takes longer than the call.
"""

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from dtj_api import names
from kubernetes.aio.client import ApiClient, Configuration

from dtj_operator import metrics
from dtj_operator.errors import AlreadyExists, ApiError, Conflict, NotFound, Refused, Unavailable

Object = dict[str, Any]

CALL_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
# A healthy watch brings a bookmark about every minute:
# https://kubernetes.io/docs/reference/using-api/api-concepts/#watch-bookmarks
SILENT_SECONDS = 75
CONNECTIONS = 120


class Connection:
    """To the API server of a configuration. What it raises is in errors.py."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._proxy = configuration.proxy or _proxy_of_the_environment(configuration.host)
        self._open: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._open is not None:
            await self._open.close()

    async def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Object | None = None,
        accept: str = "application/json",
    ) -> Object:
        """One request, and its answer.

        Raises:
            ApiError: one of errors.py, where the API server says no.
        """
        headers = {**await self._headers(), "Accept": accept}
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

    async def stream(self, path: str, query: Mapping[str, str], seconds: float) -> AsyncIterator[Object]:
        """What a watch brings until the server ends it, after about so many seconds.

        Raises:
            Unavailable: the connection broke or fell silent.
            ApiError: the server says no, also in the middle of the stream.
        """
        timeout = aiohttp.ClientTimeout(total=seconds + 30, sock_connect=10, sock_read=SILENT_SECONDS)
        headers = await self._headers()
        try:
            async with self._session().get(
                self._url(path), params=query, headers=headers, timeout=timeout, **self._proxying()
            ) as response:
                if response.status >= 400:
                    raise _error(response.status, response.headers.get("Retry-After"), await response.read())
                async for line in _lines(response.content):
                    yield _event(line)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(0, "Unreachable", f"watch {path}: {error or type(error).__name__}") from error

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


def _resource(path: str) -> str:
    """
    >>> _resource("/api/v1/namespaces/ml/pods/gpt-0-0"), _resource("/apis/dtj.dev/v1/namespaces/ml/jobs/gpt/status")
    ('pods', 'jobs/status')
    """
    _, group, *parts = path.strip("/").split("/")
    parts = parts[1:] if "." in group else parts
    parts = parts[2:] if parts[0] == "namespaces" else parts
    return f"{parts[0]}/{parts[2]}" if len(parts) > 2 else parts[0]


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """aiohttp's own refuses lines beyond its buffer; an object may have 3 MiB."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            if line:
                yield line


def _event(line: bytes) -> Object:
    event = _decode(line)
    if event["type"] == "ERROR":
        status = event["object"]
        raise _error(status.get("code") or 500, None, _encode(status))
    return event


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
