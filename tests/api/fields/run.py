"""Rows of fields that are seen on the run: what follows a failure, when a job is over, what is left of it."""

from typing import Any

from tests.api.fields import scenes
from tests.api.fields.rows import Row, RunRow, Scene, nest
from tests.api.harness import SCRIPT, Object

GANG: Object = {"workers": 2, "template": SCRIPT}
AT_ONCE: Object = {"restart": {"backoffSeconds": 0}}
ERROR = "failed: Error"


def run(
    path: str, value: Any, scene: Scene, outcome: str, otherwise: str, *, wrong: Any, says: str,
    given: Object | None = None, **more: Any,
) -> Row:  # fmt: skip
    return RunRow(
        path=path,
        valid=nest(path, value),
        invalid=nest(path, wrong),
        says=says,
        base=GANG,
        given=AT_ONCE if given is None else given,
        scene=scene,
        outcome=outcome,
        otherwise=otherwise,
        **more,
    )


def rule(
    field: str, value: Object, scene: Scene, outcome: str, otherwise: str, *, wrong: Any, says: str,
    given: Object | None = None,
) -> Row:  # fmt: skip
    """One failure rule; `wrong` is one that is refused."""
    return RunRow(
        path=f"failureRules[].{field}",
        valid={"failureRules": [value]},
        invalid={"failureRules": [wrong]},
        says=says,
        base=GANG,
        given=given or AT_ONCE,
        scene=scene,
        outcome=outcome,
        otherwise=otherwise,
    )


FAIL = {"action": "FailJob"}
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]

RESTART: list[Row] = [
    run(
        "restart.policy", "Never", scenes.exits(137), "failed: SIGKILL", "restarted",
        wrong="Always", says='Unsupported value: "Always"',
    ),
    run(
        "restart.policy", "ExitCode", scenes.exits(3), ERROR, "restarted",
        wrong=3, says="restart.policy.*must be of type string", name="exit code",
    ),
    run(
        "restart.maxRestarts", 0, scenes.exits(1), ERROR, "restarted",
        wrong=-1, says="maxRestarts.*greater than or equal to 0",
    ),
    run(
        "restart.windowSeconds", 1, scenes.fails_twice_with_a_pause, "restarted", "failed: MaxRestartsReached",
        wrong=0, says="windowSeconds.*greater than or equal to 1",
        given={"restart": {"maxRestarts": 1, "backoffSeconds": 0}},
    ),
    run(
        "restart.backoffSeconds", 300, scenes.pauses_after_a_failure, "pause", "pods at once",
        wrong=301, says="backoffSeconds.*less than or equal to 300",
    ),
]  # fmt: skip

RULES: list[Row] = [
    rule(
        "action", {"onExitCodes": {"values": [3]}, **FAIL}, scenes.exits(3), ERROR, "restarted",
        wrong={"onExitCodes": {"values": [3]}, "action": "Retry"}, says='Unsupported value: "Retry"',
    ),
    rule(
        "onExitCodes.values", {"onExitCodes": {"values": [3, 4]}, **FAIL}, scenes.exits(4), ERROR, "restarted",
        wrong={"onExitCodes": {"values": [256]}, **FAIL}, says="values.*less than or equal to 255",
    ),
    rule(
        "onExitCodes.operator", {"onExitCodes": {"operator": "NotIn", "values": [3]}, **FAIL}, scenes.exits(4),
        ERROR, "restarted",
        wrong={"onExitCodes": {"operator": "Not", "values": [3]}, **FAIL}, says='Unsupported value: "Not"',
    ),
    rule(
        "onReasons", {"onReasons": ["OOMKilled"], **FAIL}, scenes.exits(137, reason="OOMKilled"),
        "failed: OOMKilled", "restarted",
        wrong={"onReasons": ["OomKilled"], **FAIL}, says=r"onReasons\[0\]: 'OomKilled' is not a known.*OOMKilled",
    ),
    rule(
        "onPodConditions[].type", {"onPodConditions": [{"type": "DisruptionTarget"}], **FAIL},
        scenes.exits(143, conditions=DISRUPTED), "failed: Preempted", "restarted",
        wrong={"onPodConditions": [{"type": "not one"}], **FAIL}, says="type.*should match",
    ),
    rule(
        "onPodConditions[].status", {"onPodConditions": [{"type": "Checked", "status": "False"}], **FAIL},
        scenes.exits(1, conditions=[{"type": "Checked", "status": "False"}]), ERROR, "restarted",
        wrong={"onPodConditions": [{"type": "Ready", "status": "No"}], **FAIL}, says='Unsupported value: "No"',
    ),
    rule(
        "onNodeConditions[].type", {"onNodeConditions": [{"type": "GpuUnhealthy"}], **FAIL},
        scenes.exits_on_node_with("GpuUnhealthy"), ERROR, "restarted",
        wrong={"onNodeConditions": [{"type": ""}], **FAIL}, says="type.*should match",
    ),
    rule(
        "onNodeConditions[].status", {"onNodeConditions": [{"type": "Ready", "status": "True"}], **FAIL},
        scenes.exits_on_node_with("Idle"), ERROR, "restarted",
        wrong={"onNodeConditions": [{"type": "Ready", "status": True}], **FAIL}, says="status.*must be of type string",
    ),
    rule(
        "message", {"onExitCodes": {"values": [3]}, **FAIL, "message": "ask for a licence"},
        scenes.last_words(3, "ask for a licence"), "told", "not told",
        wrong={"onExitCodes": {"values": [3]}, **FAIL, "message": "two\nlines"}, says="message.*should match",
    ),
]  # fmt: skip

