"""The shape of a model once its data are known: what is built, what a checkpoint records, what must match. No torch."""

from dataclasses import dataclass, fields
from typing import Literal

from dtj_api.training import Training, dimensions

# Field of ModelShape -> field of the manifest that decides it.
MANIFEST_FIELDS = {
    "name": "spec.training.model.name",
    "layers": "spec.training.model.dimensions.layers",
    "width": "spec.training.model.dimensions.width",
    "heads": "spec.training.model.dimensions.heads",
    "inputs": "spec.training.data.sequenceLength",
    "outputs": "spec.training.data.vocabularySize",
}
# The same where the data have no such field.
WORDS = {("mlp", "inputs"): "spec.training.data (features)", ("mlp", "outputs"): "spec.training.data (classes)"}


@dataclass(frozen=True)
class ModelShape:
    """Everything that decides the names and shapes of a model's weights.

    Attributes:
        heads: attention heads; 0 for mlp.
        inputs: tokens in a sequence (gpt) or features of a sample (mlp).
        outputs: size of the vocabulary (gpt) or classes (mlp).
    """

    name: Literal["gpt", "mlp"]
    layers: int
    width: int
    heads: int
    inputs: int
    outputs: int


def model_shape(training: Training, inputs: int, outputs: int) -> ModelShape:
    """The shape `training` asks for on data with so many inputs and outputs."""
    size = dimensions(training.model)
    heads = (size.heads or 0) if training.model.name == "gpt" else 0
    return ModelShape(training.model.name, size.layers, size.width, heads, inputs, outputs)


def differences(have: ModelShape, want: ModelShape, source: str) -> list[str]:
    """One phrase for each field in which a checkpoint at `source` differs from the job; [] where they match."""
    found = []
    for each in fields(ModelShape):
        theirs, ours = getattr(have, each.name), getattr(want, each.name)
        if theirs != ours:
            where = WORDS.get((want.name, each.name), MANIFEST_FIELDS[each.name])
            found.append(f"{where}: checkpoint {source} has {theirs}, the job asks for {ours}")
    # Of two kinds of model nothing else can be compared
    return found[:1] if have.name != want.name else found
