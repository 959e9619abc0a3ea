"""What one pod's remains say, in words. Pure; strings out of pods are bounded and stripped of control characters."""

import re
from datetime import datetime

from dtj_api.exit_codes import ExitCode, signal_name
from dtj_api.progress import Failure, TerminationMessage, parse_termination_message

from dtj_operator.pods import ContainerEnd, Pod, Waiting, parse_time

WORDS_LIMIT = 500
# torchrun prefixes a rank's lines with `[rank0]: `, and ends with a table that says less than they do
EXCEPTION = re.compile(r"(\[\w+\]: ?)?[\w.]*(Error|Exception)\b")
# `  File "/app/train.py", line 7, in main`, the innermost comes last
FRAME = re.compile(r'(?:\[\w+\]: ?)?\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<where>\S+)')
RANK = re.compile(r"\[rank(\d+)\]:|^\s*rank\s*: (\d+) \(local_rank", re.MULTILINE)
# What torch.distributed, gloo and NCCL say in a rank whose peer went away.
LOST_PEER = re.compile(
    r"connection (?:was )?(?:reset|closed|aborted|refused)(?: by (?:the )?(?:remote )?peer)?|broken pipe|socket timeout"
    r"|watchdog caught collective|remote process exited|DistNetworkError|DistStoreError|RendezvousConnectionError"
    r"|timed out (?:waiting|after) \d+ ?ms|wait timeout after \d+ ?ms",
    re.IGNORECASE,
)
# An image name that no waiting makes valid.
HOPELESS = frozenset({"InvalidImageName"})
# What the kubelet calls a pod that it ended because its node shuts down.
SHUTDOWN = frozenset({"Terminated", "NodeShutdown", "Shutdown"})
# DisruptionTarget's reasons -> ours
DISRUPTIONS = {
    "PreemptionByScheduler": "Preempted",
    "DeletionByTaintManager": "NodeLost",
    "EvictionByEvictionAPI": "Drained",
    "DeletionByPodGC": "NodeLost",
    "TerminationByKubelet": "Evicted",
}


def title(pod: Pod) -> str:
    """
    >>> title(Pod(name="gpt-0-1", uid="", worker=1, node="n2"))
    'worker 1 (pod gpt-0-1, node n2)'
    """
    where = f", node {pod.node}" if pod.node else ""
    return f"worker {pod.worker} (pod {pod.name}{where})"


def failing_end(pod: Pod) -> ContainerEnd | None:
    """The end that made the pod fail: the trainer's, unless that ended well."""
    if pod.end is not None and pod.end.exit_code != 0:
        return pod.end
    return pod.other_end or pod.end


def hopeless(pod: Pod) -> Waiting | None:
    """A container that will never start."""
    return next((waiting for waiting in pod.waiting if waiting.reason in HOPELESS), None)


def deletion_reason(pod: Pod) -> str:
    return DISRUPTIONS.get(pod.disruption, "PodDeleted")


def reason(pod: Pod, end: ContainerEnd, record: Failure | None) -> str:
    """CamelCase reason of a container that ended with a failure."""
    if end.reason == "OOMKilled":
        return end.reason
    if end.reason in ("StartError", "ContainerCannotRun"):
        return "StartError"
    if record is not None and record.reason:
        return camel_case(record.reason)
    if pod.built_in and end.exit_code in list(ExitCode):
        return ExitCode(end.exit_code).reason
    return signal_name(end.exit_code) or "Error"


def exit_story(pod: Pod, end: ContainerEnd) -> str:
    """`exited with 137 (SIGKILL): last words`."""
    record = failure_record(end)
    aside = f"container {end.container} " if pod.end is not end and end is pod.other_end else ""
    told = f"{aside}exited with {end.exit_code}{_in_brackets(pod, end)}"
    if record is not None:
        code = f" with {record.exit_code}" if record.exit_code != end.exit_code else ""
        told += f", rank {record.rank} first{code}"
    words = tidy(record.message) if record else _last_words(end)
    return f"{told}: {words}" if words else told


def _in_brackets(pod: Pod, end: ContainerEnd) -> str:
    known = end.reason if end.reason not in ("", "Error", "Completed") else ""
    if not known and pod.built_in and end.exit_code in list(ExitCode):
        known = ExitCode(end.exit_code).reason
    words = ", ".join(word for word in (known, signal_name(end.exit_code)) if word)
    return f" ({words})" if words else ""


def failure_record(end: ContainerEnd) -> Failure | None:
    """What the built-in trainer's supervisor wrote; None for anybody else's last words."""
    record = termination_record(end)
    return record.failure if record else None


def termination_record(end: ContainerEnd) -> TerminationMessage | None:
    try:
        return parse_termination_message(end.message)
    # what a container wrote may be anything, deep nesting and huge numbers included
    except (ValueError, ArithmeticError, RecursionError):
        return None


def record_time(record: Failure | None) -> datetime | None:
    try:
        time = parse_time(record.time) if record else None
    except ValueError:
        return None
    return time if time and time.tzinfo else None


def first_rank(pod: Pod, end: ContainerEnd) -> int | None:
    """The rank that failed first in the pod, as far as it can be told."""
    record = failure_record(end)
    if record is not None:
        return record.rank
    if pod.processes == 1:
        return pod.worker
    named = RANK.search(end.message)
    rank = int(named[1] or named[2]) if named else -1
    return rank if rank // pod.processes == pod.worker else None


def blames_a_peer(end: ContainerEnd) -> bool:
    """A script of the user's ended because another rank went away: its last exception says so."""
    return failure_record(end) is None and bool(LOST_PEER.search(_last_words(end)))


def _last_words(end: ContainerEnd) -> str:
    """The last exception and where it was raised, else the last line that says something. A record without a failure
    is no words."""
    if termination_record(end) is not None:
        return ""
    lines = [line for line in end.message.splitlines() if re.search(r"\w", line)]
    raised = [i for i, line in enumerate(lines) if EXCEPTION.match(line) and "ChildFailedError" not in line]
    if not raised:
        return tidy(lines[-1]) if lines else ""
    frames = [frame for line in lines[: raised[-1]] if (frame := FRAME.match(line))]
    where = f" ({frames[-1]['file']}:{frames[-1]['line']} in {frames[-1]['where']})" if frames else ""
    return f"{tidy(lines[raised[-1]])}{tidy(where) and ' ' + tidy(where)}"


def tidy(text: str) -> str:
    """One bounded line without control characters, and without the dot that would end our sentence."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return (line if len(line) <= WORDS_LIMIT else line[:WORDS_LIMIT] + " ...").rstrip(".")


def camel_case(text: str) -> str:
    """A reason that the Kubernetes conventions allow, whatever a pod says it is.

    >>> camel_case("OutOfcpu"), camel_case("disk full!")
    ('OutOfcpu', 'DiskFull')
    """
    words = re.findall(r"[A-Za-z0-9]+", text)
    joined = "".join(word[0].upper() + word[1:] for word in words)[:64]
    return joined if joined[:1].isalpha() else "PodFailed"
