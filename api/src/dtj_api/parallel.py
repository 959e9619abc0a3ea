"""Fields of `spec.training` that say how the ranks share the work. Types and defaults; what they come to: layout.py."""

from dataclasses import dataclass, field
from typing import Literal

from dtj_api.fields import bounds

Strategy = Literal["ddp", "fsdp", "hsdp", "tensor", "pipeline", "hybrid"]
Compression = Literal["none", "fp16", "bf16", "powersgd", "topk"]
Schedule = Literal["gpipe", "1f1b", "loopedbfs", "interleaved1f1b", "zerobubble", "zbv", "dualpipev"]
ActivationCheckpointing = Literal["none", "full", "selective"]


@dataclass(frozen=True)
class Mesh:
    """Ranks along each dimension. One that is not given follows from the strategy and the world size (layout.py)."""

    replicate: int | None = field(default=None, metadata=bounds(minimum=1, maximum=65536))
    shard: int | None = field(default=None, metadata=bounds(minimum=1, maximum=65536))
    tensor: int | None = field(default=None, metadata=bounds(minimum=1, maximum=65536))
    pipeline: int | None = field(default=None, metadata=bounds(minimum=1, maximum=65536))


@dataclass(frozen=True)
class Ddp:
    """Of strategy ddp: torch's DistributedDataParallel."""

    bucket_mb: int = field(default=25, metadata=bounds(minimum=1, maximum=4096))
    static_graph: bool = False
    find_unused_parameters: bool = False
    gradient_as_bucket_view: bool = True
    compression: Compression = "none"
    compression_ratio: float = field(default=0.1, metadata=bounds(above=0, maximum=1))
    compression_rank: int = field(default=2, metadata=bounds(minimum=1, maximum=4096))
    compression_warmup_steps: int = field(default=0, metadata=bounds(minimum=0, maximum=2**31 - 1))


@dataclass(frozen=True)
class Fsdp:
    """Of strategies fsdp, hsdp and hybrid: torch's fully_shard. `wrap` says what is gathered at a time: each of the
    model's blocks, or the smallest modules of at least `minParameters` parameters. Where `reshardAfterForward` is not
    given, parameters are given up after the forward pass, but not in a pipeline, which needs them for each microbatch.
    """

    wrap: Literal["blocks", "size"] = "blocks"
    min_parameters: int = field(default=1_000_000, metadata=bounds(minimum=1, maximum=2**40))
    reshard_after_forward: bool | None = None
    reshard_to: int | None = field(default=None, metadata=bounds(minimum=2, maximum=65536))
    cpu_offload: bool = False
    forward_prefetch: int = field(default=0, metadata=bounds(minimum=0, maximum=64))
    backward_prefetch: int = field(default=0, metadata=bounds(minimum=0, maximum=64))


@dataclass(frozen=True)
class Tensor:
    """Of strategies tensor and hybrid. `sequenceParallel`: what is between split layers is split by tokens.
    `lossParallel`: logits and loss are split by classes."""

    sequence_parallel: bool = False
    loss_parallel: bool = False


@dataclass(frozen=True)
class Pipeline:
    """Of strategies pipeline and hybrid. `split`: blocks of each stage, balanced by measured time if not given."""

    schedule: Schedule = "1f1b"
    stages_per_rank: int | None = field(default=None, metadata=bounds(minimum=1, maximum=64))
    split: tuple[int, ...] | None = field(default=None, metadata=bounds(minimum=1, max_items=4096))


@dataclass(frozen=True)
class Precision:
    """Number formats: of parameters and optimizer state, of matrix products, of the reduction of gradients (which is
    fp32 with fsdp and hsdp, and the parameters' own with ddp, where it is not given)."""

    params: Literal["fp32", "bf16"] = "fp32"
    compute: Literal["fp32", "bf16", "fp16"] = "fp32"
    reduce: Literal["fp32", "bf16", "fp16"] | None = None

    @property
    def is_half(self) -> bool:
        """Whether anything is in fp16, whose small numbers need a loss scale."""
        return "fp16" in (self.compute, self.reduce)
