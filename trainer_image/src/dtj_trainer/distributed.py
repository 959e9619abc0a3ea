"""The process group: devices, reductions and words between ranks, lost peers. What strategies exchange: parallel/."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from dtj_api import environment
from dtj_api.environment import Gang
from dtj_api.exit_codes import ExitCode

from dtj_trainer.attempt import Attempt
from dtj_trainer.errors import TrainerError, explain
from dtj_trainer.observe.log import Log
from dtj_trainer.rendezvous import open_store

T = TypeVar("T")


@dataclass(frozen=True)
class World:
    """This rank among the others.

    Attributes:
        local_size: ranks in this rank's pod.
        control: gloo group for words between ranks, on the CPU whatever the device; None in a world of one.
    """

    rank: int
    size: int
    device: torch.device
    control: dist.ProcessGroup | None = None
    local_size: int = 1

    def sum(self, *values: float) -> list[float]:
        """Each value summed over the ranks, in float64; the same on all of them."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def min(self, *values: float) -> list[float]:
        """The least of each over the ranks."""
        return self._reduce(values, dist.ReduceOp.MIN)

    def ask(self, *flags: bool) -> Callable[[], list[bool]]:
        """Ask of each flag whether any rank raises it; calling what is returned waits for the answers, which are the
        same on all ranks.

        The exchange runs behind what is computed in between.
        """
        if self.control is None:
            return lambda: list(flags)
        tensor = torch.tensor(flags, dtype=torch.float32)
        work = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self.control, async_op=True)

        def answer() -> list[bool]:
            work.wait()
            return [value > 0 for value in tensor.tolist()]

        return answer

    def broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        """Rank 0's tensor, in place, over the CPU."""
        if self.control is not None:
            dist.broadcast(tensor, src=0, group=self.control)
        return tensor

    def from_rank_zero(self, produce: Callable[[], T]) -> T:
        """What `produce` returns on rank 0, on every rank.

        Raises:
            TrainerError: what it raised on rank 0; on the others PEER_LOST at once, so that nobody waits in vain and
                the failure that is named is rank 0's.
        """
        if self.control is None:
            return produce()
        answer: list[tuple[T | None, str | None]] = [(None, None)]
        failed: Exception | None = None
        if self.rank == 0:
            try:
                answer = [(produce(), None)]
            except Exception as error:  # noqa: BLE001 whatever it is, the others must hear of it
                failed, answer = error, [(None, explain(error).message)]
        dist.broadcast_object_list(answer, src=0, group=self.control)
        if failed is not None:
            raise failed
        value, words = answer[0]
        if words is not None:
            raise TrainerError(ExitCode.PEER_LOST, f"ended with rank 0: {words}")
        return value  # type: ignore[return-value]

    def gather(self, mine: dict[str, torch.Tensor], givers: Sequence[int]) -> dict[str, torch.Tensor]:
        """On rank 0 what all `givers` have, on the CPU, by name; {} on the others. Of one name the first giver's."""
        found = mine if self.rank == 0 and 0 in givers else {}
        for giver in givers:
            if giver != 0 and self.rank == giver:
                heads = [{name: (tensor.shape, tensor.dtype) for name, tensor in mine.items()}]
                dist.send_object_list(heads, dst=0, group=self.control)
                for tensor in mine.values():
                    dist.send(tensor, dst=0, group=self.control)
            elif giver != 0 and self.rank == 0:
                answer: list[Any] = [None]
                dist.recv_object_list(answer, src=giver, group=self.control)
                for name, (shape, dtype) in answer[0].items():
                    tensor = torch.empty(shape, dtype=dtype)
                    dist.recv(tensor, src=giver, group=self.control)
                    found.setdefault(name, tensor)
        return found

    def _reduce(self, values: tuple[float, ...], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.control is None:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)
        dist.all_reduce(tensor, operation, group=self.control)
        result: list[float] = tensor.tolist()
        return result


def seed_device(seed: int, device: torch.device) -> None:
    """Random numbers on this device, in a microsecond: torch.manual_seed takes 0.4 ms, for devices of all kinds."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


@contextmanager
def join(timeout_seconds: int, log: Log) -> Iterator[World]:
    """The process group of this rank's environment: nccl on GPUs, else gloo; none for a lone process.

    Raises:
        TrainerError: RENDEZVOUS_FAILED; PEER_LOST where a collective fails inside the block.
    """
    gang = Gang.from_environment(os.environ)
    local_rank = int(os.environ.get(environment.LOCAL_RANK, 0))
    rank = int(os.environ.get(environment.RANK, gang.rank(local_rank)))
    device = _device(local_rank)
    if gang.world_size == 1:
        yield World(0, 1, device)
        return
    store = open_store(
        address=gang.master_addr,
        port=gang.master_port,
        rank=rank,
        world_size=gang.world_size,
        attempt=Attempt.from_environment(os.environ),
        timeout=timeout_seconds,
        log=log,
    )
    with _peer_errors(rank):
        yield _init(store, rank, gang, device, timedelta(seconds=timeout_seconds))
        dist.destroy_process_group()


def _init(store: dist.distributed_c10d.Store, rank: int, gang: Gang, device: torch.device, timeout: timedelta) -> World:
    # what fsdp offloads to the CPU is exchanged there
    backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(
        backend,
        store=store,
        rank=rank,
        world_size=gang.world_size,
        timeout=timeout,
        device_id=device if device.type == "cuda" else None,
    )
    # Words between ranks never wait for a GPU
    words = dist.group.WORLD if backend == "gloo" else dist.new_group(backend="gloo", timeout=timeout)
    assert isinstance(words, dist.ProcessGroup)
    return World(rank, gang.world_size, device, words, gang.processes)


def _device(local_rank: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if local_rank >= count:
        problem = f"local rank {local_rank} has no GPU: the pod has {count}"
        remedy = "lower spec.processesPerWorker, or ask for more GPUs in the pod template"
        raise TrainerError(ExitCode.INVALID_CONFIG, f"spec.processesPerWorker: {problem}; {remedy}")
    device = torch.device("cuda", local_rank)
    torch.cuda.set_device(device)
    return device


@contextmanager
def _peer_errors(rank: int) -> Iterator[None]:
    """A failed collective is a lost peer's doing, wherever in the loop it comes up (DDP's come out of backward)."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        if not _is_peer_loss(error):
            raise
        words = f"rank {rank} lost contact with its peers: {_without_source(error)}; the cause is with another rank"
        raise TrainerError(ExitCode.PEER_LOST, words) from error


def _is_peer_loss(error: BaseException) -> bool:
    if isinstance(error, dist.DistError):
        return True
    # gloo's are plain RuntimeErrors with the C++ source in front
    return type(error) is RuntimeError and "gloo" in str(error)


def _without_source(error: BaseException) -> str:
    """`[/x/gloo/transport/tcp/pair.cc:534] Connection closed by peer [..]:1` without its first bracket."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line.partition("] ")[2] or line
