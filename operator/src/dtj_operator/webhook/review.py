"""AdmissionReview v1: what the API server asks, and the answer. Pure.

https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#request
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtj_api.fields import FieldError, InvalidFields
from dtj_api.status import decode_status

from dtj_operator.policy.refusal import told
from dtj_operator.snapshot import Job

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
# The schema says all there is to say about these. A job must be stoppable, also one that would not be let in any more.
_WHEN = ("suspend", "activeDeadlineSeconds", "ttlSecondsAfterFinished", "cleanPodPolicy")


@dataclass(frozen=True)
class Question:
    """`job`: what is to be checked; None where there is nothing to check."""

    uid: str
    job: Job | None


def read(review: Any) -> Question:
    """
    Raises:
        ValueError: this is no AdmissionReview.
    """
    if not isinstance(review, Mapping) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        raise ValueError(f"the body is no {KIND} of {API_VERSION}")
    request = _mapping(review.get("request"), "request")
    uid = request.get("uid")
    if not isinstance(uid, str) or not uid:
        raise ValueError("request.uid is missing")
    if request.get("operation") not in ("CREATE", "UPDATE"):
        return Question(uid, None)
    new = _mapping(request.get("object"), "request.object")
    old = _mapping(request.get("oldObject") or {}, "request.oldObject")
    metadata = _mapping(new.get("metadata"), "request.object.metadata")
    if (old and _what_is_run(new) == _what_is_run(old)) or metadata.get("deletionTimestamp"):
        return Question(uid, None)
    try:
        job = _job(new, metadata, uid)
    except InvalidFields:
        return Question(uid, None)  # a status of another operator's: that job is left alone
    return Question(uid, None if job.status.finished else job)


def answer(question: Question, faults: Sequence[FieldError]) -> dict[str, Any]:
    """Allowed where there is no fault."""
    response: dict[str, Any] = {"uid": question.uid, "allowed": not faults}
    if faults:
        response["status"] = {"code": 422, "reason": "Invalid", "message": told(faults)}
    return {"apiVersion": API_VERSION, "kind": KIND, "response": response}


def _what_is_run(raw: Mapping[str, Any]) -> Any:
    spec = raw.get("spec")
    return {name: value for name, value in spec.items() if name not in _WHEN} if isinstance(spec, Mapping) else spec


def _job(raw: Mapping[str, Any], metadata: Mapping[str, Any], request_uid: str) -> Job:
    namespace, name = metadata.get("namespace"), metadata.get("name")
    if not isinstance(namespace, str) or not isinstance(name, str):
        raise ValueError("request.object.metadata has no namespace or no name")
    status = raw.get("status") or {}
    return Job(
        namespace=namespace,
        name=name,
        # an owner must have one, also of objects that are only rehearsed
        uid=metadata.get("uid") or request_uid,
        generation=metadata.get("generation") or 0,
        resource_version=metadata.get("resourceVersion") or "",
        spec=raw.get("spec"),
        status=decode_status(status),
        raw_status=status,
    )


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{path} is no object")
    return value
