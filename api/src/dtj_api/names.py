"""Names that appear in the cluster: the resource, labels, children, ports. One constant or function a name."""

GROUP = "dtj.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "DistributedTrainingJob"
PLURAL = "distributedtrainingjobs"
SHORT_NAME = "dtj"

LABEL_JOB = f"{GROUP}/job"
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_WORKER = f"{GROUP}/worker"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGED_BY = "dtj-operator"
# of nodes: one value a node
LABEL_NODE = "kubernetes.io/hostname"
LABEL_NAMESPACE = "kubernetes.io/metadata.name"
# `spec.managedBy` of the jobs that are this operator's; without one a job is too.
MANAGER = f"{GROUP}/operator"

TRAINER_CONTAINER = "trainer"
CHECKPOINT_VOLUME = "checkpoints"
SCRATCH_VOLUME = "scratch"
SHARED_MEMORY_VOLUME = "shared-memory"
METRICS_PORT_NAME = "metrics"
MASTER_PORT_NAME = "master"
METRICS_PATH = "/metrics"
PROGRESS_PATH = "/progress"
MASTER_PORT = 29500

# A pod's name is `<job>-<attempt>-<worker>` and is also its host name (63 characters at most, RFC 1123):
# what remains for the job after `-9999-99999`. Held by the CRD.
JOB_NAME_MAX_LENGTH = 50


def service(job: str, attempt: int) -> str:
    """Headless service of one attempt, and its network policy: every attempt has DNS names of its own."""
    return f"{job}-{attempt}"


def pod(job: str, attempt: int, worker: int) -> str:
    """Pod of one worker in one attempt. No two jobs of a namespace can make the same name."""
    return f"{job}-{attempt}-{worker}"


def checkpoint_claim(job: str) -> str:
    """The claim the operator creates when `spec.checkpoint.size` is given. Outlives attempts."""
    return f"{job}-checkpoints"


def worker_host(job: str, attempt: int, worker: int, namespace: str) -> str:
    """DNS name of one worker; the cluster's own domain is left to the pod's search path."""
    return f"{pod(job, attempt, worker)}.{service(job, attempt)}.{namespace}.svc"


def rendezvous_token(uid: str, attempt: int) -> str:
    """What the ranks of one attempt of one job (its UID) share with no others."""
    return f"{uid}-{attempt}"
