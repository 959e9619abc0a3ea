"""Taking down: the cluster and our engine but no cache (`down`), or all of it (`clean`)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from dtj_testbed import cluster, node_image, paths, private_engine, registry
from dtj_testbed import engine as engines


def down() -> None:
    """Cluster, registry container and kind's network go; an engine of ours stops. Caches stay."""
    engine = engines.answering()
    if engine is None and private_engine.data_folder().exists():
        # Its containers and network would be waiting at the next start.
        private_engine.stop()
        private_engine.start()
        engine = engines.ours_if_answering()
    if engine:
        cluster.delete(engine)
        registry.stop(engine)
        engine.succeeds("network", "rm", registry.NETWORK)
    private_engine.stop()


def clean() -> None:
    """`down`, and every file the testbed has made."""
    down()
    engine = engines.answering()
    if engine:
        engine.succeeds("image", "rm", "--force", node_image.reference())
    root = paths.cache_root()
    for entry in root.iterdir() if root.exists() else ():
        if entry.name in _OURS or entry.name.startswith("engine-"):
            _remove(entry)


_OURS = {"bin", "debian", "engine-data", "go", "logs", "registry", "state", "lock", "node-context"}


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry, ignore_errors=True)
    else:
        entry.unlink(missing_ok=True)


def cache_sizes() -> dict[str, int]:
    """Bytes on disk of each part of the cache."""
    root = paths.cache_root()
    parts = sorted(root.iterdir()) if root.exists() else []
    return {entry.name: _size(entry) for entry in parts if entry.is_dir()}


def _size(folder: Path) -> int:
    total = 0
    for base, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if not os.path.ismount(os.path.join(base, f))]
        for name in files:
            try:
                total += os.lstat(os.path.join(base, name)).st_blocks * 512
            except OSError:
                continue
    return total
