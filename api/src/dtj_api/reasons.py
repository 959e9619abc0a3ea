"""Why an attempt can fail: the words that `status.lastFailure.reason` has and `failureRules[].onReasons` may name."""

import difflib
import signal

# A reason that is not here may still come: a script's own record, the kubelet's and the scheduler's words are kept.
REASONS = {
    "CheckpointInvalid": "no checkpoint on the volume can be used, or its folder cannot be written",
    "CheckpointMismatch": "the volume holds checkpoints of another model or vocabulary",
    "ClaimNotBound": "the volume claim got no volume within health.startupTimeoutSeconds",
    "ContainerConfigError": "a container names a ConfigMap, Secret or key that is not there",
    "ContainerNotCreated": "the container runtime refuses to create a container",
    "DataNotFound": "the training data is missing, empty or unreadable",
    "DeadlineExceeded": "activeDeadlineSeconds, of the job or of a pod, are over",
    "Diverged": "the loss is not a number any more",
    "Drained": "the pod was evicted from its node on request, as a drain does",
    "Error": "a container ended with an exit code that has no meaning of its own",
    "Evicted": "the node ran short of memory or disk",
    "Fenced": "a newer attempt has taken over the checkpoint volume",
    "ImagePullFailed": "an image cannot be pulled",
    "InvalidConfig": "the trainer's configuration cannot be honoured",
    "InvalidImageName": "the name of an image is not one",
    "MaxRestartsReached": "the attempt failed and restart.maxRestarts are used up",
    "NodeLost": "the worker's node is gone or no longer answers",
    "NodeShutdown": "the worker's node was shut down",
    "OOMKilled": "a container used more memory than its limit",
    "PeerLost": "a rank lost another one, and none said why",
    "PodDeleted": "somebody deleted a worker's pod",
    "PodFailed": "a pod failed and nothing says why",
    "Preempted": "the scheduler removed the pod for one of a higher priority",
    "RendezvousFailed": "the ranks did not find each other in time",
    "StartError": "the command of a container cannot be started",
    "StartupTimeout": "the containers did not all run within health.startupTimeoutSeconds",
    "Stopped": "the trainer was told to stop and saved a checkpoint",
    "StorageFull": "the checkpoint volume is full",
    "UnexpectedAdmissionError": "the node could not give the pod the devices it was placed there for",
    "Unschedulable": "no node fits the pod",
}


def meant_by(reason: str) -> str | None:
    """The known reason, or name of a signal, that `reason` is nearly but not exactly; None for any other.

    >>> meant_by("OomKilled"), meant_by("OOMKilled"), meant_by("ValueError")
    ('OOMKilled', None, None)
    """
    known = {name.casefold(): name for name in [*REASONS, *(each.name for each in signal.Signals)]}
    if reason in known.values():
        return None
    near = difflib.get_close_matches(reason.casefold(), known, n=1, cutoff=0.85)
    return known[near[0]] if near else None
