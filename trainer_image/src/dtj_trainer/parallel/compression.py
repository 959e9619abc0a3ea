"""Gradients sent in fewer bytes than they have: communication hooks of DDP
(https://docs.pytorch.org/docs/stable/ddp_comm_hooks.html)."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from dtj_api.parallel import Ddp
from torch import Tensor
from torch._C._distributed_c10d import GradBucket
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.futures import Future
from torch.nn.parallel import DistributedDataParallel

from dtj_trainer.parallel.strategy import Traffic

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def compress(replica: DistributedDataParallel, config: Ddp) -> Traffic:
    """Have the replica exchange gradients as `config` says."""
    traffic = Traffic()
    if config.compression in ("fp16", "bf16"):
        hook = default_hooks.fp16_compress_hook if config.compression == "fp16" else default_hooks.bf16_compress_hook
        replica.register_comm_hook(None, _counted(hook, traffic, lambda bucket: 2 * bucket.buffer().numel()))
    elif config.compression == "powersgd":
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=config.compression_rank,
            start_powerSGD_iter=max(2, config.compression_warmup_steps),
            min_compression_rate=1,
        )
        replica.register_comm_hook(state, _powersgd(traffic))
    elif config.compression == "topk":
        top = TopK(config.compression_ratio, config.compression_warmup_steps, traffic)
        replica.register_comm_hook(top, TopK.exchange)
    return traffic


def _counted(hook: Hook, traffic: Traffic, size: Callable[[GradBucket], int]) -> Hook:
    def counted(state: Any, bucket: GradBucket) -> Future[torch.Tensor]:
        traffic.count(size(bucket), _bytes(bucket.buffer()))
        return hook(state, bucket)

    return counted


def _powersgd(traffic: Traffic) -> Hook:
    """Vogels et al. 2019, https://arxiv.org/abs/1905.13727: torch's, with its own statistics told."""

    def counted(state: powerSGD_hook.PowerSGDState, bucket: GradBucket) -> Future[torch.Tensor]:
        before, compressed = state.total_numel_before_compression, state.total_numel_after_compression
        size = bucket.buffer().element_size()
        future = powerSGD_hook.powerSGD_hook(state, bucket)
        dense = state.total_numel_before_compression - before
        if dense:
            traffic.count((state.total_numel_after_compression - compressed) * size, dense * size)
        else:  # warming up
            traffic.count(_bytes(bucket.buffer()), _bytes(bucket.buffer()))
        return future

    return counted


class TopK:
    """Each rank gives away the largest entries of each gradient; what it keeps is added to the next one (error
    feedback: Stich et al. 2018, https://arxiv.org/abs/1809.07599).

    Args:
        ratio: of a parameter's entries; at least one is given.
        warm_up: steps in which all are.
    """

    def __init__(self, ratio: float, warm_up: int, traffic: Traffic) -> None:
        self._ratio, self._warm_up, self._traffic = ratio, warm_up, traffic
        # by parameter: buckets are made anew after the first step
        self._kept: dict[Tensor, Tensor] = {}
        self._steps = 0

    def exchange(self, bucket: GradBucket) -> Future[torch.Tensor]:
        """A hook. The bucket's buffer becomes the mean over the ranks."""
        buffer = bucket.buffer()
        if self._steps < self._warm_up:
            self._steps += bucket.is_last()
            self._traffic.count(_bytes(buffer), _bytes(buffer))
            assert dist.group.WORLD is not None
            return default_hooks.allreduce_hook(dist.group.WORLD, bucket)
        self._steps += bucket.is_last()
        values, places = self._choose(bucket)
        self._traffic.count(_bytes(values) + _bytes(places), _bytes(buffer))
        ranks = dist.get_world_size()
        all_values = [torch.empty_like(values) for _ in range(ranks)]
        all_places = [torch.empty_like(places) for _ in range(ranks)]
        first = dist.all_gather(all_values, values, async_op=True)
        second = dist.all_gather(all_places, places, async_op=True)
        assert first is not None
        assert second is not None

        def put_together(futures: Future[list[Future[Any]]]) -> Tensor:
            for future in futures.value():
                future.value()
            buffer.zero_()
            # one rank after the other: on every rank the same sum to the last bit
            for theirs, where in zip(all_values, all_places, strict=True):
                buffer.index_add_(0, where, theirs)
            mean: Tensor = buffer.div_(ranks)
            return mean

        return torch.futures.collect_all([first.get_future(), second.get_future()]).then(put_together)

    def _choose(self, bucket: GradBucket) -> tuple[Tensor, Tensor]:
        """Values to give away, and their places in the buffer (int32)."""
        values, places, start = [], [], 0
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients(), strict=True):
            whole = gradient.flatten()
            kept = self._kept.get(parameter)
            whole = whole + kept if kept is not None else whole.clone()
            count = max(1, round(self._ratio * whole.numel()))
            chosen = whole.abs().topk(count, sorted=False).indices
            values.append(whole[chosen])
            places.append((chosen + start).to(torch.int32))
            whole[chosen] = 0
            self._kept[parameter] = whole
            start += whole.numel()
        return torch.cat(values), torch.cat(places)


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
