"""Runs of the trainer's own steps by ranks that are forked from this process, which has imported torch for them all."""

import json
import multiprocessing
import queue
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from io import StringIO
from typing import Any, TypeVar

import numpy as np
import torch
import torch._dynamo
import torch.distributed as dist
import torch.distributed.fsdp
import torch.distributed.pipelining
import torch.distributed.tensor
import torch.distributed.tensor.parallel
from dtj_api.layout import Ranks
from dtj_api.spec import RunConfig
from dtj_trainer import config as configuration
from dtj_trainer import data
from dtj_trainer.checkpoint import state
from dtj_trainer.distributed import World
from dtj_trainer.observe.log import Log
from dtj_trainer.train import Run
from torch._C._distributed_c10d import TCPStore

Fields = dict[str, Any]
T = TypeVar("T")

STEPS = 20
SECONDS = 300.0
# Without biases, so no parameter has a gradient of nothing but rounding, which AdamW would blow up
BASE: Fields = {
    "model": {"name": "gpt", "dimensions": {"layers": 2, "width": 32, "heads": 4}},
    "data": {"text": "tinydocs", "sequenceLength": 32},
    "steps": STEPS,
    "batch": {"global": 24},
    "optimizer": {"learningRate": 0.003},
    "evaluate": {"batches": 3},
    "seed": 7,
    "timeoutSeconds": 120,
}


@dataclass
class Trace:
    """What a run came to.

    Attributes:
        losses, norms: after each step: mean over the ranks, and of the gradient before clipping.
        validation: the loss after the last step.
        weights: by name, whole.
        sent_bytes, dense_bytes: of rank 0's gradients, where they are compressed.
        error: why there is none of these.
    """

    losses: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    validation: float = 0.0
    weights: dict[str, Any] = field(default_factory=dict)
    sent_bytes: int = 0
    dense_bytes: int = 0
    error: str = ""


class GangFailed(Exception):
    """The first error of any rank, with its traceback."""


def run(training: Fields, ranks: Ranks, *, double: bool, base: Fields = BASE) -> Trace:
    """Rank 0's trace, or the first error of any rank."""
    try:
        return forked(partial(_train, {**base, **training}, ranks, double), ranks)[0]
    except GangFailed as error:
        return Trace(error=str(error))


def load(training: Fields, ranks: Ranks) -> RunConfig:
    return configuration.load(None, {"DTJ_CONFIG": json.dumps({"training": training})}, ranks)


def forked(work: Callable[[World], T], ranks: Ranks) -> dict[int, T]:
    """What each rank's work came to, in a process group of their own. Raises GangFailed."""
    context = multiprocessing.get_context("fork")
    answers: Any = context.Queue()
    port = _free_port()
    processes = [context.Process(target=_rank, args=(answers, work, rank, ranks, port)) for rank in range(ranks.world)]
    for process in processes:
        process.start()
    found: dict[int, T] = {}
    try:
        while len(found) < len(processes):
            rank, answer, error = answers.get(timeout=SECONDS)
            if error:
                raise GangFailed(error)
            found[rank] = answer
    except queue.Empty:
        silent = sorted(set(range(ranks.world)) - found.keys())
        raise GangFailed(f"nothing from ranks {silent} in {SECONDS:.0f} s") from None
    finally:
        for process in processes:
            process.kill()
            process.join()
    return found


def _rank(answers: Any, work: Callable[[World], T], rank: int, ranks: Ranks, port: int) -> None:
    torch.set_num_threads(1)
    try:
        answers.put((rank, work(_world(rank, ranks, port)), ""))
    except Exception:  # noqa: BLE001 whatever it is, it is told
        answers.put((rank, None, traceback.format_exc()))
    answers.close()
    answers.join_thread()
    sys.stdout.flush()


def _world(rank: int, ranks: Ranks, port: int) -> World:
    control = None
    if ranks.world > 1:
        store = TCPStore("127.0.0.1", port, ranks.world, rank == 0, timedelta(seconds=60))
        timeout = timedelta(seconds=SECONDS)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks.world, timeout=timeout)
        control = dist.group.WORLD
    return World(rank, ranks.world, torch.device("cpu"), control, ranks.local)


def _train(raw: Fields, ranks: Ranks, double: bool, world: World) -> Trace:
    torch.set_default_dtype(torch.float64 if double else torch.float32)
    config = load(raw, ranks)
    dataset = data.load(config.training.data)
    job = Run(config=config, dataset=dataset, world=world, log=Log(world.rank, StringIO()), run_folder=None)
    job.restore()
    trace = Trace()
    for step in range(1, config.training.steps + 1):
        job.train_step(step)
        trace.losses.append(world.sum(job.loss.item())[0] / job.layout.ranks_per_stage)
        trace.norms.append(job.norm.item())
    job.evaluate(config.training.steps)
    assert job.evaluated is not None
    trace.validation = job.evaluated[1].loss
    trace.weights = {
        name: tensor.double().numpy().astype(np.float64)
        for name, tensor in state.whole_weights(job.strategy.holdings, world).items()
        if world.rank == 0
    }
    if job.strategy.traffic is not None:
        trace.sent_bytes, trace.dense_bytes = job.strategy.traffic.sent, job.strategy.traffic.dense
    world.sum(0.0)
    return trace


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
