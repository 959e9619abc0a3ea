"""The container engine: the one that answers, else a private dockerd. How to talk to it, for everybody else."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path

from dtj_testbed import private_engine, shell
from dtj_testbed.errors import TestbedError


@dataclass(frozen=True)
class Engine:
    """An engine that answers.

    Attributes:
        program: `docker` or `podman`, by its full path.
        environment: what a process needs to reach it, such as DOCKER_HOST.
        private: we started it, so we may stop it.
    """

    program: str
    environment: dict[str, str] = field(default_factory=dict)
    private: bool = False

    @property
    def is_podman(self) -> bool:
        return Path(self.program).name == "podman"

    def output(self, *arguments: str | Path, timeout: float | None = 120) -> str:
        """Run one engine command and return what it printed."""
        return shell.output([self.program, *arguments], env=self.environment, timeout=timeout)

    def succeeds(self, *arguments: str | Path, timeout: float = 20) -> bool:
        return shell.succeeds([self.program, *arguments], env=self.environment, timeout=timeout)

    def logged(self, log: Path, *arguments: str | Path) -> None:
        """Run a long engine command into a log."""
        shell.logged([self.program, *arguments], log, env=self.environment)

    def container_state(self, name: str) -> str:
        """`running`, `exited`, `paused`, …, or `absent`."""
        try:
            return self.output("inspect", "--format", "{{.State.Status}}", name)
        except TestbedError:
            return "absent"

    def has_image(self, reference: str) -> bool:
        return self.succeeds("image", "inspect", reference)

    def build_arguments(self) -> list[str]:
        """What a build needs on this engine: ours has no bridge with a way out, so builds use the host's."""
        return ["--network", "host"] if self.private else []


def answering() -> Engine | None:
    """The engine to use if one answers now: ours if it has been started, else the user's own."""
    if ours := ours_if_answering():
        return ours
    for name, answer in (("docker", "{{.ServerVersion}}"), ("podman", "{{.Version.Version}}")):
        program = shutil.which(name)
        if program and shell.succeeds([program, "info", "--format", answer], timeout=10):
            return Engine(program)
    return None


def ours_if_answering() -> Engine | None:
    environment = private_engine.environment()
    docker = private_engine.docker_program()
    if docker is None or not private_engine.socket_path().exists():
        return None
    answers = shell.succeeds([docker, "version"], env=environment, timeout=10)
    return Engine(docker, environment, private=True) if answers else None


def bring() -> Engine:
    """An engine that answers, started if need be.

    Raises:
        TestbedError: there is none and none can be brought on this machine.
    """
    if found := answering():
        return found
    private_engine.start()
    if found := ours_if_answering():
        return found
    raise TestbedError(f"the private container engine does not answer; its log: {private_engine.log_path()}")
