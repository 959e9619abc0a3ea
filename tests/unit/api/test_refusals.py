"""layout.py, partition.py and strategies.py: what cannot be is told with the nearest alternative."""

from typing import Any

import pytest
from dtj_api.layout import Ranks

from tests.unit.api.strategies import IMAGES, PIPELINE, PODS_OF_FOUR, batch, faults

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
            "spec.training.fsdp.cpuOffload: needs 2 ranks that share a part of the model at least, and there is 1; "
            "remove it, or add workers",
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
            "spec.training.fsdp: is for strategy fsdp, hsdp and hybrid, not ddp; remove it, or set strategy: fsdp",
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
        (
            {"strategy": "tensor", "mesh": {"tensor": 2}},
            PODS_OF_FOUR,
            f"{MESH}.tensor: is 2, but the job has 8 ranks; remove it: strategy tensor takes all of them, "
            "or set strategy: hybrid",
        ),
        (
            {"mesh": {"tensor": 2}},
            PODS_OF_FOUR,
            f"{MESH}.tensor: strategy ddp has no such dimension; remove it, or set strategy: hybrid for tensor 2",
        ),
        (
            {"strategy": "hybrid"},
            PODS_OF_FOUR,
            f"{MESH}: names neither tensor nor pipeline; name one, or set strategy: hsdp, or fsdp",
        ),
        (
            {"strategy": "hybrid", "mesh": {"tensor": 2, "pipeline": 3}},
            PODS_OF_FOUR,
            f"{MESH}: tensor 2 x pipeline 3 does not divide 8, the number of ranks; change it, or the number of ranks",
        ),
        (
            {"strategy": "tensor"},
            Ranks(3, 3),
            f"{MESH}.tensor: 3 ranks do not divide the 4 attention heads; choose one of: 2, 4, or other heads",
        ),
        (
            {"strategy": "tensor", "model": {"name": "mlp", "dimensions": {"layers": 2, "width": 9}}, **IMAGES},
            Ranks(2, 2),
            f"{MESH}.tensor: 2 ranks do not divide the width of 9; choose a divisor, or another width",
        ),
        (
            {
                "strategy": "tensor",
                "tensor": {"sequenceParallel": True},
                "data": {"text": "tinydocs", "sequenceLength": 9},
            },
            Ranks(2, 2),
            "spec.training.data.sequenceLength: 9 does not divide by 2 ranks; "
            "use a multiple of 2, or set tensor.sequenceParallel: false",
        ),
        (
            {
                "strategy": "tensor",
                "tensor": {"lossParallel": True},
                "model": {"name": "mlp", "dimensions": {"layers": 2, "width": 8}},
                **IMAGES,
            },
            Ranks(2, 2),
            "spec.training.tensor: is for gpt, not mlp; remove it",
        ),
        (
            {"strategy": "tensor", "precision": {"reduce": "bf16"}},
            Ranks(2, 2),
            "spec.training.precision.reduce: strategy tensor has one copy of the model, and no gradients to reduce; "
            "remove it",
        ),
        (
            {"tensor": {"lossParallel": True}},
            PODS_OF_FOUR,
            "spec.training.tensor: is for strategy tensor and hybrid, not ddp; remove it, or set strategy: tensor",
        ),
        (
            {"strategy": "pipeline", "batch": {"perProcess": 12}},
            Ranks(4, 1),
            f"{MESH}.pipeline: 4 stages (4 ranks x 1 each) are more than the 2 blocks of the model; "
            "use fewer ranks or stages, or a model of more layers",
        ),
        (
            {**PIPELINE, "pipeline": {"schedule": "interleaved1f1b", "stagesPerRank": 8}},
            Ranks(2, 1),
            f"{MESH}.pipeline: 16 stages (2 ranks x 8 each) are more than the 12 blocks of the model; "
            "use fewer ranks or stages, or a model of more layers",
        ),
        (
            {**PIPELINE, "pipeline": {"schedule": "zbv", "stagesPerRank": 1}},
            Ranks(2, 1),
            "spec.training.pipeline.stagesPerRank: is 1, but schedule zbv wants 2 on each rank; "
            "set 2, or schedule: gpipe or 1f1b",
        ),
        (
            {**PIPELINE, "pipeline": {"split": [6, 7]}},
            Ranks(2, 1),
            "spec.training.pipeline.split: has 2 stages of 13 blocks; "
            "name 2 stages of 12 blocks together, or remove it",
        ),
        (
            {**PIPELINE, **batch(microbatches=2)},
            Ranks(4, 1),
            "spec.training.batch.microbatches: 2 is fewer than the 4 ranks of the pipeline, which would never all have "
            "work; choose one of: 4, 6, 12",
        ),
        (
            {**PIPELINE, **batch(microbatches=5)},
            Ranks(4, 1),
            "spec.training.batch.microbatches: 5 does not divide the 12 samples of a pass; choose one of: 4, 6, 12",
        ),
        (
            {**PIPELINE, **batch(microbatches=6), "pipeline": {"schedule": "dualpipev"}},
            Ranks(4, 1),
            "spec.training.batch.microbatches: 6 is fewer than the 8 stages, which would never all have work; "
            "choose one of: 12",
        ),
        (
            {**PIPELINE, "batch": {"perProcess": 15, "microbatches": 5}, "pipeline": {"schedule": "interleaved1f1b"}},
            Ranks(2, 1),
            "spec.training.batch.microbatches: schedule interleaved1f1b takes no 5 microbatches on 2 ranks; "
            "choose one of: 3",
        ),
        (
            {**PIPELINE, "batch": {"perProcess": 2}},
            Ranks(4, 1),
            "spec.training.batch.perProcess: gives each pass 2 samples, which make no 4 microbatches or more that are "
            "alike; a pipeline of 4 ranks wants 4 samples in each pass, or a multiple",
        ),
        (
            batch(microbatches=4),
            PODS_OF_FOUR,
            "spec.training.batch.microbatches: is only for pipelines; remove it, or set accumulation",
        ),
        (
            {**PIPELINE, "pipeline": {"schedule": "zbv"}, "activationCheckpointing": "selective"},
            Ranks(2, 1),
            "spec.training.activationCheckpointing: torch cannot split the backward pass of it, as schedule zbv does; "
            "set full, or schedule: interleaved1f1b",
        ),
        (
            {
                **PIPELINE,
                "strategy": "hybrid",
                "mesh": {"pipeline": 2},
                "pipeline": {"schedule": "zbv"},
                "fsdp": {"reshardAfterForward": True},
            },
            Ranks(4, 1),
            "spec.training.fsdp.reshardAfterForward: gives wrong gradients with schedule zbv (torch 2.15); "
            "remove it, or set schedule: interleaved1f1b",
        ),
        (
            {"strategy": "tensor", "mesh": {"shard": 2}},
            PODS_OF_FOUR,
            f"{MESH}.shard: strategy tensor has no such dimension; "
            "remove it, or set strategy: hybrid for shard 2 and tensor 4",
        ),
        (
            {"strategy": "pipeline", "batch": {"perProcess": 4, "microbatches": 2}},
            Ranks(1, 1),
            "spec.training.batch.microbatches: is for pipelines, and 1 rank makes none; remove it, or add workers",
        ),
        (
            {"strategy": "tensor", "data": {"tokens": "/t.npy", "vocabularySize": 3}},
            Ranks(4, 4),
            f"{MESH}.tensor: 4 ranks cannot each have a part of a vocabulary of 3; use fewer, or a larger vocabulary",
        ),
        (
            {"strategy": "hybrid", "mesh": {"tensor": 2}, "pipeline": {"schedule": "zbv"}},
            PODS_OF_FOUR,
            "spec.training.pipeline: is given, but mesh has no pipeline; remove it, or change mesh",
        ),
        (
            {"strategy": "hybrid", "mesh": {"tensor": 4, "replicate": 1}, "precision": {"reduce": "fp16"}},
            Ranks(4, 4),
            "spec.training.precision.reduce: is given, but mesh has no replicate or shard; remove it, or change mesh",
        ),
        (
            {"model": {"name": "gpt", "import": "a:b"}},
            PODS_OF_FOUR,
            "spec.training.model: has both name and import; "
            "set name for one of the trainer's models, import for your own",
        ),
        (
            {"model": {"import": "a:b", "size": "tiny"}},
            PODS_OF_FOUR,
            "spec.training.model.size: is only for name; remove it",
        ),
        (
            {"model": {"name": "gpt", "arguments": {"layers": 2}}},
            PODS_OF_FOUR,
            "spec.training.model.arguments: is only for import; remove it",
        ),
        (
            {"model": {"import": "models.py"}},
            PODS_OF_FOUR,
            "spec.training.model.import: 'models.py' is not package.module:function; write package.module:function",
        ),
    ],
)
def test_what_cannot_be_is_told_with_the_nearest_alternative(fields: dict[str, Any], ranks: Ranks, fault: str) -> None:
    assert faults(ranks, **fields) == [fault]


def test_a_mesh_that_cannot_be_says_nothing_of_the_batch() -> None:
    assert len(faults(strategy="hsdp", mesh={"shard": 3}, batch={"global": 7})) == 1
