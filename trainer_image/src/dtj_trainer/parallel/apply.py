"""From a plain model to one that is trained by many ranks. The order is fixed: each step relies on those before it.

1. cut: a rank of a pipeline keeps its stages (stages.py)
2. split: layers become DTensors (tensor.py)
3. recompute: the forward of each block is wrapped (recompute.py)
4. shard or replicate: hooks, and the parameters themselves (fsdp.py, ddp.py)
"""

from collections.abc import Callable

from dtj_api.layout import Layout
from dtj_api.training import Training
from torch import Tensor, nn

from dtj_trainer.distributed import World
from dtj_trainer.observe.log import Log
from dtj_trainer.parallel.ddp import DataParallel
from dtj_trainer.parallel.precision import dtype
from dtj_trainer.parallel.recompute import recompute_blocks
from dtj_trainer.parallel.strategy import Strategy


def parallelise(
    build: Callable[[], nn.Module], training: Training, layout: Layout, world: World, example: Tensor, log: Log
) -> Strategy:
    """The strategy that `training` names, over the model that `build` makes. Ranks that hold a part of the model never
    hold all of it, but for rank 0, on the CPU.

    Args:
        example: inputs of one microbatch.

    Raises:
        TrainerError: INVALID_CONFIG, the model does not say of which parts it is made.
    """
    alone = layout.world_size == 1
    if training.strategy != "ddp" and not alone:
        # its imports take seconds
        from dtj_trainer.parallel.spread import spread

        return spread(build, training, layout, world, example, log)
    precision = training.precision
    model = build().to(world.device, dtype(precision.params))
    recompute_blocks(model, training.activation_checkpointing)
    return DataParallel(model, training.ddp, world.device, dtype(precision.compute), alone=alone)
