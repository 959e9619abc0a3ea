"""What the container's limits say (cgroup v2, or v1): processors, out-of-memory kills. Reads only."""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
_V1_LIMIT = ("quota", "period")


def processors(cgroup: Path = CGROUP) -> int:
    """Whole processors this container may use: its affinity, cut to its CPU limit; at least 1."""
    available = len(os.sched_getaffinity(0))
    words = _text(cgroup / "cpu.max") or " ".join(_text(cgroup / "cpu" / f"cpu.cfs_{name}_us") for name in _V1_LIMIT)
    try:
        quota, period = map(int, words.split())
    except ValueError:
        # none there, or `max`
        return available
    # without a limit v1 has -1
    return max(1, min(available, quota // period)) if quota > 0 else available


def oom_kills(cgroup: Path = CGROUP) -> int | None:
    """Processes the kernel has killed here for want of memory; None where it does not say."""
    text = _text(cgroup / "memory.events") or _text(cgroup / "memory" / "memory.oom_control")
    counts = dict(line.split() for line in text.splitlines())
    return int(counts["oom_kill"]) if "oom_kill" in counts else None


def _text(path: Path) -> str:
    """Empty where it cannot be read."""
    try:
        return path.read_text()
    except OSError:
        return ""
