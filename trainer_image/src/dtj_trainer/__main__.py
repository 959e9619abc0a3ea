"""`python -m dtj_trainer`: one rank. Configuration and data are checked before torch is imported, to fail at once."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import NoReturn

from dtj_api import environment
from dtj_api.environment import Gang
from dtj_api.exit_codes import ExitCode
from dtj_api.layout import Ranks
from dtj_api.progress import Failure

from dtj_trainer import config as configuration
from dtj_trainer import data
from dtj_trainer.clock import rfc3339
from dtj_trainer.errors import Explanation, TrainerError, explain
from dtj_trainer.health.signals import StopRequest, stop_with_parent
from dtj_trainer.observe.log import Log
from dtj_trainer.run_folder import RunFolder


def main() -> None:
    """Run, and leave with the exit code of what happened."""
    options = _arguments()
    rank = int(os.environ.get(environment.RANK) or 0)
    log, run = Log(rank), RunFolder.from_environment(os.environ)
    stopped = Explanation(ExitCode.STOPPED, "stopped by a signal before training began; nothing to save")
    stop = StopRequest(leave=lambda: _leave(stopped, rank, log, run))
    try:
        if options.evaluate:
            from dtj_trainer.evaluate import check_checkpoint

            print(check_checkpoint(Path(options.evaluate), with_bigram=options.bigram))
            return
        stop.install()
        if run is not None:
            stop_with_parent()
        _run(options, stop, log, run)
        _exit(ExitCode.SUCCESS)
    except Exception as error:  # noqa: BLE001 the last place that can put it into words
        _leave(explain(error), rank, log, run)


def _run(options: argparse.Namespace, stop: StopRequest, log: Log, run: RunFolder | None) -> None:
    gang = _gang()
    config = configuration.load(options.config, os.environ, Ranks(gang.world_size, gang.processes))
    dataset = data.load(config.training.data)
    if options.check:
        print(
            f"valid for {gang.world_size} ranks: "
            f"{len(dataset.train)} training and {len(dataset.validation)} validation samples"
        )
        return
    from dtj_trainer.distributed import join
    from dtj_trainer.train import train

    with join(config.training.timeout_seconds, log) as world:
        train(config=config, dataset=dataset, world=world, stop=stop, log=log, run_folder=run)


def _leave(why: Explanation, rank: int, log: Log, run: RunFolder | None) -> NoReturn:
    """End this process at once: the process group may hang on peers that are gone.

    Under a supervisor the words go to it, which says those of the first cause only.
    """
    if why.trace is not None:
        log.error("traceback", message=why.message, traceback=why.trace)
    if not _told(Failure(rank, why.code, why.reason, why.message, rfc3339(time.time())), run):
        say = log.info if why.code == ExitCode.STOPPED else log.error
        say(
            "stopped" if why.code == ExitCode.STOPPED else "failed",
            exit_code=why.code,
            reason=why.reason,
            message=why.message,
        )
    _exit(why.code)


def _exit(code: ExitCode) -> NoReturn:
    """Without the interpreter's own tidying up: with torch loaded that takes up to seconds."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _told(failure: Failure, run: RunFolder | None) -> bool:
    if run is None:
        return False
    try:
        run.write_failure(failure)
    except OSError:
        return False
    return True


def _gang() -> Gang:
    try:
        return Gang.from_environment(os.environ)
    except ValueError as error:
        raise TrainerError(ExitCode.INVALID_CONFIG, f"environment: {error}; it is set by the launcher") from None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dtj_trainer", description="One rank of a training run.")
    parser.add_argument(
        "config", nargs="?", help=f"JSON file; without it, the environment variable {environment.CONFIG}"
    )
    parser.add_argument("--check", action="store_true", help="check configuration and data, train nothing")
    parser.add_argument("--evaluate", metavar="FOLDER", help="recompute the validation loss of a checkpoint")
    parser.add_argument("--bigram", action="store_true", help="with --evaluate: also the loss of a bigram model")
    return parser.parse_args()


if __name__ == "__main__":
    main()