LIFE: list[Row] = [
    run(
        "success.policy", "Chief", scenes.chief_succeeds, "succeeded", "goes on",
        wrong="Anyone", says='Unsupported value: "Anyone"',
    ),
    run(
        "health.startupTimeoutSeconds", 1, scenes.never_starts, "restarted", "waits",
        wrong=0, says="startupTimeoutSeconds.*greater than or equal to 1",
    ),
    run(
        "health.action", "Report", scenes.never_starts, "stalled", "restarted",
        wrong="Ignore", says='Unsupported value: "Ignore"', given={"health": {"startupTimeoutSeconds": 1}},
    ),
    run(
        "health.action", "Fail", scenes.never_starts, "failed: StartupTimeout", "restarted",
        wrong="fail", says='Unsupported value: "fail"', given={"health": {"startupTimeoutSeconds": 1}}, name="fail",
    ),
    run(
        "health.lostNodeSeconds", 1, scenes.loses_its_node, "restarted", "waits",
        wrong=0, says="lostNodeSeconds.*greater than or equal to 1",
    ),
    run(
        "monitoring.progressSeconds", 3600, scenes.progress_is_asked_for, "rarely", "often",
        wrong=0, says="progressSeconds.*greater than or equal to 1",
    ),
    run(
        "suspend", True, scenes.stops_or_goes_on, "suspended, no pod", "2 pods",
        wrong="yes", says="suspend.*must be of type boolean",
    ),
    run(
        "activeDeadlineSeconds", 2, scenes.lasts, "failed: DeadlineExceeded", "goes on",
        wrong=0, says="activeDeadlineSeconds.*greater than or equal to 1",
    ),
    run(
        "ttlSecondsAfterFinished", 1, scenes.is_kept_or_not, "deleted", "kept",
        wrong=-1, says="ttlSecondsAfterFinished.*greater than or equal to 0",
    ),
    run(
        "cleanPodPolicy", "All", scenes.leaves_pods, "none", "1",
        wrong="Some", says='Unsupported value: "Some"', given={"restart": {"policy": "Never"}},
    ),
    run(
        "cleanPodPolicy", "None", scenes.leaves_pods, "0 1", "1",
        wrong="none", says='Unsupported value: "none"', given={"restart": {"policy": "Never"}}, name="none",
    ),
    run(
        "managedBy", "kueue.x-k8s.io/multikueue", scenes.is_left_alone, "left alone", "taken",
        wrong="me", says="managedBy.*should match", mutable=False,
    ),
    run(
        "checkpoint.retain", "Retain", scenes.claim_after_deletion, "claim kept", "claim deleted",
        wrong="Keep", says='Unsupported value: "Keep"', given={"checkpoint": {"size": "1Gi"}}, mutable=False,
    ),
]  # fmt: skip

ROWS: list[Row] = [*RESTART, *RULES, *LIFE]
