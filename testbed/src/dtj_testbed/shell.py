"""The one place that starts outside programs and turns their failures into readable errors."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from dtj_testbed.errors import TestbedError

Arguments = Sequence[str | Path]


def output(
    command: Arguments,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    timeout: float | None = None,
) -> str:
    """What the command printed on standard output, stripped.

    Raises:
        TestbedError: it failed; the message holds the end of what it printed.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, env=_environment(env), cwd=cwd, input=stdin, text=True,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True, timeout=timeout, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        raise TestbedError(f"{words[0]}: no such program") from None
    except subprocess.TimeoutExpired:
        raise TestbedError(f"{shlex.join(words)}: no answer in {timeout:.0f} s") from None
    if done.returncode:
        raise TestbedError(_failure(words, done.returncode, done.stderr + done.stdout))
    return done.stdout.strip()


def succeeds(command: Arguments, *, env: Mapping[str, str] | None = None, timeout: float = 20) -> bool:
    """Whether the command can be run and exits 0 in time."""
    try:
        output(command, env=env, timeout=timeout)
    except (TestbedError, OSError):
        return False
    return True


def logged(
    command: Arguments,
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> None:
    """Run a long command with everything it prints appended to `log`.

    Raises:
        TestbedError: it failed; the message holds the end of the log.
    """
    words = [str(word) for word in command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as sink:
        sink.write(f"$ {shlex.join(words)}\n")
        sink.flush()
        try:
            done = subprocess.run(
                words, env=_environment(env), cwd=cwd, check=False,
                stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT,
            )  # fmt: skip
        except FileNotFoundError:
            raise TestbedError(f"{words[0]}: no such program") from None
    if done.returncode:
        raise TestbedError(f"{_failure(words, done.returncode, tail(log))}\nwhole log: {log}")


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log, or a note that it is empty."""
    if not log.exists():
        return "(no log)"
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) or "(empty log)"


def _environment(extra: Mapping[str, str] | None) -> dict[str, str]:
    return {**os.environ, **(extra or {})}


def _failure(words: list[str], code: int, printed: str) -> str:
    end = "\n".join("  " + line for line in printed.strip().splitlines()[-20:])
    return f"{shlex.join(words)[:300]} failed (exit code {code}):\n{end}"
