"""Level `api`: etcd and kube-apiserver as plain processes, ready in seconds, several side by side."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from dtj_testbed import binaries
from dtj_testbed.certificates import Authority, encoded, kubeconfig
from dtj_testbed.errors import TestbedError
from dtj_testbed.processes import ProcessGroup, free_ports

# What deletes owned objects, empties deleted namespaces, makes `default` service accounts, fills aggregated roles.
GARBAGE_COLLECTION = (
    "clusterrole-aggregation-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "serviceaccount-controller",
)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_START_ATTEMPTS = 3  # a free port can be taken between our looking and the server's binding


class ApiServer:
    """A Kubernetes API with nothing behind it: no scheduler, no nodes, no admission of service accounts.

    Use it as a context manager, or call `start` and `stop`. When this process dies in whatever way,
    the servers end and their folder is removed.

    Args:
        garbage_collection: also run kube-controller-manager with the controllers that clean up.
        api_arguments: more flags for kube-apiserver, such as `--max-requests-inflight=10`.
        crds: CustomResourceDefinitions that are there before the controllers start; the garbage collector takes half a
            minute to notice later ones.
    """

    def __init__(
        self,
        *,
        garbage_collection: bool = False,
        api_arguments: Sequence[str] = (),
        crds: Sequence[dict[str, Any]] = (),
    ) -> None:
        self._controllers: Sequence[str] = GARBAGE_COLLECTION if garbage_collection else ()
        self._arguments: dict[str, Sequence[str]] = {"kube-apiserver": api_arguments}
        self._crds = crds
        self._processes: ProcessGroup | None = None
        self._authority = Authority(Path())
        self.url = ""
        self.kubeconfig = Path()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start and wait until it serves.

        Raises:
            TestbedError: programs are not built, or a server did not come up; with the ends of the logs.
        """
        for attempt in range(_START_ATTEMPTS):
            try:
                self._start_once()
                return self
            except TestbedError as error:
                self.stop()
                if "address already in use" not in str(error) or attempt == _START_ATTEMPTS - 1:
                    raise
        return self

    def stop(self) -> None:
        if self._processes:
            self._processes.close()
            self._processes = None

    @property
    def processes(self) -> ProcessGroup:
        """The processes behind it, to read logs of or to crash one."""
        if self._processes is None:
            raise TestbedError("the API server has not been started")
        return self._processes

    @property
    def folder(self) -> Path:
        return self.processes.folder

    def user_kubeconfig(self, name: str, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig for any user; RBAC decides what the user may do."""
        certificate, key = self._authority.user(name, groups)
        user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
        return self._write_kubeconfig(f"user-{name.replace('/', '_')}", user)

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """A kubeconfig with a token of a service account, which is made if it is not there."""
        accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        try:
            self.request("POST", accounts, {"metadata": {"name": name}})
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise
        answer = self.request("POST", f"{accounts}/{name}/token", {"spec": {}})
        token = {"token": answer["status"]["token"]}
        return self._write_kubeconfig(f"account-{namespace}-{name}", token, namespace)

    def request(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """One call as administrator, for what a fixture must set up before a client exists.

        Raises:
            urllib.error.HTTPError: the API server said no.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        call = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(call, context=self._client_context(), timeout=10) as answer:
            text = answer.read()
        return json.loads(text) if text.startswith(b"{") else {"text": text.decode()}

    def _start_once(self) -> None:
        self._processes = group = ProcessGroup("api")
        port, etcd_port, peer_port = free_ports(3)
        self.url = f"https://127.0.0.1:{port}"
        self._authority = Authority.make(group.folder / "pki")
        group.start("etcd", _etcd_command(group.folder, etcd_port, peer_port))
        group.start("kube-apiserver", self._api_command(port, etcd_port))
        self.kubeconfig = self.user_kubeconfig("admin", ["system:masters"])
        group.wait_until("kube-apiserver", self._serves)
        for crd in self._crds:
            self.request("POST", _CRDS, crd)
        group.wait_until("custom resources", lambda: all(map(self._established, self._crds)))
        if self._controllers:
            group.start("kube-controller-manager", self._controller_command(self._controllers))
        self._after_start()

    def _after_start(self) -> None:
        """For levels that add to this one."""

    def _api_command(self, port: int, etcd_port: int) -> list[str | Path]:
        names = ["DNS:localhost", "DNS:kubernetes.default.svc", "IP:127.0.0.1"]
        certificate, key = self._authority.server(names)
        account_key = self._authority.key_pair()
        return [
            binaries.need("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{etcd_port}",
            f"--secure-port={port}",
            "--bind-address=127.0.0.1",
            "--endpoint-reconciler-type=none",  # refuses to publish a loopback address
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self._authority.certificate}",
            f"--service-account-key-file={account_key}",
            f"--service-account-signing-key-file={account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",  # pods need no account made beforehand
            "--allow-privileged=true",
            *self._more("kube-apiserver"),
        ]

    def _controller_command(self, controllers: Sequence[str]) -> list[str | Path]:
        return [
            binaries.need("kube-controller-manager"),
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(controllers)}",
            "--secure-port=0",
            "--leader-elect=false",
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={self._authority.folder / 'service-accounts.key'}",
            f"--root-ca-file={self._authority.certificate}",
            "--concurrent-gc-syncs=20",
            *self._more("kube-controller-manager"),
        ]

    def _more(self, program: str) -> Sequence[str]:
        return self._arguments.get(program, ())

    def _established(self, crd: dict[str, Any]) -> bool:
        status = self.request("GET", f"{_CRDS}/{crd['metadata']['name']}").get("status", {})
        return any(c["type"] == "Established" and c["status"] == "True" for c in status.get("conditions") or [])

    def _serves(self) -> bool:
        try:
            self.request("GET", "/readyz")
            self.request("GET", "/api/v1/namespaces/default")
        except OSError:
            return False
        return True

    def _client_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self._authority.certificate))
        folder = self._authority.folder
        context.load_cert_chain(folder / "user-admin.crt", folder / "user-admin.key")
        return context

    def _write_kubeconfig(self, name: str, user: dict[str, Any], namespace: str = "default") -> Path:
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(kubeconfig(self.url, self._authority.certificate, user, namespace))
        return path


def _etcd_command(folder: Path, port: int, peer_port: int) -> list[str | Path]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        binaries.need("etcd"),
        "--data-dir", folder / "etcd",
        "--unsafe-no-fsync",  # the data need not survive a power cut
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}",
        "--log-level", "warn",
    ]  # fmt: skip
