"""Where a pod's ranks leave word for their supervisor: progress, failures, metrics. Scratch space only. No torch."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dtj_api.progress import Failure, Progress, TerminationMessage, parse_progress, parse_termination_message, to_json

# Set by the supervisor for its ranks; not part of the contract with the operator.
VARIABLE = "DTJ_RUN_DIR"
PROMETHEUS_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@dataclass(frozen=True)
class RunFolder:
    """Files are replaced by rename: a reader sees the old record or the new one, never half of one."""

    path: Path

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "RunFolder | None":
        """None where no supervisor started this process."""
        return cls(Path(environ[VARIABLE])) if environ.get(VARIABLE) else None

    @classmethod
    def make(cls) -> "RunFolder":
        """A fresh one under $TMPDIR or /tmp. Raises OSError where nothing can be written."""
        run = cls(Path(tempfile.mkdtemp(prefix="dtj-")))
        run.metrics.mkdir()
        return run

    @property
    def metrics(self) -> Path:
        """Where prometheus_client's processes keep their values."""
        return self.path / "metrics"

    def environment(self) -> dict[str, str]:
        return {VARIABLE: str(self.path), PROMETHEUS_VARIABLE: str(self.metrics)}

    def write_progress(self, progress: Progress) -> None:
        """Raises OSError."""
        self._replace("progress.json", to_json(progress))

    def read_progress(self) -> Progress | None:
        """The latest record; None before the first, or where it cannot be read."""
        try:
            return parse_progress((self.path / "progress.json").read_text())
        except (OSError, ValueError):
            return None

    def write_failure(self, failure: Failure) -> None:
        """Raises OSError."""
        self._replace(f"failure-{failure.rank}.json", to_json(TerminationMessage(failure=failure)))

    def read_failure(self, rank: int) -> Failure | None:
        """What the rank wrote before it ended; None if it wrote nothing."""
        try:
            return parse_termination_message((self.path / f"failure-{rank}.json").read_text()).failure
        except (OSError, ValueError):
            return None

    def _replace(self, name: str, text: str) -> None:
        temporary = self.path / f".{name}.{os.getpid()}"
        try:
            temporary.write_text(text + "\n")
            temporary.replace(self.path / name)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
