"""What an engine and kubelets change on the host outside their own folders: noted before, put back after."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path

from dtj_testbed import paths

# The kubelet and systemd of a node, in a privileged container, set these for the whole machine.
_SETTINGS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "fs/file-max", "fs/nr_open",
    "fs/protected_fifos", "fs/protected_regular", "fs/protected_symlinks", "fs/protected_hardlinks",
)  # fmt: skip
# dockerd and its containerd make these whatever folders they are given.
_FOLDERS = ("/etc/docker", "/opt/containerd", "/run/docker", "/run/containerd")


def remember() -> None:
    """Note how things are, unless an earlier note still waits to be acted on."""
    if _note().exists():
        return
    settings = {name: _setting(name).read_text() for name in _SETTINGS if _setting(name).exists()}
    absent = [folder for folder in _FOLDERS if not Path(folder).exists()]
    _note().write_text(json.dumps({"settings": settings, "absent": absent}, indent=1))


def put_back() -> None:
    """Restore the settings and remove the folders that were not there."""
    if not _note().exists():
        return
    note = json.loads(_note().read_text())
    for name, value in note["settings"].items():
        with contextlib.suppress(OSError):
            if _setting(name).read_text() != value:
                _setting(name).write_text(value)
    for folder in note["absent"]:
        shutil.rmtree(folder, ignore_errors=True)
    _note().unlink()


def _note() -> Path:
    return paths.state_folder() / "host-before.json"


def _setting(name: str) -> Path:
    return Path("/proc/sys") / name
