"""policy/rules.py as tables: a failure -> what is done about it."""

from typing import Any

import pytest
from dtj_api.spec import Restart
from dtj_operator.pods import Node
from dtj_operator.policy.failure import Verdict
from dtj_operator.policy.rules import default_action, first_match

from tests.unit.operator.builders import failed, pod
from tests.unit.operator.worlds import spec


def exited(code: int, reason: str = "Error", **changes: Any) -> Verdict:
    return Verdict(reason, "", pod=failed(1, code, **changes), worker=1, exit_code=code)


LOST = Verdict("NodeLost", "", pod=pod(1), worker=1, disrupted=True)

DEFAULTS = {
    "a script's own code": (exited(1), "RestartJob", "FailJob"),
    "the last permanent code": (exited(127), "RestartJob", "FailJob"),
    "the first retryable code": (exited(128), "RestartJob", "RestartJob"),
    "killed": (exited(137, "SIGKILL"), "RestartJob", "RestartJob"),
    "out of memory": (exited(137, "OOMKilled"), "RestartJob", "RestartJob"),
    "a configuration that cannot work": (exited(64, "InvalidConfig"), "FailJob", "FailJob"),
    "a diverged loss": (exited(69, "Diverged"), "FailJob", "FailJob"),
    "a command that is not there": (exited(128, "StartError"), "FailJob", "FailJob"),
    "an image that cannot be had": (Verdict("ImagePullFailed", "", pod=pod(1)), "FailJob", "FailJob"),
    "the pod's own deadline": (Verdict("DeadlineExceeded", "", pod=pod(1)), "FailJob", "FailJob"),
    "evicted by the kubelet": (Verdict("Evicted", "", pod=pod(1)), "RestartJob", "RestartJob"),
    "refused by the kubelet": (Verdict("OutOfcpu", "", pod=pod(1)), "RestartJob", "RestartJob"),
    "deleted by somebody": (Verdict("PodDeleted", ""), "RestartJob", "RestartJob"),
    "a lost node": (LOST, "Ignore", "Ignore"),
    "preempted": (Verdict("Preempted", "", pod=failed(1, 143), exit_code=143, disrupted=True), "Ignore", "Ignore"),
    "a slow start": (Verdict("StartupTimeout", "", pod=pod(1)), "RestartJob", "RestartJob"),
}


@pytest.mark.parametrize(("verdict", "on_failure", "by_exit_code"), DEFAULTS.values(), ids=DEFAULTS.keys())
def test_default_action(verdict: Verdict, on_failure: str, by_exit_code: str) -> None:
    assert default_action(Restart(policy="OnFailure"), verdict) == on_failure
    assert default_action(Restart(policy="ExitCode"), verdict) == by_exit_code
    assert default_action(Restart(policy="Never"), verdict) == "FailJob"


TAINTED = pod(1, conditions={"DisruptionTarget": "True", "Ready": "False"})
NODES = {"n1": Node("n1", {"Ready": "Unknown", "XidCriticalError": "True"})}
RULES: dict[str, tuple[dict[str, Any], Verdict, bool]] = {
    "its exit code": ({"onExitCodes": {"values": [3, 42]}}, exited(42), True),
    "another exit code": ({"onExitCodes": {"values": [3, 42]}}, exited(1), False),
    "none of these": ({"onExitCodes": {"operator": "NotIn", "values": [3]}}, exited(1), True),
    "one of these": ({"onExitCodes": {"operator": "NotIn", "values": [3]}}, exited(3), False),
    "no exit code at all": ({"onExitCodes": {"operator": "NotIn", "values": [3]}}, LOST, False),
    "its reason": ({"onReasons": ["Evicted", "OOMKilled"]}, exited(137, "OOMKilled"), True),
    "another reason": ({"onReasons": ["OOMKilled"]}, exited(137, "SIGKILL"), False),
    "a condition of its pod": (
        {"onPodConditions": [{"type": "DisruptionTarget"}]},
        Verdict("Preempted", "", pod=TAINTED),
        True,
    ),
    "with another status": (
        {"onPodConditions": [{"type": "Ready", "status": "True"}]},
        Verdict("Preempted", "", pod=TAINTED),
        False,
    ),
    "no pod is left": ({"onPodConditions": [{"type": "DisruptionTarget"}]}, Verdict("PodDeleted", ""), False),
    "a condition of its node": ({"onNodeConditions": [{"type": "XidCriticalError"}]}, exited(1), True),
    "with another status of its node": ({"onNodeConditions": [{"type": "Ready", "status": "False"}]}, LOST, False),
    "every mark": ({"onReasons": ["Error"], "onExitCodes": {"values": [1]}}, exited(1), True),
    "one mark of two": ({"onReasons": ["Error"], "onExitCodes": {"values": [2]}}, exited(1), False),
}


@pytest.mark.parametrize(("rule", "verdict", "matches"), RULES.values(), ids=RULES.keys())
def test_a_rule_matches(rule: dict[str, Any], verdict: Verdict, matches: bool) -> None:
    rules = spec(failureRules=[{"action": "FailJob", **rule}]).failure_rules
    assert (first_match(rules, verdict, NODES) is not None) == matches


def test_the_first_match_wins() -> None:
    rules = spec(
        failureRules=[
            {"action": "FailJob", "onExitCodes": {"values": [2]}},
            {"action": "Ignore", "onExitCodes": {"values": [1]}},
            {"action": "FailJob", "onReasons": ["Error"]},
        ]
    ).failure_rules
    found = first_match(rules, exited(1), {})
    assert found is not None
    assert found.action == "Ignore"
