"""`dtj-launch`: PID 1 of a pod. Wires supervisor, HTTP port, verdict and termination message together."""

import os
import shutil
import sys
import tempfile
import time

from dtj_api import environment
from dtj_api.environment import Gang
from dtj_api.exit_codes import ExitCode
from dtj_api.progress import Failure, TerminationMessage

from dtj_trainer.clock import rfc3339
from dtj_trainer.errors import TrainerError
from dtj_trainer.launch import termination
from dtj_trainer.launch.server import Alive, Pages, Server
from dtj_trainer.launch.supervisor import Signals, Supervisor, rank_command
from dtj_trainer.launch.verdict import End, failure, first_cause
from dtj_trainer.observe.log import Log
from dtj_trainer.run_folder import RunFolder

USAGE = """usage: dtj-launch                          the built-in trainer, configured by DTJ_CONFIG
       dtj-launch SCRIPT.py [ARGUMENT...]  a script of your own
       dtj-launch -m MODULE [ARGUMENT...]  a module of your own

Starts LOCAL_WORLD_SIZE ranks (default 1) with the environment torch.distributed reads, and serves /metrics, /progress
and /healthz for them on DTJ_METRICS_PORT (default 9464)."""
DEFAULT_METRICS_PORT = 9464


def main() -> None:
    """Console script."""
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(USAGE)
        return
    sys.exit(launch(sys.argv[1:]))


def launch(arguments: list[str]) -> int:
    """Run the pod's ranks to their end. Returns the pod's exit code."""
    log = Log(rank=None)
    signals = Signals()
    try:
        gang, port = _surroundings()
        folder = _run_folder()
    except TrainerError as error:
        cause = Failure(0, error.code, error.code.reason, str(error), rfc3339(time.time()))
        return _conclude(log, cause, TerminationMessage(failure=cause))
    try:
        return _supervise(log, gang, port, rank_command(arguments, sys.executable), folder, signals)
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


def _supervise(log: Log, gang: Gang, port: int, command: list[str], run: RunFolder, signals: Signals) -> int:
    supervisor = Supervisor(gang=gang, command=command, environ=os.environ, run=run, signals=signals)
    supervisor.start()
    first = gang.rank(0)
    ranks = [gang.rank(local_rank) for local_rank in range(gang.processes)]
    log.info("started", ranks=ranks, world_size=gang.world_size, processes=supervisor.processes())
    try:
        bound = Server(port, Pages(run, Alive(supervisor.alive, os.environ), first)).start()
        log.info("serving", metrics_port=bound)
    except OSError as error:
        # Better a run nobody sees than no run
        problem = f"cannot listen on {environment.METRICS_PORT}={port}: {error.strerror}; training goes on unseen"
        log.warning("metrics_unavailable", message=problem)
    ends = supervisor.watch()
    cause = first_cause(ends)
    _tell_the_others(log, ends, cause)
    return _conclude(log, cause, TerminationMessage(run.read_progress(), cause))


def _conclude(log: Log, cause: Failure | None, message: TerminationMessage) -> int:
    termination.write(message, os.environ)
    if cause is None:
        log.info("ended", exit_code=0)
        return ExitCode.SUCCESS
    say = log.info if cause.exit_code == ExitCode.STOPPED else log.error
    event = "stopped" if cause.exit_code == ExitCode.STOPPED else "failed"
    checkpoint = message.progress.checkpoint if message.progress else None
    saved = {"checkpoint": checkpoint.path} if checkpoint else {}
    say(event, exit_code=cause.exit_code, failed_rank=cause.rank, reason=cause.reason, message=cause.message, **saved)
    return cause.exit_code


def _tell_the_others(log: Log, ends: list[End], cause: Failure | None) -> None:
    """Ranks that ended with the one to blame, one line each, without their words: those would hide the cause."""
    for end in ends:
        if cause is not None and end.status != 0 and end.rank != cause.rank:
            log.info("rank_ended", ended_rank=end.rank, exit_code=end.exit_code, reason=failure(end).reason)


def _surroundings() -> tuple[Gang, int]:
    name = environment.METRICS_PORT
    try:
        port = int(os.environ.get(name, DEFAULT_METRICS_PORT))
        if not 0 <= port < 65536:
            raise ValueError(f"{name}={port} is not a port")
        return Gang.from_environment(os.environ), port
    except ValueError as error:
        raise TrainerError(ExitCode.INVALID_CONFIG, f"environment: {error}; it is set by the operator") from None


def _run_folder() -> RunFolder:
    try:
        return RunFolder.make()
    except OSError as error:
        where = tempfile.gettempprefix() if error.filename is None else error.filename
        problem = f"no scratch space at {where}: {error.strerror or error}; mount an emptyDir at /tmp or set TMPDIR"
        raise TrainerError(ExitCode.ERROR, problem) from None


if __name__ == "__main__":
    main()
