"""Debian's packages: unpacked into a folder, installed, or made into a root file system. The one caller of apt."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from dtj_testbed import paths, pins, shell
from dtj_testbed.errors import TestbedError

_AS_ROOT = ("-o", "APT::Sandbox::User=root")  # the cache may lie where apt's own user cannot write
_WAITING = ("-o", "DPkg::Lock::Timeout=600")  # a fresh machine often updates itself
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def is_root_on_debian() -> bool:
    return os.geteuid() == 0 and bool(shutil.which("apt-get")) and bool(shutil.which("dpkg"))


def install(packages: Sequence[str]) -> None:
    """Install packages on this machine, looking the lists up anew only if they are too old."""
    log = paths.logs_folder() / "apt.log"
    command = ["apt-get", *_WAITING, "install", "--yes", "--no-install-recommends", *packages]
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        shell.logged(command, log, env=quiet)
    except TestbedError:
        shell.logged(["apt-get", "update"], log)
        shell.logged(command, log, env=quiet)


def unpack(packages: Sequence[str], folder: Path) -> None:
    """Download packages and unpack them into a folder, without installing anything."""
    log = paths.logs_folder() / "apt.log"
    archives = folder.with_suffix(".debs")
    shutil.rmtree(archives, ignore_errors=True)
    paths.made(archives)
    command = ["apt-get", *_AS_ROOT, "download", *packages]
    try:
        shell.logged(command, log, cwd=archives)
    except TestbedError:
        shell.logged(["apt-get", "update"], log)
        shell.logged(command, log, cwd=archives)
    paths.made(folder)
    for archive in sorted(archives.glob("*.deb")):
        shell.logged(["dpkg", "-x", archive, folder], log)
    shutil.rmtree(archives)


def root_file_system(packages: Sequence[str], target: Path) -> None:
    """Write a tar archive of a minimal Debian with these packages; nothing is done if it is there."""
    if target.exists():
        return
    paths.made(target.parent)
    temporary = target.with_suffix(".new.tar")
    temporary.unlink(missing_ok=True)
    options = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    shell.logged(
        ["mmdebstrap", "--variant=minbase", f"--include={','.join(packages)}", *options,
         "--customize-hook=rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/cache/apt/*.bin",
         pins.DEBIAN_SUITE, temporary],
        paths.logs_folder() / f"{target.stem}.log",
    )  # fmt: skip
    temporary.rename(target)


def install_missing_programs() -> None:
    """What building without a registry needs on this machine."""
    if absent := [name for name in ("mmdebstrap",) if not shutil.which(name)]:
        install(absent)
