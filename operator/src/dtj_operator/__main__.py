"""The operator's process: settings, logging, exit codes. It may be killed at any time."""

import asyncio
import logging
import os
import sys

import kopf
from kubernetes.aio.config import ConfigException

from dtj_operator.leader import LeaseLost
from dtj_operator.runtime import run
from dtj_operator.settings import Settings

logger = logging.getLogger("dtj_operator")

ENDED, CANNOT_START = 1, 2
# The API server takes objects nested 10,000 levels deep: one such job must not end the operator for all. Beyond 80,000
# the C stack, of 8 MiB, is too small.
RECURSION_LIMIT = 40_000


def main() -> None:
    """Exit codes: 0 after SIGTERM, 1 when a part of it ended or the lease was lost, 2 when it cannot start as it is
    configured."""
    try:
        settings = Settings.from_environment(os.environ)
    except ValueError as error:
        sys.exit(_complain(str(error)))
    _configure_logging(settings)
    sys.setrecursionlimit(RECURSION_LIMIT)
    try:
        asyncio.run(run(settings))
    except LeaseLost as error:
        logger.error("%s: another operator may be at work", error)
        sys.exit(ENDED)
    except ConfigException as error:
        sys.exit(_complain(f"neither a service account nor a kubeconfig was found ({error}): set KUBECONFIG"))


def _complain(sentence: str) -> int:
    print(f"dtj-operator: {sentence}", file=sys.stderr)
    return CANNOT_START


def _configure_logging(settings: Settings) -> None:
    # kopf's formatter writes JSON that log collectors read
    kopf.configure(debug=False, quiet=False, log_format=_LOG_FORMATS[settings.log_format])
    level = settings.log_level.upper()
    logging.getLogger().setLevel(level)
    for chatty in ("kopf", "kubernetes", "aiohttp"):
        logging.getLogger(chatty).setLevel(max(logging.getLevelName(level), logging.WARNING))


_LOG_FORMATS = {"json": kopf.LogFormat.JSON, "text": kopf.LogFormat.FULL}


if __name__ == "__main__":
    main()
