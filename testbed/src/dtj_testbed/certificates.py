"""A throw-away certificate authority by openssl: one for each API server, valid for a day or so."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtj_testbed import shell

_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
_DAYS = ["-days", "30"]


@dataclass(frozen=True)
class Authority:
    """A folder with ca.crt, ca.key and what was signed by them."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.crt"

    @classmethod
    def make(cls, folder: Path) -> Authority:
        folder.mkdir(parents=True, exist_ok=True)
        authority = cls(folder)
        shell.output(
            ["openssl", "req", "-x509", *_KEY, *_DAYS, "-subj", "/CN=dtj-testbed",
             "-keyout", folder / "ca.key", "-out", authority.certificate]
        )  # fmt: skip
        return authority

    def server(self, names: Sequence[str]) -> tuple[Path, Path]:
        """Certificate and key for a server under names such as `DNS:localhost` or `IP:127.0.0.1`."""
        return self._sign("server", "/CN=kube-apiserver", ["-addext", f"subjectAltName={','.join(names)}"])

    def user(self, name: str, groups: Sequence[str] = ()) -> tuple[Path, Path]:
        """Certificate and key by which the API server knows a user and the user's groups."""
        subject = "".join(f"/O={group}" for group in groups) + f"/CN={name}"
        return self._sign(f"user-{name.replace('/', '_')}", subject, [])

    def key_pair(self) -> Path:
        """A private key to sign service-account tokens with."""
        path = self.folder / "service-accounts.key"
        shell.output(["openssl", "ecparam", "-genkey", "-name", "prime256v1", "-noout", "-out", path])
        return path

    def _sign(self, name: str, subject: str, extensions: list[str]) -> tuple[Path, Path]:
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request = self.folder / f"{name}.csr"
        shell.output(["openssl", "req", *_KEY, "-subj", subject, *extensions, "-keyout", key, "-out", request])
        shell.output(
            ["openssl", "x509", "-req", "-in", request, *_DAYS, "-copy_extensions", "copy",
             "-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
             "-out", certificate]
        )  # fmt: skip
        return certificate, key


def kubeconfig(server: str, authority: Path, user: dict[str, Any], namespace: str = "default") -> str:
    """A kubeconfig as JSON (which is YAML); `user` holds a token or certificate data."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "testbed",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server, "certificate-authority-data": encoded(authority)},
                }
            ],
            "users": [{"name": "testbed", "user": user}],
            "contexts": [
                {
                    "name": "testbed",
                    "context": {"cluster": "testbed", "user": "testbed", "namespace": namespace},
                }
            ],
        },
        indent=1,
    )


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
