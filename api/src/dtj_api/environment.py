"""The environment of the ranks: what the operator writes into a pod and what the launcher and the ranks read from it.

Names and meanings of the first group are torch.distributed's and torchrun's own
(https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables).
"""

from collections.abc import Mapping
from dataclasses import dataclass

RANK = "RANK"
WORLD_SIZE = "WORLD_SIZE"
LOCAL_RANK = "LOCAL_RANK"
LOCAL_WORLD_SIZE = "LOCAL_WORLD_SIZE"
NODE_RANK = "NODE_RANK"
MASTER_ADDR = "MASTER_ADDR"
MASTER_PORT = "MASTER_PORT"

PET_NNODES = "PET_NNODES"
PET_NPROC_PER_NODE = "PET_NPROC_PER_NODE"
PET_NODE_RANK = "PET_NODE_RANK"
PET_MASTER_ADDR = "PET_MASTER_ADDR"
PET_MASTER_PORT = "PET_MASTER_PORT"
PET_RDZV_ID = "PET_RDZV_ID"

JOB = "DTJ_JOB"
NAMESPACE = "DTJ_NAMESPACE"
ATTEMPT = "DTJ_ATTEMPT"
CHECKPOINT_DIR = "DTJ_CHECKPOINT_DIR"
CONFIG = "DTJ_CONFIG"
METRICS_PORT = "DTJ_METRICS_PORT"
# Differs from attempt to attempt and from job to job, also of the same name: ranks that do not share it never meet.
RENDEZVOUS_TOKEN = "DTJ_RENDEZVOUS_TOKEN"

RESERVED = frozenset(
    {
        RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR, MASTER_PORT,
        PET_NNODES, PET_NPROC_PER_NODE, PET_NODE_RANK, PET_MASTER_ADDR, PET_MASTER_PORT,
        PET_RDZV_ID, JOB, NAMESPACE, ATTEMPT, CHECKPOINT_DIR, CONFIG, METRICS_PORT, RENDEZVOUS_TOKEN,
    }
)  # fmt: skip

PREFIX = "DTJ_"

# The interfaces of the two communication libraries; set where `network.interface` is. A leading = means that very name.
NCCL_INTERFACE = "NCCL_SOCKET_IFNAME"
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


def is_reserved(name: object) -> bool:
    """Whether a user's template may not set this variable: one of torch.distributed's, or any of ours."""
    return isinstance(name, str) and (name in RESERVED or name.startswith(PREFIX))


@dataclass(frozen=True)
class Gang:
    """Where one pod stands in its gang.

    Attributes:
        workers: pods in the gang.
        processes: ranks in each pod.
        worker: index of this pod, 0 to workers - 1.
        master_addr: host name or address of worker 0.
        master_port: TCP port of the rendezvous store on worker 0.
    """

    workers: int
    processes: int
    worker: int
    master_addr: str
    master_port: int

    @property
    def world_size(self) -> int:
        return self.workers * self.processes

    def rank(self, local_rank: int) -> int:
        """Ranks are numbered pod by pod: a pod's ranks are neighbours."""
        return self.worker * self.processes + local_rank

    def pod_environment(self) -> dict[str, str]:
        """What every container of the pod may know. RANK only where the pod has one process: with several, whoever
        starts them (our launcher, torchrun) numbers them, and a RANK set here would be inherited by all."""
        variables = {
            WORLD_SIZE: self.world_size,
            LOCAL_WORLD_SIZE: self.processes,
            NODE_RANK: self.worker,
            MASTER_ADDR: self.master_addr,
            MASTER_PORT: self.master_port,
            PET_NNODES: self.workers,
            PET_NPROC_PER_NODE: self.processes,
            PET_NODE_RANK: self.worker,
            PET_MASTER_ADDR: self.master_addr,
            PET_MASTER_PORT: self.master_port,
        }
        if self.processes == 1:
            variables |= {RANK: self.worker, LOCAL_RANK: 0}
        return {name: str(value) for name, value in variables.items()}

    def rank_environment(self, local_rank: int) -> dict[str, str]:
        """What the launcher adds for one of the pod's ranks."""
        return {RANK: str(self.rank(local_rank)), LOCAL_RANK: str(local_rank)}

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Gang":
        """What `pod_environment` wrote; a lone process where nothing was written.

        Raises:
            ValueError: a variable is not a number, or WORLD_SIZE is not a multiple of LOCAL_WORLD_SIZE.
        """
        processes = _number(environ, LOCAL_WORLD_SIZE, 1)
        world = _number(environ, WORLD_SIZE, processes)
        if processes < 1 or world % processes:
            raise ValueError(f"{WORLD_SIZE}={world} is not a multiple of {LOCAL_WORLD_SIZE}={processes}")
        return cls(
            workers=world // processes,
            processes=processes,
            worker=_number(environ, NODE_RANK, 0),
            master_addr=environ.get(MASTER_ADDR, "127.0.0.1"),
            master_port=_number(environ, MASTER_PORT, 29500),
        )


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(environ.get(name, default))
    except ValueError:
        raise ValueError(f"{name}={environ[name]!r} is not a number") from None
