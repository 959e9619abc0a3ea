"""Where the testbed keeps things. Nothing is written outside these folders."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

CLUSTER_NAME = "dtj"


def cache_root() -> Path:
    """`$DTJ_CACHE`, else `dtj` in the user's cache folder."""
    if chosen := os.environ.get("DTJ_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dtj"


def runtime_root() -> Path:
    """A folder that a reboot empties, one for each cache root; its paths are short enough for sockets."""
    tag = hashlib.sha256(str(cache_root()).encode()).hexdigest()[:8]
    base = "/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/tmp")
    return Path(base) / f"dtj-{tag}"


def state_folder() -> Path:
    """Small facts about the running cluster: kubeconfig, image references, chosen port."""
    return made(cache_root() / "state")


def shared_folder() -> Path:
    """What both nodes see as /shared. Its content lives as long as the cluster."""
    return cache_root() / "shared"


def logs_folder() -> Path:
    return made(cache_root() / "logs")


def kubeconfig() -> Path:
    return state_folder() / "kubeconfig"


def image_references_file() -> Path:
    return state_folder() / "images.json"


def repository_root() -> Path:
    """The checkout this package lies in: testbed/src/dtj_testbed -> three up."""
    return Path(__file__).resolve().parents[3]


def made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder
