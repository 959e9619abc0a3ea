"""stages.py, balance.py, holdings.py: a model taken apart by names."""

from typing import Any

import pytest

pytestmark = pytest.mark.torch

WIDTH, TOKENS = 8, 16


def gpt(layers: int = 4) -> Any:
    from dtj_trainer.models.gpt import GPT

    return GPT(layers=layers, width=WIDTH, heads=2, length=4, vocabulary=TOKENS)


@pytest.mark.parametrize(
    ("before", "blocks", "after", "stages", "expected"),
    [
        (0, (1,) * 8, 0, 4, (2, 2, 2, 2)),
        (0, (1,) * 8, 0, 3, (2, 3, 3)),
        (2, (1,) * 6, 0, 2, (2, 4)),
        (0, (1,) * 6, 3, 2, (4, 2)),
        (0, (5, 1, 1, 1, 1), 0, 2, (1, 4)),
        (0, (1, 1, 1, 1, 5), 0, 3, (1, 3, 1)),
        (9, (1, 1, 1), 9, 3, (1, 1, 1)),
        (0, (1,), 0, 1, (1,)),
    ],
)
def test_the_dearest_stage_is_as_cheap_as_can_be(
    before: float, blocks: tuple[float, ...], after: float, stages: int, expected: tuple[int, ...]
) -> None:
    from dtj_trainer.parallel.balance import Costs, balanced

    assert balanced(Costs(before, blocks, after), stages) == expected


def test_blocks_alike_cost_the_same_and_measuring_leaves_no_trace() -> None:
    import torch
    from dtj_trainer.parallel.balance import measured

    model = gpt()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    costs = measured(model, torch.zeros(2, 4, dtype=torch.int64), torch.device("cpu"))
    assert len(costs.blocks) == 4
    assert len(set(costs.blocks)) == 1
    assert min(costs.before, costs.after, *costs.blocks) > 0
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training


def test_stages_one_after_the_other_are_the_model_and_keep_its_names() -> None:
    import copy

    import torch
    from dtj_trainer.parallel import stages
    from dtj_trainer.parallel.holdings import anatomy

    model, tokens = gpt(), torch.arange(8).reshape(2, 4)
    x, held = tokens, []
    for stage in stages.plan(model, (1, 2, 1)):
        part = stages.cut(copy.deepcopy(model), stage)
        x = part(x)
        own = {name for name, _ in part.named_parameters()}
        assert own <= {name for name, _ in model.named_parameters(remove_duplicate=False)}
        known = stages.names(model, stage, anatomy(model).aliases)
        assert {anatomy(model).aliases.get(name, name) for name in own} == known
        held.append(known)
    assert torch.equal(x, model(tokens))
    assert set.union(*held) == {name for name, _ in model.named_parameters()}
    assert held[0] & held[2] == {"tokens.weight"}, "the tied weights are with both ends"


def test_of_a_model_are_known_its_ties_and_what_decays() -> None:
    from dtj_trainer.parallel.holdings import Holdings, anatomy

    model = gpt(layers=1)
    known = anatomy(model)
    assert known.aliases == {"output.weight": "tokens.weight"}
    names = {"attention.qkv", "attention.out", "mlp.up", "mlp.down"}
    assert known.decayed == {f"blocks.0.{name}.weight" for name in names}, "not the embedding, tied or not"
    assert known.parameters == sum(p.numel() for p in model.parameters())
    names_saved = [name for name, _ in Holdings([model], known).tensors()]
    assert sorted(names_saved) == sorted(name for name, _ in model.named_parameters())


def test_ties_are_made_again() -> None:
    import torch
    from dtj_trainer.parallel.holdings import anatomy, tie

    with torch.device("meta"):
        model = gpt(layers=1)
    known = anatomy(model)
    model.to_empty(device="cpu")
    assert model.output.weight is not model.tokens.weight, "or there is no need for it"
    tie(model, known.aliases)
    assert model.output.weight is model.tokens.weight


class TestAModelThatDoesNotSay:
    """Each gets one sentence with the remedy."""

    def test_of_which_parts_it_is(self) -> None:
        import torch
        from dtj_trainer.errors import TrainerError
        from dtj_trainer.parallel.stages import parts_of

        with pytest.raises(TrainerError, match=r"Linear does not say of which parts it is made.*or use strategy: fsdp"):
            parts_of(torch.nn.Linear(2, 2))

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"after": ("norm",)}, "output.weight belong to none of the parts blocks, before and after; add them"),
            ({"before": ("tokens", "places")}, "parts names places, which GPT does not have"),
            ({"blocks": "layers"}, "parts names layers, which GPT does not have"),
        ],
    )
    def test_what_is_in_them(self, changes: dict[str, Any], words: str) -> None:
        import dataclasses

        from dtj_trainer.errors import TrainerError
        from dtj_trainer.parallel import stages

        model = gpt()
        model.parts = dataclasses.replace(model.parts, **changes)
        with pytest.raises(TrainerError, match=words):
            stages.check(model)

    def test_how_many_blocks_it_has(self) -> None:
        from dtj_trainer.errors import TrainerError
        from dtj_trainer.parallel import stages

        with pytest.raises(
            TrainerError, match=r"stages of 2, 3 blocks are not the 4 of GPT; correct spec.training.pip"
        ):
            stages.plan(gpt(), (2, 3))

    @pytest.mark.parametrize(
        ("changes", "config", "words"),
        [
            ({"column": ()}, {}, "tensor parallelism needs the model's column and row"),
            (
                {"tokenwise": ()},
                {"sequence_parallel": True},
                "needs the model's tokenwise and output.*sequenceParallel: false",
            ),
            ({"output": None}, {"loss_parallel": True}, "needs the model's output.*lossParallel: false"),
            ({"vocabulary": ()}, {}, "output and tokens share their weights: name both, or neither"),
        ],
    )
    def test_what_can_be_split(self, changes: dict[str, Any], config: dict[str, Any], words: str) -> None:
        import dataclasses

        from dtj_api.parallel import Tensor
        from dtj_trainer.errors import TrainerError
        from dtj_trainer.parallel import tensor
        from dtj_trainer.parallel.holdings import anatomy

        model = gpt()
        model.parts = dataclasses.replace(model.parts, **changes)
        with pytest.raises(TrainerError, match=words):
            tensor.check(model, Tensor(**config), anatomy(model).aliases)
