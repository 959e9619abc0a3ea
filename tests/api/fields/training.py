"""Rows of spec.training: the trainer is told what the job says."""

from typing import Any

from tests.api.fields.rows import ChildRow, Row, config, joined, nest
from tests.api.harness import Object

DIMENSIONS: Object = {"training": {"model": {"size": None, "dimensions": {"layers": 2, "width": 64, "heads": 4}}}}
TOKENS: Object = {"training": {"data": {"text": None, "tokens": "/data/train.bin", "vocabularySize": 50257}}}
IMAGES: Object = {"training": {"model": {"name": "mlp"}, "data": {"text": None, "images": "digits"}}}
SHARDED: Object = {"training": {"strategy": "fsdp"}}
TOPK: Object = {"training": {"ddp": {"compression": "topk"}}}
HSDP: Object = {"training": {"strategy": "hsdp", "mesh": {"shard": 1}}}
TENSOR: Object = {"training": {"strategy": "tensor"}}
PIPELINE: Object = {"training": {"strategy": "pipeline"}}
FOUR_LAYERS: Object = {"training": {"model": {"size": None, "dimensions": {"layers": 4, "width": 64, "heads": 4}}}}


def told(
    path: str, value: Any, *, wrong: Any, says: str, given: Object | None = None, beside: Object | None = None
) -> Row:
    """The field's value, and what goes with it in `beside`, are found in DTJ_CONFIG."""
    path = f"training.{path}"
    return ChildRow(
        path=path,
        valid=joined(nest(path, value), beside or {}),
        invalid=nest(path, wrong),
        says=says,
        given=given or {},
        look=config(path),
        shows=value,
    )


