"""The pod's HTTP port: /metrics of all its ranks, /progress of rank 0, /healthz."""

import json
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dtj_api import environment
from dtj_api.names import METRICS_PATH, PROGRESS_PATH
from dtj_api.progress import to_json
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from dtj_trainer.run_folder import RunFolder

JSON = "application/json"


class Alive(Collector):
    """How many ranks of this pod are running, read at each scrape."""

    def __init__(self, count: Callable[[], int], environ: Mapping[str, str]) -> None:
        self.count = count
        self.labels = [environ.get(environment.JOB, ""), environ.get(environment.NAMESPACE, "")]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily("dtj_ranks_alive", "Ranks of this pod that are running", labels=["job", "namespace"])
        family.add_metric(self.labels, self.count())
        yield family


class Pages:
    """Path -> (status, content type, body)."""

    def __init__(self, run: RunFolder, alive: Collector, first_rank: int) -> None:
        self.run = run
        self.first_rank = first_rank
        self.registry = CollectorRegistry()
        MultiProcessCollector(self.registry, path=str(run.metrics))  # type: ignore[no-untyped-call]
        self.registry.register(alive)

    def get(self, path: str) -> tuple[int, str, bytes]:
        if path == METRICS_PATH:
            return 200, CONTENT_TYPE_LATEST, generate_latest(self.registry)
        if path == PROGRESS_PATH:
            return self._progress()
        if path == "/healthz":
            return 200, JSON, _reason("alive")
        return 404, JSON, _reason(f"no page here; there are {METRICS_PATH}, {PROGRESS_PATH} and /healthz")

    def _progress(self) -> tuple[int, str, bytes]:
        if self.first_rank != 0:
            return 404, JSON, _reason("rank 0 runs in worker 0: ask its pod")
        progress = self.run.read_progress()
        if progress is None:
            return 404, JSON, _reason("rank 0 has written no progress yet")
        return 200, JSON, to_json(progress).encode()


class Handler(BaseHTTPRequestHandler):
    """GET and HEAD of the server's pages."""

    server: "Server"
    # A client that connects and says nothing must not hold a thread for ever
    timeout = 10

    def do_GET(self) -> None:
        status, kind, body = self.server.pages.get(self.path.partition("?")[0])
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """A scrape every few seconds is no news."""


class Server(ThreadingHTTPServer):
    """Listens on IPv6 and IPv4 alike where the machine has both."""

    daemon_threads = True

    def __init__(self, port: int, pages: Pages) -> None:
        self.pages = pages
        try:
            self.address_family = socket.AF_INET6
            super().__init__(("::", port), Handler)
        except OSError:
            self.address_family = socket.AF_INET
            super().__init__(("0.0.0.0", port), Handler)

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Past HTTPServer's own, which asks the DNS for this host's full name: seconds in a pod with none yet
        socketserver.TCPServer.server_bind(self)

    def start(self) -> int:
        """Serve from a thread of its own; the port that was bound."""
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()
        return int(self.server_address[1])


def _reason(words: str) -> bytes:
    return json.dumps({"reason": words}).encode()
