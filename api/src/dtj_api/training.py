"""`spec.training`: configuration of the built-in trainer. Types and defaults; rules that span fields: validation.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dtj_api.fields import bounds, pattern
from dtj_api.parallel import ActivationCheckpointing, Ddp, Fsdp, Mesh, Pipeline, Precision, Strategy, Tensor


@dataclass(frozen=True)
class ModelDimensions:
    """Shape of a model that has no named size. `heads` is read by gpt and vision only."""

    layers: int = field(metadata=bounds(minimum=1, maximum=1000))
    width: int = field(metadata=bounds(minimum=1, maximum=65536))
    heads: int | None = field(default=None, metadata=bounds(minimum=1, maximum=1024))


@dataclass(frozen=True)
class Model:
    """Which network to train: one of the trainer's, in a named size or of explicit dimensions; or what a function of
    the user's own makes (`import`), with `arguments` and what the data are like."""

    name: Literal["gpt", "mlp", "vision"] | None = None
    size: str | None = None
    dimensions: ModelDimensions | None = None
    import_: str | None = field(
        default=None,
        metadata=pattern(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "package.module:function", max_length=253),
    )
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Data:
    """What to train on: exactly one of `text`, `tokens`, `images`.

    `text` is `tinydocs` (465,000 characters of English that ship with Python) or an absolute path to a file or a
    folder of UTF-8 text. `tokens` is an absolute path to .bin (raw little-endian uint16) or .npy files. `images` is
    `digits` (1,797 images of 8x8 that ship with scikit-learn).
    """

    text: str | None = None
    tokens: str | None = None
    images: Literal["digits"] | None = None
    sequence_length: int = field(default=128, metadata=bounds(minimum=1, maximum=1048576))
    vocabulary_size: int | None = field(default=None, metadata=bounds(minimum=2, maximum=65536))
    validation_fraction: float = field(default=0.1, metadata=bounds(above=0, below=1))


@dataclass(frozen=True)
class Batch:
    """Samples in one optimizer step: over all processes (`global`), or of one process in one pass (`perProcess`).

    global = perProcess x accumulation x data ranks. `accumulation` passes are summed before each optimizer step; a
    pipeline splits each pass into `microbatches`.
    """

    global_: int | None = field(default=None, metadata=bounds(minimum=1, maximum=2**31 - 1))
    per_process: int | None = field(default=None, metadata=bounds(minimum=1, maximum=2**31 - 1))
    accumulation: int = field(default=1, metadata=bounds(minimum=1, maximum=2**31 - 1))
    microbatches: int | None = field(default=None, metadata=bounds(minimum=1, maximum=2**31 - 1))


@dataclass(frozen=True)
class Optimizer:
    """AdamW, or SGD without momentum. `gradClip` is the largest global gradient norm; without it none is clipped."""

    name: Literal["adamw", "sgd"] = "adamw"
    learning_rate: float = field(default=1e-3, metadata=bounds(above=0))
    weight_decay: float = field(default=0.1, metadata=bounds(minimum=0))
    betas: tuple[float, float] = field(default=(0.9, 0.95), metadata=bounds(minimum=0, below=1))
    grad_clip: float | None = field(default=None, metadata=bounds(above=0))


@dataclass(frozen=True)
class Evaluate:
    """Validation loss every so many steps (0: only at the end), over so many batches (0: the whole validation set)."""

    every_steps: int = field(default=0, metadata=bounds(minimum=0))
    batches: int = field(default=0, metadata=bounds(minimum=0))


@dataclass(frozen=True)
class Log:
    """How often the loss is read back, written and exported."""

    every_steps: int = field(default=10, metadata=bounds(minimum=1))


@dataclass(frozen=True)
class Training:
    """The whole of `spec.training`."""

    model: Model
    data: Data
    steps: int = field(metadata=bounds(minimum=1))
    batch: Batch
    strategy: Strategy = "ddp"
    mesh: Mesh = Mesh()
    ddp: Ddp = Ddp()
    fsdp: Fsdp = Fsdp()
    tensor: Tensor = Tensor()
    pipeline: Pipeline = Pipeline()
    precision: Precision = Precision()
    activation_checkpointing: ActivationCheckpointing = "none"
    optimizer: Optimizer = Optimizer()
    evaluate: Evaluate = Evaluate()
    log: Log = Log()
    seed: int = field(default=0, metadata=bounds(minimum=0, maximum=2**31 - 1))
    timeout_seconds: int = field(default=600, metadata=bounds(minimum=1))

    def per_process_batch(self, data_ranks: int) -> int:
        """Samples of one process in one forward pass, where so many get samples of their own. Validation has shown
        that it is whole."""
        if self.batch.per_process is not None:
            return self.batch.per_process
        assert self.batch.global_ is not None
        return self.batch.global_ // (data_ranks * self.batch.accumulation)

    def global_batch(self, data_ranks: int) -> int:
        """Samples in one optimizer step, over all processes."""
        return self.per_process_batch(data_ranks) * self.batch.accumulation * data_ranks


# Named sizes: name -> (layers, width, heads). gpt2 is GPT-2 124M (Radford et al. 2019).
GPT_SIZES = {
    "tiny": ModelDimensions(layers=2, width=64, heads=4),
    "mini": ModelDimensions(layers=4, width=128, heads=4),
    "small": ModelDimensions(layers=6, width=384, heads=6),
    "gpt2": ModelDimensions(layers=12, width=768, heads=12),
}
MLP_SIZES = {
    "tiny": ModelDimensions(layers=2, width=64),
    "small": ModelDimensions(layers=3, width=256),
}
VISION_SIZES = {
    "tiny": ModelDimensions(layers=2, width=64, heads=4),
    "small": ModelDimensions(layers=6, width=192, heads=6),
}
SIZES = {"gpt": GPT_SIZES, "mlp": MLP_SIZES, "vision": VISION_SIZES}
# models with attention
WITH_HEADS = ("gpt", "vision")


def dimensions(model: Model) -> ModelDimensions | None:
    """The shape a validated `model` asks for; `size: tiny` where it names none. None for one that is imported."""
    return model.dimensions or (SIZES[model.name][model.size or "tiny"] if model.name is not None else None)
