"""What a failure calls for: the job's own rules first, then its restart policy and common sense. Pure."""

from collections.abc import Iterable, Mapping

from dtj_api.spec import ConditionPattern, FailureAction, FailureRule, Restart

from dtj_operator.pods import Node
from dtj_operator.policy.failure import Verdict

# The next attempt would die of these too.
PERMANENT = frozenset(
    {
        "InvalidConfig", "DataNotFound", "CheckpointMismatch", "CheckpointInvalid", "StorageFull", "Diverged",
        "InvalidImageName", "ImagePullFailed", "ContainerConfigError", "ContainerNotCreated", "StartError",
        "DeadlineExceeded",
    }
)  # fmt: skip
# Exit codes below this one mean that the same run would fail again, as PyTorchJob's users know it.
FIRST_RETRYABLE = 128


def first_match(rules: Iterable[FailureRule], verdict: Verdict, nodes: Mapping[str, Node]) -> FailureRule | None:
    """The first rule whose every mark the failure has."""
    return next((rule for rule in rules if _matches(rule, verdict, nodes)), None)


def default_action(restart: Restart, verdict: Verdict) -> FailureAction:
    """What is done where no rule of the job's matches."""
    if restart.policy == "Never" or verdict.reason in PERMANENT:
        return "FailJob"
    if verdict.disrupted:
        return "Ignore"
    exited = verdict.exit_code is not None and verdict.pod is not None and verdict.pod.end is not None
    if restart.policy == "ExitCode" and exited and 0 < (verdict.exit_code or 0) < FIRST_RETRYABLE:
        return "FailJob"
    return "RestartJob"


def _matches(rule: FailureRule, verdict: Verdict, nodes: Mapping[str, Node]) -> bool:
    pod = verdict.pod
    node = nodes.get(pod.node or "") if pod else None
    marks = []
    if rule.on_exit_codes is not None:
        listed = verdict.exit_code in rule.on_exit_codes.values
        # 0 is no failure's exit code: such a pod was ended by its node
        marks.append(bool(verdict.exit_code) and listed == (rule.on_exit_codes.operator == "In"))
    if rule.on_reasons:
        marks.append(verdict.reason in rule.on_reasons)
    if rule.on_pod_conditions:
        marks.append(_has_one(rule.on_pod_conditions, pod.conditions if pod else {}))
    if rule.on_node_conditions:
        marks.append(_has_one(rule.on_node_conditions, node.conditions if node else {}))
    return bool(marks) and all(marks)


def _has_one(patterns: Iterable[ConditionPattern], conditions: Mapping[str, str]) -> bool:
    return any(conditions.get(pattern.type) == pattern.status for pattern in patterns)
