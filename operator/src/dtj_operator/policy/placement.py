"""Why a gang that was created does not run yet, as far as one can tell. Pure. Nothing here ends a job."""

from dataclasses import dataclass

from dtj_operator.pods import Pod, Waiting
from dtj_operator.policy import evidence
from dtj_operator.snapshot import World

_IMAGE = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError",
     "SignatureValidationFailed"}
)  # fmt: skip
# it names a ConfigMap, Secret or key that is not there
_CONFIG = "CreateContainerConfigError"
_CONTAINER = frozenset({_CONFIG, "CreateContainerError", "RunContainerError"})
# what a back-off says in turn with the error itself: telling both would patch the status for ever
_REPEATS = "Back-off pulling image"


@dataclass(frozen=True)
class Obstacle:
    """What holds the gang up. `worker` is the first of those it holds."""

    reason: str
    message: str


def obstacle(world: World) -> Obstacle | None:
    """The first thing a person should mend; None while the pods are only starting."""
    pods = [world.pods[worker] for worker in sorted(world.pods)]
    for pod in pods:
        for waiting in pod.waiting:
            if waiting.reason in _IMAGE:
                return Obstacle("ImagePullFailed", _image_message(pod, waiting, world))
    for pod in pods:
        for waiting in pod.waiting:
            if waiting.reason in _CONTAINER:
                reason = "ContainerConfigError" if waiting.reason == _CONFIG else "ContainerNotCreated"
                told = f"{evidence.title(pod)}: {waiting.reason}: {evidence.tidy(waiting.message)}"
                return Obstacle(reason, f"{told}; make what it names, the kubelet tries again")
    for pod in pods:
        if pod.unschedulable is not None:
            return _unschedulable(pod, pod.unschedulable, world)
    return None


def _image_message(pod: Pod, waiting: Waiting, world: World) -> str:
    told = world.job.status.condition("Running")
    start = f"{evidence.title(pod)}: image {waiting.image} cannot be pulled: "
    if waiting.message.startswith(_REPEATS) and told is not None and told.message.startswith(start):
        return told.message
    words = evidence.tidy(waiting.message) or waiting.reason
    return (
        f"{start}{words}; push that image or set its pull secret and the job goes on by itself, or delete the job and "
        "create it anew with the right image"
    )


def _unschedulable(pod: Pod, words: str, world: World) -> Obstacle:
    told = f"{evidence.title(pod)} cannot be placed: {evidence.tidy(words)}"
    if world.claims_pending and ("persistentvolumeclaim" in words.lower() or "volume" in words.lower()):
        claim = world.claims_pending[0]
        advice = f"see `kubectl describe pvc {claim}`: it needs a storage class that can provide it, or a volume"
        return Obstacle("ClaimNotBound", f"{told}; {advice}")
    return Obstacle("Unschedulable", f"{told}; free or add nodes that fit, the job then goes on by itself")
