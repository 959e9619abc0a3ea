"""On what, and with which versions, was measured. No names of hosts, no paths."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from dtj_testbed import binaries, pins

from benchmarks.operator.contenders import ROOT


def facts() -> dict[str, str]:
    return {
        "CPU": f"{_field('/proc/cpuinfo', 'model name')}, {os.cpu_count()} cores",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 1e9:.0f} GB",
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "commit": _commit(),
        "Kubernetes": f"{pins.KUBERNETES}, etcd {pins.ETCD} (no fsync), kwok {pins.KWOK}",
        "peers": f"JobSet {pins.JOBSET}, training-operator {pins.TRAINING_OPERATOR}, {binaries.go_version()}",
        "Python": f"{platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "kopf", "kubernetes", "orjson")),
    }


def _field(path: str, name: str) -> str:
    lines = (line.partition(":") for line in Path(path).read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "unknown")


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--", "operator", "api")
    return (git("rev-parse", "--short", "HEAD") or "unknown") + (" and changes not committed" if changed else "")
