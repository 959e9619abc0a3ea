"""What the container's limits say (cgroup v2): processors, out-of-memory kills. Reads only."""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def processors(cgroup: Path = CGROUP) -> int:
    """Whole processors this container may use: its affinity, cut to its CPU limit; at least 1."""
    available = len(os.sched_getaffinity(0))
    try:
        quota, period = (cgroup / "cpu.max").read_text().split()
        limit = int(quota) / int(period)
    except (OSError, ValueError):
        return available
    return max(1, min(available, int(limit)))


def oom_kills(cgroup: Path = CGROUP) -> int | None:
    """Processes the kernel has killed here for want of memory; None where it does not say."""
    try:
        lines = (cgroup / "memory.events").read_text().splitlines()
    except OSError:
        return None
    counts = dict(line.split() for line in lines)
    return int(counts["oom_kill"]) if "oom_kill" in counts else None
