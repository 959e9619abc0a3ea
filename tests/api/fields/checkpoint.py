"""Rows of spec.checkpoint that are seen on the claim, its mount or the trainer's configuration."""

from typing import Any

from tests.api.fields.rows import (
    Children,
    ChildRow,
    Look,
    Row,
    checkpoint_mount,
    claim,
    claim_used,
    config,
    environment,
    nest,
)

# made before the rows run
CLAIMS = ("claim-a", "claim-b")


def where(children: Children) -> Any:
    return (
        environment("DTJ_CHECKPOINT_DIR")(children)[0],
        checkpoint_mount(children)["mountPath"],
        config("checkpoint.directory")(children),
    )


def of_claim(name: str) -> Look:
    return lambda children: claim(children)["spec"].get(name)


def stored(name: str, value: Any, *, wrong: Any, says: str, look: Look, shows: Any = None, anew: bool = False) -> Row:
    path = f"checkpoint.{name}"
    return ChildRow(
        path=path,
        valid=nest(path, value),
        invalid=nest(path, wrong),
        says=says,
        given={"checkpoint": {"size": "1Gi"}},
        look=look,
        shows=value if shows is None else shows,
        anew=anew,
    )


ROWS: list[Row] = [
    ChildRow(
        path="checkpoint.claimName",
        given={"checkpoint": {"claimName": CLAIMS[0]}},
        valid={"checkpoint": {"claimName": CLAIMS[1]}},
        invalid={"checkpoint": {"claimName": "Claim_B"}},
        says=r"checkpoint\.claimName.*should match",
        look=claim_used,
        shows=CLAIMS[1],
    ),
    stored(
        "size",
        "2Gi",
        wrong="lots",
        says=r"checkpoint\.size.*should match",
        look=of_claim("resources"),
        shows={"requests": {"storage": "2Gi"}},
        anew=True,
    ),
    stored(
        "storageClassName",
        "fast",
        wrong="Fast",
        says="storageClassName.*should match",
        look=of_claim("storageClassName"),
        anew=True,
    ),
    stored(
        "accessModes",
        ["ReadWriteMany"],
        wrong=["ReadOnlyMany"],
        says='Unsupported value: "ReadOnlyMany"',
        look=of_claim("accessModes"),
        anew=True,
    ),
    stored(
        "mountPath",
        "/mnt/runs",
        wrong="/tmp",
        says=r"spec\.checkpoint\.mountPath: '/tmp' cannot be used; write an absolute path",
        look=where,
        shows=("/mnt/runs",) * 3,
    ),
    stored(
        "subPath",
        "runs/gpt",
        wrong="../other",
        says=r"spec\.checkpoint\.subPath: '\.\./other' leads out of the volume",
        look=lambda children: checkpoint_mount(children).get("subPath"),
    ),
    stored(
        "everySteps", 5, wrong=0, says="everySteps.*greater than or equal to 1", look=config("checkpoint.everySteps")
    ),
    stored(
        "everySeconds",
        60,
        wrong=0,
        says="everySeconds.*greater than or equal to 1",
        look=config("checkpoint.everySeconds"),
    ),
    stored("keepLast", 1, wrong=0, says="keepLast.*greater than or equal to 1", look=config("checkpoint.keepLast")),
    stored(
        "resume",
        "never",
        wrong="latest",
        says='must be "auto", "never" or the number of a step',
        look=config("checkpoint.resume"),
    ),
]
