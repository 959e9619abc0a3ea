"""policy/refusal.py: one wording for conditions and for the webhook's denials."""

import pytest
from dtj_api.fields import FieldError
from dtj_operator.errors import Refused
from dtj_operator.policy.decision import Decision
from dtj_operator.policy.refusal import MOST_FAULTS, Refusal, fault, refused, together, told

MALFORMED = Refused(422, "Invalid", 'Pod "gpt-0-0" is invalid: spec.containers[0].image: Required value')
FORBIDDEN = Refused(403, "Forbidden", 'pods "gpt-0-0" is forbidden: violates PodSecurity "restricted:latest"')
QUOTA = Refused(403, "Forbidden", 'pods "gpt-0-0" is forbidden: exceeded quota: q, requested: pods=1')
LIMITS = Refused(403, "Forbidden", 'pods "gpt-0-0" is forbidden: failed quota: q: must specify limits.cpu')
WORKERS = FieldError("spec.workers", "is 0", "it must be at least 1")


def pod(error: Refused, worker: int = 0) -> Refusal:
    return Refusal("Pod", f"gpt-0-{worker}", error)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("Pod", "spec.template"),
        ("PersistentVolumeClaim", "spec.checkpoint"),
        ("NetworkPolicy", "spec.network"),
        ("PodMonitor", "spec.monitoring.podMonitor"),
        ("Service", "spec"),
    ],
)
def test_refused_object_is_a_fault_of_the_field_it_was_made_from(kind: str, path: str) -> None:
    found = fault(Refusal(kind, "gpt", MALFORMED))
    assert found.path == path
    assert found.problem == f"the API server refuses {kind} gpt: {MALFORMED.message}"


@pytest.mark.parametrize(
    ("error", "remedy"),
    [(MALFORMED, "correct it"), (FORBIDDEN, "allowed here"), (LIMITS, "allowed here"), (QUOTA, "raise the quota")],
)
def test_remedy_is_for_what_is_in_the_way(error: Refused, remedy: str) -> None:
    assert remedy in fault(pod(error)).remedy


@pytest.mark.parametrize(
    ("refusals", "faults", "phase", "reason"),
    [
        ([pod(MALFORMED)], [], "Invalid", "InvalidTemplate"),
        ([Refusal("PersistentVolumeClaim", "gpt", MALFORMED)], [], "Invalid", "InvalidCheckpoint"),
        ([Refusal("Service", "gpt", MALFORMED)], [], "Invalid", "InvalidSpec"),
        ([pod(QUOTA), pod(MALFORMED, 1)], [], "Invalid", "InvalidTemplate"),
        ([pod(FORBIDDEN)], [], "Pending", "Forbidden"),
        ([pod(QUOTA), Refusal("Service", "gpt", FORBIDDEN)], [], "Pending", "Forbidden"),
        ([pod(QUOTA)], [], "Pending", "QuotaExceeded"),
        ([pod(QUOTA)], [WORKERS], "Invalid", "InvalidSpec"),
        ([], [WORKERS], "Invalid", "InvalidSpec"),
    ],
)
def test_malformed_waits_for_a_new_spec_and_forbidden_is_tried_again(
    refusals: list[Refusal], faults: list[FieldError], phase: str, reason: str
) -> None:
    decision = refused(Decision(phase="Pending"), refusals, faults)
    [finding] = decision.findings
    assert (decision.phase, finding.reason) == (phase, reason)
    assert decision.next_look.backoff == (phase == "Pending")
    assert finding.message == told(together(faults, refusals))


def test_several_refusals_are_told_together_and_the_same_one_of_two_workers_once() -> None:
    other = Refused(422, "Invalid", MALFORMED.message.replace("gpt-0-0", "gpt-0-1"))
    claim = Refusal("PersistentVolumeClaim", "gpt", Refused(422, "Invalid", "bad size"))
    paths = [error.path for error in together([WORKERS], [claim, pod(MALFORMED), pod(other, 1)])]
    assert paths == ["spec.workers", "spec.checkpoint", "spec.template"]


def test_full_quota_is_not_told_beside_what_waiting_does_not_mend() -> None:
    assert together([WORKERS], [pod(QUOTA)]) == [WORKERS]
    assert together([], [pod(QUOTA), pod(FORBIDDEN, 1)]) == [fault(pod(FORBIDDEN, 1))]


def test_refusal_that_follows_from_a_fault_of_the_whole_field_is_not_told() -> None:
    whole = FieldError("spec", "has neither training nor template", "set one")
    inner = FieldError("spec.template.spec.containers[0].env[0].name", "RANK is set by the operator", "remove it")
    assert together([whole], [pod(MALFORMED)]) == [whole]
    assert together([inner], [pod(MALFORMED)]) == [inner, fault(pod(MALFORMED))]


def test_each_fault_is_told_as_it_reads_and_their_number_is_bounded() -> None:
    assert told([WORKERS, WORKERS]) == f"{WORKERS}; {WORKERS}"
    assert told([WORKERS] * (MOST_FAULTS + 3)).endswith(f"{WORKERS}; and 3 more")


def test_long_value_costs_neither_the_remedy_nor_the_limit_of_a_condition() -> None:
    long = FieldError("spec." + "x" * 5000, "is " + "y" * 5000, "choose one of: " + "z" * 5000)
    assert told([FieldError("spec.a", "is " + "y" * 5000, "remove it")]).endswith("; remove it")
    assert len(told([long] * 50)) < 32768
