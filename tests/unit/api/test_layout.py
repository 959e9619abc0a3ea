"""layout.py and strategies.py: what a strategy comes to, and what cannot be."""

from typing import Any

import pytest
from dtj_api.fields import InvalidFields, decode
from dtj_api.layout import Layout, Ranks, layout
from dtj_api.training import Training
from dtj_api.validation import training_errors

PODS_OF_FOUR = Ranks(8, 4)


def training(**fields: Any) -> Training:
    base = {"model": {"name": "gpt"}, "data": {"text": "tinydocs"}, "steps": 1, "batch": {"perProcess": 1}}
    return decode(Training, {**base, **fields}, "spec.training")


def faults(ranks: Ranks = PODS_OF_FOUR, **fields: Any) -> list[str]:
    try:
        return [str(error) for error in training_errors(training(**fields), ranks, "spec.training")]
    except InvalidFields as error:
        return [str(each) for each in error.errors]


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
    ],
)
def test_strategy_and_world_size_make_the_mesh(fields: dict[str, Any], ranks: Ranks, expected: Layout) -> None:
    assert faults(ranks, **fields) == []
    assert layout(training(**fields), ranks) == expected
    assert expected.world_size == ranks.world


MESH = "spec.training.mesh"


@pytest.mark.parametrize(
    ("fields", "ranks", "fault"),
    [
        (
            {"mesh": {"shard": 2}},
            PODS_OF_FOUR,
            f"{MESH}.shard: strategy ddp has no such dimension; remove it, or set strategy: hsdp for shard 2",
        ),
        (
            {"mesh": {"replicate": 4}},
            PODS_OF_FOUR,
            f"{MESH}.replicate: is 4, but the job has 8 ranks; remove it: strategy ddp takes all of them",
        ),
        (
            {"strategy": "fsdp", "mesh": {"replicate": 2}},
            PODS_OF_FOUR,
            f"{MESH}.replicate: strategy fsdp has no such dimension; remove it, or set strategy: hsdp for replicate 2",
        ),
        (
            {"strategy": "fsdp", "mesh": {"shard": 4}},
            Ranks(1, 1),
            f"{MESH}.shard: is 4, but the job has 1 rank; remove it: strategy fsdp takes all of them",
        ),
        (
            {"strategy": "hsdp", "mesh": {"replicate": 2, "shard": 2}},
            PODS_OF_FOUR,
            f"{MESH}: replicate 2 x shard 2 is not 8, the number of ranks; change it, or the number of ranks",
        ),
        (
            {"strategy": "hsdp", "mesh": {"shard": 3}},
            PODS_OF_FOUR,
            f"{MESH}: shard 3 does not divide 8, the number of ranks; change it, or the number of ranks",
        ),
        (
            {"strategy": "hsdp"},
            Ranks(8, 1),
            f"{MESH}: names neither replicate nor shard, and pods of one process, or a single pod, suggest none; "
            "set shard to a divisor of 8, the number of ranks",
        ),
        (
            {"strategy": "fsdp", "fsdp": {"reshardTo": 3}},
            PODS_OF_FOUR,
            "spec.training.fsdp.reshardTo: 3 is no proper divisor of 8, the ranks of one copy; choose one of: 2, 4",
        ),
        (
            {"strategy": "fsdp", "fsdp": {"reshardTo": 2}},
            Ranks(3, 1),
            "spec.training.fsdp.reshardTo: 2 is no proper divisor of 3, the ranks of one copy; "
            "remove it: there is none",
        ),
        (
            {"strategy": "hsdp", "mesh": {"replicate": 16}, "fsdp": {"reshardTo": 2}},
            PODS_OF_FOUR,
            f"{MESH}: replicate 16 does not divide 8, the number of ranks; change it, or the number of ranks",
        ),
        (
            {"mesh": {"shard": 3}},
            PODS_OF_FOUR,
            f"{MESH}.shard: strategy ddp has no such dimension; remove it",
        ),
        (
            {"strategy": "hsdp"},
            Ranks(1, 1),
            f"{MESH}: there is 1 rank, and nothing to lay out; set strategy: ddp, or add workers",
        ),
        (
            {"strategy": "fsdp", "fsdp": {"cpuOffload": True}},
            Ranks(1, 1),
            "spec.training.fsdp.cpuOffload: needs 2 ranks at least, and there is 1; remove it, or add workers",
        ),
        (
            {"precision": {"reduce": "bf16"}},
            PODS_OF_FOUR,
            "spec.training.precision.reduce: strategy ddp reduces gradients in the format of its parameters, fp32; "
            "remove it, or set ddp.compression: bf16, or strategy: fsdp",
        ),
        (
            {"precision": {"params": "bf16", "compute": "bf16", "reduce": "fp32"}},
            PODS_OF_FOUR,
            "spec.training.precision.reduce: strategy ddp reduces gradients in the format of its parameters, bf16; "
            "remove it, or set params: fp32, or strategy: fsdp",
        ),
        (
            {"precision": {"compute": "fp16"}, "ddp": {"compression": "powersgd"}},
            PODS_OF_FOUR,
            "spec.training.precision.compute: one overflow would stay in what powersgd keeps for later steps; "
            "set compute: bf16, or ddp.compression: fp16",
        ),
        (
            {"ddp": {"compressionRatio": 0.5}},
            PODS_OF_FOUR,
            "spec.training.ddp.compressionRatio: is for compression topk, not none; "
            "remove it, or set compression: topk",
        ),
        (
            {"strategy": "fsdp", "fsdp": {"reshardTo": 2, "reshardAfterForward": False}},
            PODS_OF_FOUR,
            "spec.training.fsdp.reshardTo: is set, but reshardAfterForward is false; remove one of them",
        ),
        (
            {"fsdp": {"cpuOffload": True}},
            PODS_OF_FOUR,
            "spec.training.fsdp: is for strategy fsdp and hsdp, not ddp; remove it, or set strategy: fsdp",
        ),
        (
            {"strategy": "fsdp", "ddp": {"bucketMb": 1}},
            PODS_OF_FOUR,
            "spec.training.ddp: is for strategy ddp, not fsdp; remove it, or set strategy: ddp",
        ),
        (
            {"ddp": {"staticGraph": True, "findUnusedParameters": True}},
            PODS_OF_FOUR,
            "spec.training.ddp.findUnusedParameters: is set beside staticGraph, which finds them itself; "
            "remove one of them",
        ),
        (
            {"strategy": "fsdp", "fsdp": {"minParameters": 5}},
            PODS_OF_FOUR,
            "spec.training.fsdp.minParameters: is only for wrap: size; remove it, or set wrap: size",
        ),
        (
            {"precision": {"params": "bf16", "compute": "fp16"}},
            PODS_OF_FOUR,
            "spec.training.precision.compute: fp16 needs a loss scale, which does not fit bf16 parameters; "
            "set compute: bf16, or params: fp32",
        ),
    ],
)
def test_what_cannot_be_is_told_with_the_nearest_alternative(fields: dict[str, Any], ranks: Ranks, fault: str) -> None:
    assert faults(ranks, **fields) == [fault]


def test_a_mesh_that_cannot_be_says_nothing_of_the_batch() -> None:
    assert len(faults(strategy="hsdp", mesh={"shard": 3}, batch={"global": 7})) == 1
