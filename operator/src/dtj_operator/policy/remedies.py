"""What a person can do about each reason of a failure. Pure words; one line a reason."""

from dtj_operator.pods import Pod

_NEW_JOB = "then delete the job and create it anew"
_REMEDIES = {
    "OOMKilled": f"raise resources.limits.memory of the trainer container or make the batch smaller, {_NEW_JOB}",
    "StorageFull": f"free space on the volume, or use a larger one or a smaller spec.checkpoint.keepLast, {_NEW_JOB}",
    "InvalidConfig": f"correct spec.training, {_NEW_JOB}",
    "DataNotFound": f"check spec.training.data and that spec.template mounts the volume it is on, {_NEW_JOB}",
    "CheckpointMismatch": f"set spec.training.model to that of the checkpoints, or use an empty volume, {_NEW_JOB}",
    "CheckpointInvalid": f"remove the damaged checkpoint from the volume, {_NEW_JOB}",
    "Diverged": f"lower optimizer.learningRate or set optimizer.gradClip, {_NEW_JOB}",
    "RendezvousFailed": f"check that the pods can reach each other (DNS, network policies), {_NEW_JOB}",
    "InvalidImageName": f"correct the image's name in spec.template, {_NEW_JOB}",
    "StartError": f"check command and args of the trainer container, and that its image has them, {_NEW_JOB}",
    "PodDeleted": "delete the job and create it anew; the cluster's audit log or events tell who deleted the pod",
    "Evicted": f"request what the workers use (resources.requests: memory, ephemeral-storage), {_NEW_JOB}",
    "Drained": "somebody drained its node or evicted the pod; delete the job and create it anew",
    "ImagePullFailed": f"push that image or set its pull secret in spec.template, {_NEW_JOB}",
    "ContainerConfigError": f"make the ConfigMap, Secret or key it names, {_NEW_JOB}",
    "ContainerNotCreated": f"see `kubectl describe pod` for what the kubelet could not do, {_NEW_JOB}",
    "StartupTimeout": f"raise spec.health.startupTimeoutSeconds, or see what the pod waits for, {_NEW_JOB}",
    "Fenced": "a newer attempt, or another job, writes to the same checkpoint volume: give each job its own subPath",
    "Preempted": f"give the workers a higher priorityClassName, or wait for room in the cluster, {_NEW_JOB}",
    "NodeLost": "see `kubectl get nodes`; delete the job and create it anew, other nodes will be used",
    "NodeShutdown": "delete the job and create it anew, other nodes will be used",
    "Terminated": "delete the job and create it anew, other nodes will be used",
    "DeadlineExceeded": f"raise activeDeadlineSeconds in spec.template.spec, {_NEW_JOB}",
    "UnexpectedAdmissionError": f"see `kubectl describe node` for the devices it still has, {_NEW_JOB}",
}


def remedy(reason: str, pod: Pod | None) -> str:
    """The next action for `reason`; where only the logs can tell, how to read them."""
    if reason in _REMEDIES:
        return _REMEDIES[reason]
    if reason == "PeerLost":
        return "no worker told why: read `kubectl logs` of the others, and of their nodes' kubelets"
    if pod is None:
        return "delete the job and create it anew"
    return f"read `kubectl logs {pod.name}`, mend the cause, {_NEW_JOB}"
