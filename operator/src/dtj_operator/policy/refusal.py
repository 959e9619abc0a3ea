"""What to say and do when the API server refuses an object that was decided on. Pure."""

from dataclasses import dataclass, replace

from dtj_operator.children import Object
from dtj_operator.errors import Refused
from dtj_operator.policy import evidence
from dtj_operator.policy.decision import Decision, Finding
from dtj_operator.workqueue import BACKOFF, NEVER

_FROM = {"Pod": ("InvalidTemplate", "spec.template"), "PersistentVolumeClaim": ("InvalidCheckpoint", "spec.checkpoint")}


@dataclass(frozen=True)
class Refusal:
    """An object and the API server's answer to it."""

    kind: str
    name: str
    error: Refused

    @classmethod
    def of(cls, manifest: Object, error: Refused) -> "Refusal":
        return cls(manifest["kind"], manifest["metadata"]["name"], error)


def refused(decision: Decision, refusal: Refusal) -> Decision:
    """`decision`, as it stands now: malformed objects wait for a new spec, forbidden ones are tried again."""
    words = evidence.tidy(refusal.error.message)
    told = f"the API server refuses {refusal.kind} {refusal.name}: {words}"
    if refusal.error.for_good:
        reason, field = _FROM.get(refusal.kind, ("InvalidSpec", "the spec"))
        message = f"{told}; correct {field} and apply it again, or delete the job and create it anew if it has started"
        finding = Finding("Created", "False", reason, message)
        return replace(decision, phase="Invalid", findings=(finding,), accept=None, next_look=NEVER)
    quota = "exceeded quota" in refusal.error.message
    advice = "raise the quota or free some of it" if quota else "ask for what it names to be allowed here"
    message = f"{told}; {advice}, the job then goes on by itself"
    finding = Finding("Created", "False", "QuotaExceeded" if quota else "Forbidden", message)
    return replace(decision, phase="Pending", findings=(finding,), accept=None, next_look=BACKOFF)
