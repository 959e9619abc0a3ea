"""A model that no rank has in full: made without memory, taken apart, and then filled from rank 0."""

import copy
import logging
import warnings
from collections.abc import Callable
from datetime import timedelta

import torch
from dtj_api import partition
from dtj_api.layout import Layout
from dtj_api.training import Training
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh

from dtj_trainer.checkpoint import state
from dtj_trainer.distributed import World
from dtj_trainer.observe.log import Log
from dtj_trainer.parallel import stages, tensor
from dtj_trainer.parallel.balance import balanced, measured
from dtj_trainer.parallel.fsdp import Place, shard
from dtj_trainer.parallel.holdings import Anatomy, Holdings, anatomy, tie
from dtj_trainer.parallel.mesh import data_mesh, mesh_of, set_timeouts
from dtj_trainer.parallel.pipeline import Pipeline, Ties
from dtj_trainer.parallel.precision import dtype
from dtj_trainer.parallel.recompute import recompute_blocks
from dtj_trainer.parallel.relay import Relay
from dtj_trainer.parallel.sharded import Sharded
from dtj_trainer.parallel.stages import Stage
from dtj_trainer.parallel.strategy import Strategy


def spread(
    build: Callable[[], nn.Module], training: Training, layout: Layout, world: World, example: Tensor, log: Log
) -> Strategy:
    """See apply.parallelise."""
    _quieten()
    with torch.device("meta"):
        plain = build().to(dtype(training.precision.params))
    known, whole = anatomy(plain), build() if world.rank == 0 else None
    if layout.tensor > 1:
        tensor.check(plain, training.tensor, known.aliases)
    mesh = mesh_of(layout, world.device)
    plan = _plan(plain, whole, training, layout, world, example, log) if layout.pipeline > 1 else []
    owners = [partition.stage_owner(training, layout, number) for number in range(len(plan))]
    mine = [number for number, owner in enumerate(owners) if owner == layout.stage_rank(world.rank)]
    held = {number: stages.cut(copy.deepcopy(plain), plan[number]) for number in mine} if plan else {0: plain}
    for number, module in held.items():
        stage: Place = ("last" if number == len(plan) - 1 else "inner") if plan else ""
        _apply(module, training, mesh, known, world.device, stage)
    for module in held.values():
        module.to_empty(device="cpu" if training.fsdp.cpu_offload else world.device)
        tie(module, known.aliases)
    # of the parameters as they are now: to_empty has made new ones
    holdings = Holdings(
        list(held.values()), known, [place * layout.ranks_per_stage for place in range(layout.pipeline)]
    )
    ties = _ties(plain, held, plan, owners, layout, known) if plan else None
    set_timeouts(timedelta(seconds=training.timeout_seconds))
    state.share_weights(holdings, dict(Holdings([whole], known).values()) if whole is not None else None, world)
    autocast = dtype(training.precision.compute) if layout.data_ranks == 1 else None
    split_classes = training.tensor.loss_parallel and layout.tensor > 1
    if ties is None or world.control is None:
        return Sharded(plain, holdings, world.device, autocast, split_classes=split_classes)
    return Pipeline(
        held,
        holdings,
        schedule=training.pipeline.schedule,
        microbatches=partition.microbatches(training, layout),
        mesh=mesh,
        relay=Relay(
            [owner * layout.ranks_per_stage + world.rank % layout.ranks_per_stage for owner in owners],
            world.control,
            world.device,
        ),
        ties=ties,
        device=world.device,
        autocast=autocast,
        split_classes=split_classes,
    )


def _plan(
    plain: nn.Module,
    whole: nn.Module | None,
    training: Training,
    layout: Layout,
    world: World,
    example: Tensor,
    log: Log,
) -> list[Stage]:
    """The stages of the pipeline, the same on every rank."""
    stages.check(plain)
    count = partition.stages(training, layout)
    stages.check_count(plain, count)

    def counts() -> tuple[int, ...]:
        assert whole is not None
        found = training.pipeline.split or balanced(measured(whole, example, world.device), count)
        log.info("stages", blocks=list(found), schedule=training.pipeline.schedule)
        return found

    return stages.plan(plain, world.from_rank_zero(counts))


def _apply(
    module: nn.Module, training: Training, mesh: DeviceMesh, known: Anatomy, device: torch.device, stage: Place
) -> None:
    """Steps 2 to 4 of apply.py, on what this rank has."""
    names = mesh.mesh_dim_names or ()
    if "tensor" in names:
        tensor.split_layers(module, training.tensor, mesh["tensor"], known.aliases)
    recompute_blocks(module, training.activation_checkpointing)
    if (data := data_mesh(mesh)) is not None:
        shard(module, training.fsdp, training.precision, data, pin=device.type == "cuda", stage=stage)


def _ties(
    plain: nn.Module,
    held: dict[int, nn.Module],
    plan: list[Stage],
    owners: list[int],
    layout: Layout,
    known: Anatomy,
) -> Ties:
    columns = [
        [stage * layout.ranks_per_stage + place for stage in range(layout.pipeline)]
        for place in range(layout.ranks_per_stage)
    ]
    return Ties(held, known, [stages.names(plain, stage, known.aliases) for stage in plan], owners, columns)


def _quieten() -> None:
    """What torch says of tensors on two dimensions of a mesh is so by design, and said on each rank."""
    logging.getLogger("torch.distributed.tensor._redistribute").setLevel(logging.ERROR)
    # logits are not changed in place
    warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