ROWS: list[Row] = [
    told("model.name", "mlp", wrong="gtp", says="did you mean gpt|Unsupported value", beside=IMAGES),
    told(
        "model.import",
        "my_models.llama:build",
        wrong="my_models.llama",
        says=r"import.*should match|'my_models.llama' is not package.module:function",
        beside={"training": {"model": {"name": None, "size": None}}},
    ),
    told(
        "model.arguments",
        {"layers": 4},
        wrong=[4],
        says="must be of type object",
        given={"training": {"model": {"name": None, "size": None, "import": "my_models:build"}}},
    ),
    told(
        "model.size",
        "mini",
        wrong="huge",
        says=r"training\.model\.size: 'huge' is not a size of gpt; choose one of: tiny",
    ),
    told("model.dimensions.layers", 3, wrong=0, says="layers.*greater than or equal to 1", given=DIMENSIONS),
    told(
        "model.dimensions.width", 128, wrong=63, says=r"width: 63 does not divide by heads \(4\); use", given=DIMENSIONS
    ),
    told("model.dimensions.heads", 8, wrong=2000, says="heads.*less than or equal to 1024", given=DIMENSIONS),
    told(
        "data.text",
        "/data/books",
        wrong="books",
        says=r"data\.text: 'books' is unknown; write tinydocs, or an absolute",
    ),
    told(
        "data.tokens", "/data/x.npy", wrong="x.npy", says=r"data\.tokens: 'x.npy' is not an absolute path", given=TOKENS
    ),
    told("data.images", "digits", wrong="cats", says='Unsupported value: "cats"', beside=IMAGES),
    told("data.sequenceLength", 64, wrong=0, says="sequenceLength.*greater than or equal to 1"),
    told("data.vocabularySize", 1000, wrong=1, says="vocabularySize.*greater than or equal to 2", given=TOKENS),
    told("data.validationFraction", 0.25, wrong=1, says="validationFraction.*less than 1"),
    told("steps", 20, wrong=0, says="steps.*greater than or equal to 1"),
    told("batch.global", 16, wrong=7, says=r"batch\.global: 7 does not divide by 2 .*use a multiple of 2, such as 8"),
    told(
        "batch.perProcess",
        4,
        wrong=4,
        says="has both global and perProcess; set exactly one",
        beside={"training": {"batch": {"global": None}}},
    ),
    told("batch.accumulation", 2, wrong=3, says=r"8 does not divide by 6 \(2 processes x accumulation 3\)"),
    told("optimizer.name", "sgd", wrong="adam", says="Unsupported value|did you mean adamw"),
    told("optimizer.learningRate", 0.01, wrong=0, says="learningRate.*greater than 0"),
    told("optimizer.weightDecay", 0.01, wrong=-1, says="weightDecay.*greater than or equal to 0"),
    told("optimizer.betas", [0.8, 0.99], wrong=[0.9], says="betas.*at least 2 items"),
    told("optimizer.gradClip", 1.5, wrong=0, says="gradClip.*greater than 0"),
    told("evaluate.everySteps", 5, wrong=-1, says=r"evaluate\.everySteps.*greater than or equal to 0"),
    told("evaluate.batches", 4, wrong=-1, says=r"evaluate\.batches.*greater than or equal to 0"),
    told("log.everySteps", 2, wrong=0, says=r"log\.everySteps.*greater than or equal to 1"),
    told("seed", 7, wrong=-1, says="seed.*greater than or equal to 0"),
    told("timeoutSeconds", 60, wrong="long", says='timeoutSeconds.*must be of type integer: "string"'),
    told("strategy", "fsdp", wrong="dpp", says='Unsupported value: "dpp"'),
    told(
        "mesh.replicate",
        2,
        wrong=3,
        says="mesh: replicate 3 does not divide 2, the number of ranks",
        given={"training": {"strategy": "hsdp", "mesh": {"replicate": 1}}},
    ),
    told("mesh.shard", 2, wrong=3, says="mesh: shard 3 does not divide 2, the number of ranks", given=HSDP),
    told(
        "mesh.tensor",
        2,
        wrong=3,
        says="mesh: tensor 3 does not divide 2, the number of ranks",
        given={"training": {"strategy": "hybrid", "mesh": {"tensor": 1}}},
    ),
    told(
        "mesh.pipeline",
        2,
        wrong=3,
        says="mesh: pipeline 3 does not divide 2, the number of ranks",
        given={"training": {"strategy": "hybrid", "mesh": {"pipeline": 1}}},
    ),
    told("tensor.sequenceParallel", True, wrong="yes", says="sequenceParallel.*must be of type boolean", given=TENSOR),
    told("tensor.lossParallel", True, wrong="yes", says="lossParallel.*must be of type boolean", given=TENSOR),
    told(
        "pipeline.schedule",
        "interleaved1f1b",
        wrong="2f2b",
        says='Unsupported value: "2f2b"',
        given=joined(PIPELINE, FOUR_LAYERS),
    ),
    told(
        "pipeline.stagesPerRank",
        1,
        wrong=2,
        says="stagesPerRank: is 2, but schedule 1f1b wants 1 on each rank; set 1, or schedule: ",
        given=PIPELINE,
    ),
    told(
        "pipeline.split",
        [1, 1],
        wrong=[2, 1],
        says="split: has 2 stages of 3 blocks; name 2 stages of 2 blocks together, or remove it",
        given=PIPELINE,
    ),
    told(
        "batch.microbatches",
        4,
        wrong=3,
        says="microbatches: 3 does not divide the 8 samples of a pass; choose one of: 2, 4, 8",
        given=PIPELINE,
    ),
    told("ddp.bucketMb", 50, wrong=0, says="bucketMb.*greater than or equal to 1"),
    told(
        "ddp.staticGraph",
        True,
        wrong=True,
        says="staticGraph: does not go with batch.accumulation.*remove it",
        beside={"training": {"batch": {"accumulation": 1}}},
        given={"training": {"batch": {"accumulation": 2}}},
    ),
    told("ddp.findUnusedParameters", True, wrong="yes", says="findUnusedParameters.*must be of type boolean"),
    told("ddp.gradientAsBucketView", False, wrong="no", says="gradientAsBucketView.*must be of type boolean"),
    told("ddp.compression", "fp16", wrong="zip", says='Unsupported value: "zip"'),
    told("ddp.compressionRatio", 0.01, wrong=0, says="compressionRatio.*greater than 0", given=TOPK),
    told(
        "ddp.compressionRank",
        4,
        wrong=0,
        says="compressionRank.*greater than or equal to 1",
        given={"training": {"ddp": {"compression": "powersgd"}}},
    ),
    told("ddp.compressionWarmupSteps", 50, wrong=-1, says="WarmupSteps.*greater than or equal to 0", given=TOPK),
    told("fsdp.wrap", "size", wrong="all", says='Unsupported value: "all"', given=SHARDED),
    told(
        "fsdp.minParameters",
        500000,
        wrong=0,
        says="minParameters.*greater than or equal to 1",
        given={"training": {"strategy": "fsdp", "fsdp": {"wrap": "size"}}},
    ),
    told("fsdp.reshardAfterForward", False, wrong=2, says="must be of type boolean", given=SHARDED),
    told(
        "fsdp.reshardTo",
        2,
        wrong=3,
        says=r"reshardTo: 3 is no proper divisor of 4",
        given={"processesPerWorker": 4, **SHARDED},
    ),
    told("fsdp.cpuOffload", True, wrong="yes", says="cpuOffload.*must be of type boolean", given=SHARDED),
    told("fsdp.forwardPrefetch", 1, wrong=-1, says="forwardPrefetch.*greater than or equal to 0", given=SHARDED),
    told("fsdp.backwardPrefetch", 2, wrong=65, says="backwardPrefetch.*less than or equal to 64", given=SHARDED),
    told(
        "precision.params",
        "bf16",
        wrong="bf16",
        says="compute: is fp32, with parameters of bf16; set compute: bf16",
        beside={"training": {"precision": {"compute": "bf16"}}},
    ),
    told("precision.compute", "bf16", wrong="int8", says='Unsupported value: "int8"'),
    told(
        "precision.reduce",
        "bf16",
        wrong="bf16",
        says="reduce: strategy ddp reduces gradients in the format of its parameters, fp32; remove it, or set ddp.comp",
        beside=SHARDED,
    ),
    told("activationCheckpointing", "selective", wrong="some", says='Unsupported value: "some"'),
]
