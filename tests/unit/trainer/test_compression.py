"""compression.py on one rank: what is given away, what is kept for later, what is counted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.torch


@pytest.fixture
def train(tmp_path: Path) -> Iterator[Any]:
    """train(RATIO, WARM_UP, STEPS): gradients as the optimizer sees them, and the hook."""
    import torch
    import torch.distributed as dist
    from dtj_trainer.parallel.compression import TopK
    from dtj_trainer.parallel.strategy import Traffic
    from torch.nn.parallel import DistributedDataParallel

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)

    def run(ratio: float, warm_up: int, steps: int) -> tuple[list[torch.Tensor], TopK, Traffic]:
        torch.manual_seed(0)
        model = torch.nn.Linear(10, 5, bias=False).double()
        replica, traffic = DistributedDataParallel(model), Traffic()
        hook = TopK(ratio, warm_up, traffic)
        replica.register_comm_hook(hook, TopK.exchange)
        seen = []
        for step in range(steps):
            model.zero_grad(set_to_none=True)
            replica(torch.full((3, 10), float(step + 1)).double().cumsum(1)).sum().backward()
            assert model.weight.grad is not None
            seen.append(model.weight.grad.clone())
        return seen, hook, traffic

    yield run
    dist.destroy_process_group()


def test_what_is_kept_is_given_away_later(train: Any) -> None:
    import torch

    dense, _, _ = train(1.0, 0, 8)
    sparse, hook, _ = train(0.1, 0, 8)
    assert all(int((gradient != 0).sum()) == 5 for gradient in sparse)
    (kept,) = hook._kept.values()
    torch.testing.assert_close(sum(sparse) + kept.view(5, 10), sum(dense))


def test_nothing_is_left_out_while_it_warms_up(train: Any) -> None:
    dense, _, _ = train(1.0, 0, 4)
    sparse, _, traffic = train(0.1, 3, 4)
    assert all(bool((one == other).all()) for one, other in zip(sparse[:3], dense[:3], strict=True))
    assert int((sparse[3] != 0).sum()) == 5
    # 50 numbers of 8 bytes in each step; in the last one 5 of them, with places of 4
    assert (traffic.dense, traffic.sent) == (4 * 400, 3 * 400 + 5 * 12)


def test_what_is_sent_and_spared_is_told() -> None:
    import io

    from dtj_api.fields import decode
    from dtj_api.layout import Layout
    from dtj_api.spec import RunConfig
    from dtj_trainer.observe.log import Log
    from dtj_trainer.observe.observer import Observer
    from dtj_trainer.parallel.strategy import Traffic

    training = {"model": {"name": "gpt"}, "data": {"text": "tinydocs"}, "steps": 2, "batch": {"perProcess": 1}}
    traffic = Traffic()
    config = decode(RunConfig, {"training": training}, "")
    observer = Observer(
        config=config,
        rank=0,
        layout=Layout(),
        tokens_per_sample=0,
        log=Log(0, io.StringIO()),
        run=None,
        traffic=traffic,
    )
    for step in (1, 2):
        traffic.count(10, 100)
        observer.step(step)
    told = {sample.name: sample.value for family in observer.metrics._registry.collect() for sample in family.samples}
    assert (told["dtj_gradient_bytes_total"], told["dtj_gradient_bytes_saved_total"]) == (20, 180)
