"""blocks.py: which parts of a model are sharded and recomputed."""

import pytest

pytestmark = pytest.mark.torch


def test_blocks_are_those_of_the_largest_list() -> None:
    import torch
    from dtj_trainer.models.gpt import GPT
    from dtj_trainer.models.mlp import MLP
    from dtj_trainer.parallel.blocks import blocks

    gpt = GPT(layers=3, width=8, heads=2, length=4, vocabulary=500)
    assert blocks(gpt) == list(gpt.blocks)
    mlp = MLP(layers=2, width=8, features=4, classes=3)
    assert blocks(mlp) == list(mlp.layers)
    plain = torch.nn.Linear(2, 2)
    assert blocks(plain) == [plain]


@pytest.mark.parametrize(
    ("least", "expected"),
    [
        (50, ["0.0", "0.1", "1.0", "1.1"]),  # each layer of 8x8 and 8
        (100, ["0", "1"]),  # only both layers of a block
        (1000, []),
    ],
)
def test_modules_of_a_size_are_the_smallest_that_hold_it(least: int, expected: list[str]) -> None:
    from dtj_trainer.parallel.blocks import of_size
    from torch import nn

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.other = nn.Linear(8, 8), nn.Linear(8, 8)

    model = nn.Module()
    model.outside = nn.Embedding(1000, 8)
    model.pairs = nn.ModuleList(Pair() for _ in range(20))
    names = {id(module): name for name, module in model.named_modules()}
    found = [names[id(module)] for module in of_size(model, least)]
    wanted = {"0.0": "pairs.0.one", "0.1": "pairs.0.other", "1.0": "pairs.1.one", "1.1": "pairs.1.other"}
    assert found[: len(expected)] == [wanted.get(name, f"pairs.{name}") for name in expected]
    assert bool(found) == bool(expected)


def test_the_loss_scale_is_halved_by_an_overflow_and_doubled_after_many_good_steps() -> None:
    from dtj_trainer.optimizer import LossScale

    scale = LossScale(moves=True)
    scale.update(overflowed=True)
    assert scale.value == LossScale.FIRST / 2
    for _ in range(LossScale.GROWTH_STEPS):
        scale.update(overflowed=False)
    assert scale.value == LossScale.FIRST
    fixed = LossScale(moves=False)
    for _ in range(LossScale.GROWTH_STEPS):
        fixed.update(overflowed=False)
    assert (fixed.value, fixed.moves) == (1.0, False)


def test_a_step_whose_gradients_overflowed_changes_nothing() -> None:
    import torch
    from dtj_trainer.optimizer import LossScale, step

    parameter = torch.nn.Parameter(torch.ones(3))

    def norm() -> torch.Tensor:
        assert parameter.grad is not None
        return parameter.grad.norm()

    optimizer, scale = torch.optim.SGD([parameter], lr=0.1), LossScale(moves=True)
    parameter.grad = torch.tensor([1.0, float("inf"), 1.0])
    step(optimizer, 1.0, scale, norm)
    assert parameter.tolist() == [1.0, 1.0, 1.0]
    parameter.grad = torch.full((3,), scale.value)
    assert step(optimizer, None, scale, norm).item() == pytest.approx(3**0.5)
    assert parameter.tolist() == pytest.approx([0.9] * 3)


def test_the_loss_scale_goes_on_from_a_checkpoint() -> None:
    from dtj_trainer.optimizer import LossScale

    saved, resumed = LossScale(moves=True), LossScale(moves=True)
    saved.update(overflowed=True)
    saved.update(overflowed=False)
    resumed.load(saved.state())
    assert resumed.state() == saved.state() == {"value": LossScale.FIRST / 2, "good": 1.0}
    # of a run that had none
    resumed.load(LossScale(moves=False).state())
    assert resumed.value == LossScale.FIRST / 2
    for _ in range(30):
        resumed.update(overflowed=True)
    assert resumed.hopeless
