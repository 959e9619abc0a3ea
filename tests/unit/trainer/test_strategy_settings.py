"""Settings that change nothing in what is computed: whether they reach torch, the equivalence matrix cannot tell."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dtj_api.parallel import Ddp, Fsdp, Precision

pytestmark = pytest.mark.torch


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Callable[[], Any]]:
    """A small GPT, in a process group of one."""
    import torch.distributed as dist
    from dtj_trainer.models.gpt import GPT

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield lambda: GPT(layers=3, width=8, heads=2, length=4, vocabulary=16)
    dist.destroy_process_group()


@pytest.mark.parametrize(
    ("config", "attribute", "value"),
    [
        (Ddp(bucket_mb=3), "bucket_bytes_cap", 3 * 2**20),
        (Ddp(static_graph=True), "static_graph", True),
        (Ddp(find_unused_parameters=True), "find_unused_parameters", True),
        (Ddp(gradient_as_bucket_view=False), "gradient_as_bucket_view", False),
    ],
)
def test_settings_of_ddp(model: Callable[[], Any], config: Ddp, attribute: str, value: Any) -> None:
    import torch
    from dtj_trainer.parallel.ddp import DataParallel

    def replica(settings: Ddp) -> Any:
        return DataParallel(model(), settings, torch.device("cpu"), None, alone=False)._called

    assert getattr(replica(config), attribute) == value
    assert getattr(replica(Ddp()), attribute) != value


def sharded(model: Callable[[], Any], config: Fsdp, precision: Precision = Precision(), stage: Any = "") -> Any:
    from dtj_trainer.parallel.fsdp import shard
    from torch.distributed.device_mesh import init_device_mesh

    part = model()
    shard(part, config, precision, init_device_mesh("cpu", (1,), mesh_dim_names=("shard",)), pin=False, stage=stage)
    return part


def group(part: Any) -> Any:
    """What fully_shard keeps of a part."""
    return part._get_fsdp_state()._fsdp_param_group


def test_settings_of_fsdp(model: Callable[[], Any]) -> None:
    import torch

    plain = sharded(model, Fsdp())
    assert [group(block) is not None for block in plain.blocks] == [True] * 3
    assert group(plain.blocks[0]).post_forward_mesh_info is not None
    assert group(sharded(model, Fsdp(reshard_after_forward=False)).blocks[0]).post_forward_mesh_info is None
    # microbatches would gather again and again
    assert group(sharded(model, Fsdp(), stage="last").blocks[0]).post_forward_mesh_info is None
    kept = sharded(model, Fsdp(reshard_after_forward=True), stage="inner").blocks[0]
    assert group(kept).post_forward_mesh_info is not None
    assert group(sharded(model, Fsdp(cpu_offload=True)).blocks[0]).fsdp_params[0].offload_to_cpu
    assert not group(plain.blocks[0]).fsdp_params[0].offload_to_cpu
    ahead = sharded(model, Fsdp(forward_prefetch=2, backward_prefetch=1))
    first, last = (block._get_fsdp_state() for block in (ahead.blocks[0], ahead.blocks[2]))
    assert first._states_to_forward_prefetch == [block._get_fsdp_state() for block in ahead.blocks[1:]]
    assert last._states_to_backward_prefetch == [ahead.blocks[1]._get_fsdp_state()]
    assert plain.blocks[0]._get_fsdp_state()._states_to_forward_prefetch == []
    halves = sharded(model, Fsdp(), Precision(compute="bf16", reduce="fp16"))
    formats = halves.blocks[0]._get_fsdp_state()._mp_policy
    assert (formats.param_dtype, formats.reduce_dtype) == (torch.bfloat16, torch.float16)
    smaller = sharded(model, Fsdp(wrap="size", min_parameters=100))
    assert isinstance(smaller.blocks[0].mlp.up, torch.distributed.fsdp.FSDPModule)
    assert not isinstance(plain.blocks[0].mlp.up, torch.distributed.fsdp.FSDPModule)


@pytest.mark.parametrize(("selective", "products"), [(None, 2), (False, 3), (True, 2)])
def test_what_is_recomputed(selective: bool | None, products: int) -> None:
    """Products of matrices in a forward and backward pass of two linear layers, beside the backward pass's own. The
    last is not computed again, since nothing needs its result."""
    import torch
    from dtj_trainer.parallel.recompute import recompute
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        products = gelus = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            self.products += func is torch.ops.aten.mm.default
            self.gelus += func is torch.ops.aten.gelu.default
            return func(*args, **(kwargs or {}))

    block = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.GELU(), torch.nn.Linear(4, 4, bias=False))
    if selective is not None:
        recompute(block, selective=selective)
    inputs = torch.ones(2, 4, requires_grad=True)
    with Count() as count:
        block(inputs).sum().backward()
    backward = 4
    assert count.products == products + backward
    assert count.gelus == (1 if selective is None else 2)


@pytest.mark.parametrize(
    ("settings", "name", "layouts"),
    [
        ({}, "output", "input_layouts=(Replicate(),), output_layouts=(Replicate(),), use_local_output=True"),
        ({"loss_parallel": True}, "output", "output_layouts=(Shard(dim=-1),), use_local_output=False"),
        ({"sequence_parallel": True}, "output", "input_layouts=(Shard(dim=1),)"),
        ({}, "blocks.1.mlp.down", "output_layouts=(Replicate(),)"),
        ({"sequence_parallel": True}, "blocks.1.mlp.down", "output_layouts=(Shard(dim=1),)"),
        ({"sequence_parallel": True}, "blocks.0.attention.qkv", "input_layouts=(Shard(dim=1),)"),
        ({"sequence_parallel": True}, "positions", "output_layouts=(Shard(dim=0),)"),
        ({}, "positions", "None"),
        ({}, "norm", "None"),
        ({"sequence_parallel": True}, "norm", "SequenceParallel"),
    ],
)
def test_settings_of_tensor(settings: dict[str, bool], name: str, layouts: str) -> None:
    from dtj_api.parallel import Tensor
    from dtj_trainer.models.gpt import GPT
    from dtj_trainer.parallel.tensor import _style

    assert layouts in repr(_style(name, GPT.parts, Tensor(**settings)))
