"""Faults in words: of a spec, and of objects that the API server refuses. Pure; webhook and operator speak alike."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from dtj_api.fields import FieldError

from dtj_operator.children import Object
from dtj_operator.errors import Refused
from dtj_operator.policy import evidence
from dtj_operator.policy.decision import Decision, Finding
from dtj_operator.workqueue import BACKOFF, NEVER

# conditions and answers of a webhook are bounded
MOST_FAULTS = 20

_FIELDS = {
    "Pod": "spec.template",
    "PersistentVolumeClaim": "spec.checkpoint",
    "NetworkPolicy": "spec.network",
    "PodMonitor": "spec.monitoring.podMonitor",
}
_REASONS = {"Pod": "InvalidTemplate", "PersistentVolumeClaim": "InvalidCheckpoint"}


@dataclass(frozen=True)
class Refusal:
    """An object and the API server's answer to it."""

    kind: str
    name: str
    error: Refused

    @classmethod
    def of(cls, manifest: Object, error: Refused) -> "Refusal":
        return cls(manifest["kind"], manifest["metadata"]["name"], error)

    @property
    def by_quota(self) -> bool:
        """There is no room now; there may be later, without anybody changing anything."""
        return not self.error.for_good and "exceeded quota" in self.error.message


def fault(refusal: Refusal) -> FieldError:
    """The refusal as a fault of the field that the object was made from."""
    problem = f"the API server refuses {refusal.kind} {refusal.name}: {evidence.tidy(refusal.error.message)}"
    if refusal.by_quota:
        remedy = "raise the quota or free some of it, the job then goes on by itself"
    elif refusal.error.for_good:
        remedy = "correct it (of a job that has started: suspend or delete the job first)"
    else:
        remedy = "correct it, or ask for what it names to be allowed here, a job that waits then goes on by itself"
    return FieldError(_FIELDS.get(refusal.kind, "spec"), problem, remedy)


def together(faults: Iterable[FieldError], refusals: Iterable[Refusal]) -> list[FieldError]:
    """What is wrong with a spec, from both sources, each fault once. What follows from a fault of the whole field is
    left out, and so is a full quota where anything else is wrong."""
    own = list(faults)
    known = _distinct(refusals)
    lasting = [refusal for refusal in known if not refusal.by_quota]
    told = [fault(refusal) for refusal in (lasting if own or lasting else known)]
    return own + [error for error in told if not any(f"{error.path}.".startswith(f"{it.path}.") for it in own)]


def told(faults: Sequence[FieldError]) -> str:
    """All faults in one line: the message of the condition and of the webhook's denial."""
    sentences = [str(_bounded(error)) for error in faults[:MOST_FAULTS]]
    if len(faults) > MOST_FAULTS:
        sentences.append(f"and {len(faults) - MOST_FAULTS} more")
    return "; ".join(sentences)


def refused(decision: Decision, refusals: Sequence[Refusal], faults: Sequence[FieldError] = ()) -> Decision:
    """`decision`, as it stands now: malformed objects wait for a new spec, forbidden ones are tried again.

    Args:
        faults: of the spec itself, where it is rehearsed all the same, so that all is told at once.
    """
    message = told(together(faults, refusals))
    malformed = [refusal for refusal in refusals if refusal.error.for_good]
    if faults or malformed:
        reason = "InvalidSpec" if faults else _REASONS.get(malformed[0].kind, "InvalidSpec")
        finding = Finding("Created", "False", reason, message)
        return replace(decision, phase="Invalid", findings=(finding,), begin=None, next_look=NEVER)
    reason = "QuotaExceeded" if all(refusal.by_quota for refusal in refusals) else "Forbidden"
    finding = Finding("Created", "False", reason, message)
    return replace(decision, phase="Pending", findings=(finding,), begin=None, next_look=BACKOFF)


def _distinct(refusals: Iterable[Refusal]) -> list[Refusal]:
    """The first of those that say the same of workers of one gang."""
    said: dict[tuple[str, str], Refusal] = {}
    for refusal in refusals:
        said.setdefault((refusal.kind, refusal.error.message.replace(refusal.name, "")), refusal)
    return list(said.values())


def _bounded(error: FieldError) -> FieldError:
    """Each part on its own: a long value must not cost the remedy."""
    return FieldError(evidence.tidy(error.path), evidence.tidy(error.problem), evidence.tidy(error.remedy))
