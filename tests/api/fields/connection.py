"""The administrator's view over connections that stay: a TLS handshake for each of 20,000 calls takes a minute."""

import http.client
import io
import json
import threading
import urllib.error
import urllib.parse

from dtj_api import names

from tests.api.harness import Api, Object, Objects


class SteadyApi(Api):
    """One connection a thread."""

    _own = threading.local()

    def request(self, method: str, path: str, body: Object | None = None) -> Object:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        connection = self._connection()
        connection.request(method, path, data, {"Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 400:
            url = self.url + path
            raise urllib.error.HTTPError(url, answer.status, answer.reason, answer.headers, io.BytesIO(text))
        result: Object = json.loads(text)
        return result

    def pods(self, job: str) -> Objects:
        """As Api.pods, without reading those of all other jobs."""
        path = f"{self.path('pods')}?labelSelector={names.LABEL_JOB}={job}"
        pods: Objects = self.request("GET", path)["items"]
        return sorted(pods, key=lambda pod: int(pod["metadata"]["labels"][names.LABEL_WORKER]))

    def _connection(self) -> http.client.HTTPSConnection:
        held: dict[str, http.client.HTTPSConnection] = self._own.__dict__.setdefault("held", {})
        if self.url not in held:
            address = urllib.parse.urlsplit(self.url).netloc
            held[self.url] = http.client.HTTPSConnection(address, timeout=20, context=self.context)
        return held[self.url]
