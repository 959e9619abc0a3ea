"""What a machine must have before anything is built: found out all at once, installed where that is possible."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dtj_testbed import debian, paths, shell
from dtj_testbed.errors import TestbedError

GIGABYTE = 1_000_000_000
OLDEST_GO = (1, 21)  # the first that fetches by itself the newer toolchain a module asks for


@dataclass(frozen=True)
class Missing:
    """Something the machine lacks, and how to get it; `package` is its Debian package if there is one."""

    what: str
    how: str
    package: str = ""


def check(*, compiles: bool, brings_engine: bool, gigabytes: float) -> None:
    """Install what can be installed and complain once about all the rest.

    Raises:
        TestbedError: with one line for each thing that is missing.
    """
    missing = find(compiles=compiles, brings_engine=brings_engine, gigabytes=gigabytes)
    installable = [one.package for one in missing if one.package]
    if installable and debian.is_root_on_debian():
        debian.install(installable)
        missing = find(compiles=compiles, brings_engine=brings_engine, gigabytes=gigabytes)
    if missing:
        raise TestbedError(message(missing))


def find(*, compiles: bool, brings_engine: bool, gigabytes: float) -> list[Missing]:
    """Everything that is missing, in the order a person would put it right."""
    found = [_space(gigabytes)]
    if importlib.util.find_spec("ensurepip") is None:
        found.append(Missing("Python's venv module", "install the package python3-venv", "python3-venv"))
    if not shutil.which("openssl"):
        found.append(Missing("openssl", "install the package openssl", "openssl"))
    if compiles:
        found.append(_go())
    if brings_engine:
        found.extend(_own_engine())
    return [one for one in found if one]


def message(missing: Iterable[Missing]) -> str:
    lines = [f"  - {one.what}: {one.how}" for one in missing]
    return "The testbed cannot start on this machine. Missing:\n" + "\n".join(lines)


def free_gigabytes() -> float:
    """Free space where the cache is, or will be."""
    folder: Path = paths.cache_root()
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).free / GIGABYTE


def _space(gigabytes: float) -> Missing | None:
    free = free_gigabytes()
    if free >= gigabytes:
        return None
    return Missing(
        f"disk space: {free:.0f} GB free, {gigabytes:.0f} GB needed in {paths.cache_root()}",
        "free some, or name another folder in DTJ_CACHE",
    )


def _go() -> Missing | None:
    wanted = ".".join(map(str, OLDEST_GO))
    how = f"install Go {wanted} or newer (go.dev/doc/install) and put it on PATH"
    try:
        version = shell.output(["go", "env", "GOVERSION"])
    except TestbedError:
        return Missing("go", how)
    numbers = re.match(r"go(\d+)\.(\d+)", version)
    if numbers and (int(numbers[1]), int(numbers[2])) < OLDEST_GO:
        return Missing(f"a newer Go than {version}", how)
    return None


def _own_engine() -> list[Missing | None]:
    if sys.platform != "linux" or not debian.is_root_on_debian():
        return [
            Missing(
                "a container engine that answers",
                "start Docker or podman; as root on Debian the testbed brings its own",
            )
        ]
    absent = not shutil.which("mmdebstrap")
    return [Missing("mmdebstrap", "apt-get install mmdebstrap", "mmdebstrap") if absent else None]
