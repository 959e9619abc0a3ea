"""webhook/review.py: what of an AdmissionReview is checked, and the answer's form."""

from typing import Any

import pytest
from dtj_api.fields import FieldError
from dtj_operator.webhook.review import Question, answer, read

SPEC = {"workers": 2}
FINISHED = {"conditions": [{
    "type": "Succeeded", "status": "True", "reason": "AllWorkersSucceeded", "message": "all ended",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}]}  # fmt: skip


def job(spec: Any = SPEC, status: Any = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": "ml", "name": "gpt", "uid": "u"} | metadata, "spec": spec, "status": status}


def review(operation: str, new: Any, old: Any = None) -> dict[str, Any]:
    request = {"uid": "r", "operation": operation, "object": new, "oldObject": old}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


OTHER = {"workers": 3}
CHECKED = {
    "a new job": (review("CREATE", job()), True),
    "a job whose spec changed": (review("UPDATE", job(OTHER), job()), True),
    "a job managed by another": (review("CREATE", job(SPEC | {"managedBy": "kueue.x-k8s.io/multikueue"})), True),
    "a spec that is none": (review("CREATE", job("gpt")), True),
    "a suspension and more": (review("UPDATE", job(OTHER | {"suspend": True}), job()), True),
    "a suspension": (review("UPDATE", job(SPEC | {"suspend": True}), job()), False),
    "a deadline": (review("UPDATE", job(SPEC | {"activeDeadlineSeconds": 60}), job()), False),
    "new labels": (review("UPDATE", job(labels={"a": "b"}), job()), False),
    "a job being deleted": (review("UPDATE", job(OTHER, deletionTimestamp="2026-01-01T00:00:00Z"), job()), False),
    "a finished job": (review("UPDATE", job(OTHER, FINISHED), job(SPEC, FINISHED)), False),
    "a status of an unknown form": (review("UPDATE", job(OTHER, {"attempt": "first"}), job()), False),
    "a deletion": (review("DELETE", None, job()), False),
}


@pytest.mark.parametrize(("body", "checked"), CHECKED.values(), ids=CHECKED.keys())
def test_only_what_a_new_spec_can_break_is_checked(body: dict[str, Any], checked: bool) -> None:
    question = read(body)
    assert question.uid == "r"
    assert (question.job is not None) == checked


def test_job_is_read_with_what_names_its_children() -> None:
    found = read(review("UPDATE", job(OTHER, {"attempt": 3}), job())).job
    assert found is not None
    assert (found.namespace, found.name, found.uid, found.spec, found.attempt) == ("ml", "gpt", "u", OTHER, 3)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {}},
        review("CREATE", None),
        review("CREATE", {"spec": SPEC}),
        review("CREATE", {"metadata": {"name": "gpt"}, "spec": SPEC}),
        review("CREATE", job()) | {"request": {"operation": "CREATE", "object": job()}},
    ],
)
def test_what_is_no_review_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(body)


def test_answer_carries_the_faults_and_the_id_of_the_question() -> None:
    faults = [FieldError("spec.a", "is 0", "write 1"), FieldError("spec.b", "is 1", "write 0")]
    denied = answer(Question("r", None), faults)
    assert (denied["apiVersion"], denied["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert denied["response"] == {
        "uid": "r",
        "allowed": False,
        "status": {"code": 422, "reason": "Invalid", "message": "spec.a: is 0; write 1; spec.b: is 1; write 0"},
    }
    assert answer(Question("r", None), [])["response"] == {"uid": "r", "allowed": True}
