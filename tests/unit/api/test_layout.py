"""layout.py and partition.py: what a strategy comes to. What cannot be: test_refusals.py."""

from typing import Any

import pytest
from dtj_api.layout import Layout, Ranks, layout
from dtj_api.partition import microbatches, stage_owner, stages

from tests.unit.api.strategies import IMAGES, LONG, PIPELINE, PODS_OF_FOUR, batch, faults, training


@pytest.mark.parametrize(
    ("fields", "ranks", "expected"),
    [
        ({}, PODS_OF_FOUR, Layout(replicate=8)),
        ({"mesh": {"replicate": 8}}, PODS_OF_FOUR, Layout(replicate=8)),
        ({"strategy": "fsdp"}, PODS_OF_FOUR, Layout(shard=8)),
        ({"strategy": "fsdp", "mesh": {"shard": 8, "replicate": 1}}, PODS_OF_FOUR, Layout(shard=8)),
        ({"strategy": "hsdp"}, PODS_OF_FOUR, Layout(2, 4)),
        ({"strategy": "hsdp", "mesh": {"shard": 2}}, PODS_OF_FOUR, Layout(4, 2)),
        ({"strategy": "hsdp", "mesh": {"replicate": 2}}, Ranks(8, 1), Layout(2, 4)),
        ({"strategy": "hsdp", "mesh": {"replicate": 8}}, PODS_OF_FOUR, Layout(8, 1)),
        ({"strategy": "fsdp"}, Ranks(1, 1), Layout()),
        ({"strategy": "tensor"}, Ranks(2, 2), Layout(tensor=2)),
        ({"strategy": "pipeline", **LONG}, Ranks(4, 1), Layout(pipeline=4)),
        ({"strategy": "hybrid", "mesh": {"tensor": 2}}, PODS_OF_FOUR, Layout(shard=4, tensor=2)),
        ({"strategy": "hybrid", "mesh": {"tensor": 2, "replicate": 4}}, PODS_OF_FOUR, Layout(replicate=4, tensor=2)),
        ({"strategy": "hybrid", "mesh": {"tensor": 2, "shard": 2}}, PODS_OF_FOUR, Layout(2, 2, 2)),
        ({"strategy": "hybrid", "mesh": {"tensor": 2, "pipeline": 2}, **LONG}, PODS_OF_FOUR, Layout(1, 2, 2, 2)),
        ({"strategy": "hybrid", "mesh": {"pipeline": 2}, **LONG}, PODS_OF_FOUR, Layout(shard=4, pipeline=2)),
    ],
)
def test_strategy_and_world_size_make_the_mesh(fields: dict[str, Any], ranks: Ranks, expected: Layout) -> None:
    assert faults(ranks, **fields) == []
    assert layout(training(**fields), ranks) == expected
    assert expected.world_size == ranks.world


def test_who_exchanges_most_are_neighbours() -> None:
    """tensor is innermost, then shard, replicate, pipeline."""
    mesh = Layout(replicate=2, shard=2, tensor=2, pipeline=2)
    assert [mesh.data_rank(rank) for rank in range(16)] == [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [mesh.stage_rank(rank) for rank in range(16)] == [0] * 8 + [1] * 8
    assert [rank for rank in range(16) if mesh.counts(rank)] == [0, 2, 4, 6]
    assert (mesh.world_size, mesh.data_ranks, mesh.ranks_per_stage) == (16, 4, 8)


def test_microbatches_of_a_huge_batch_are_found_without_trying_every_number() -> None:
    given = training(**{**PIPELINE, "batch": {"perProcess": 2**31 - 2, "microbatches": 7}})
    assert faults(Ranks(2, 1), **{**PIPELINE, "batch": {"perProcess": 2**31 - 2, "microbatches": 7}}) == []
    assert microbatches(given, Layout(pipeline=2)) == 7


def test_an_imported_model_goes_with_all_data_and_is_cut_where_it_is_known() -> None:
    own = {"model": {"import": "mine.models:build", "arguments": {"layers": 2}}}
    assert faults(Ranks(4, 1), **own, strategy="pipeline", batch={"perProcess": 8}) == []
    assert faults(Ranks(4, 1), **own, strategy="tensor", **IMAGES) == []


@pytest.mark.parametrize(
    ("ranks", "fields", "expected"),
    [
        (2, {}, 4),
        (4, {}, 12),  # 8 or more, and a divisor of 12
        (4, batch(perProcess=4), 4),
        (2, batch(microbatches=3), 3),
        # a multiple of the rounds: 12 in 6 rounds, 4 in 2
        (2, {"pipeline": {"schedule": "interleaved1f1b"}}, 4),
    ],
)
def test_microbatches_are_about_twice_the_ranks_where_nothing_is_said(
    ranks: int, fields: dict[str, Any], expected: int
) -> None:
    given = training(**{"strategy": "pipeline", **LONG, **batch(), **fields})
    assert microbatches(given, Layout(pipeline=ranks)) == expected


@pytest.mark.parametrize(
    ("schedule", "ranks", "owners"),
    [
        ("1f1b", 3, [0, 1, 2]),
        ("loopedbfs", 2, [0, 1, 0, 1]),
        ("zbv", 3, [0, 1, 2, 2, 1, 0]),
        ("dualpipev", 2, [0, 1, 1, 0]),
    ],
)
def test_stages_go_round_the_ranks_or_there_and_back(schedule: str, ranks: int, owners: list[int]) -> None:
    given, mesh = training(strategy="pipeline", pipeline={"schedule": schedule}), Layout(pipeline=ranks)
    assert [stage_owner(given, mesh, stage) for stage in range(stages(given, mesh))] == owners
