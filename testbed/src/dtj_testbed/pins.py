"""Every version the testbed builds or pulls, and the keys its caches are filed under."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

KUBERNETES = "v1.36.3"
ETCD = "v3.6.8"
ETCD_IMAGE_TAG = "3.6.8-0"
COREDNS = "v1.14.2"
PAUSE_IMAGE_TAG = "3.10"
KIND = "v0.33.0"
HELM = "v4.3.1"
KWOK = "v0.8.0"
JOBSET = "v0.10.1"
TRAINING_OPERATOR = "v1.9.3"
DEBIAN_SUITE = "bookworm"  # its systemd 252 still runs on cgroup v1 hosts; trixie's does not

NODE_IMAGE_PULLED = f"kindest/node:{KUBERNETES}"
REGISTRY_IMAGE_PULLED = "registry:3"
PRODUCT_BASE_PULLED = "python:3.13-slim"

PACKAGE_FOLDER = Path(__file__).parent
GO_MODULES = ("kubernetes", "tools", "node", "localpath", "jobset", "training-operator")


def go_module_folder(module: str) -> Path:
    """The folder of one of `GO_MODULES`."""
    return PACKAGE_FOLDER / "golang" / module


def digest(parts: Iterable[str | bytes]) -> str:
    """Twelve hexadecimal digits that change when any part does."""
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.hexdigest()[:12]


def digest_of_files(folder: Path, patterns: Iterable[str] = ("**/*",)) -> str:
    """A digest of names and contents of the files under `folder` that match."""
    files = {p for pattern in patterns for p in folder.glob(pattern) if p.is_file()}
    ignored = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
    kept = sorted(p for p in files if not ignored.intersection(p.parts))
    return digest(part for p in kept for part in (str(p.relative_to(folder)), p.read_bytes()))


def go_module_key(module: str, go_version: str) -> str:
    """What the binaries of one Go module are cached under."""
    sources = digest_of_files(go_module_folder(module))
    return digest([module, go_version, KUBERNETES, KIND, HELM, KWOK, sources])


def node_image_key(module_keys: Iterable[str]) -> str:
    """What a node image built from those binaries is tagged with."""
    recipe = digest_of_files(PACKAGE_FOLDER / "node")
    return digest([recipe, DEBIAN_SUITE, ETCD_IMAGE_TAG, COREDNS, PAUSE_IMAGE_TAG, *module_keys])
