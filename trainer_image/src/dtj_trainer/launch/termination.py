"""The pod's last words: the termination message, where the kubelet looks for it."""

import os
from collections.abc import Mapping

from dtj_api.progress import TERMINATION_MESSAGE_PATH, TerminationMessage, to_json

VARIABLE = "DTJ_TERMINATION_LOG"


def write(message: TerminationMessage, environ: Mapping[str, str]) -> None:
    """Never fails: a pod's exit code must not depend on whether its last words could be written."""
    named = environ.get(VARIABLE)
    path = named or TERMINATION_MESSAGE_PATH
    # The kubelet makes the file; outside a pod nothing must appear in /dev
    if named is None and not os.path.exists(path):
        return
    try:
        with open(path, "w") as file:
            file.write(to_json(message))
    except OSError:
        return
