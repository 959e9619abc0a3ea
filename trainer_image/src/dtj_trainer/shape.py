"""The shape of a model once its data are known: what is built, what a checkpoint records, what must match. No torch."""

import json
from dataclasses import dataclass, fields
from typing import Literal

from dtj_api.training import WITH_HEADS, Training, dimensions

# Field of ModelShape -> field of the manifest that decides it.
MANIFEST_FIELDS = {
    "name": "spec.training.model.name",
    "layers": "spec.training.model.dimensions.layers",
    "width": "spec.training.model.dimensions.width",
    "heads": "spec.training.model.dimensions.heads",
    "inputs": "spec.training.data.sequenceLength",
    "outputs": "spec.training.data.vocabularySize",
    "factory": "spec.training.model.import",
    "arguments": "spec.training.model.arguments",
}
# The same where the data have no such field.
WORDS = {
    (name, field): f"spec.training.data ({words})"
    for name in ("mlp", "vision")
    for field, words in {"inputs": "features", "outputs": "classes"}.items()
}


@dataclass(frozen=True)
class ModelShape:
    """Everything that decides the names and shapes of a model's weights.

    Attributes:
        layers, width, heads: 0 where the model has none, or is imported.
        inputs: tokens in a sequence or features of a sample.
        outputs: size of the vocabulary or classes.
        factory, arguments: of an imported model; the arguments as JSON.
    """

    name: Literal["gpt", "mlp", "vision", "import"]
    layers: int
    width: int
    heads: int
    inputs: int
    outputs: int
    factory: str | None = None
    arguments: str | None = None


def model_shape(training: Training, inputs: int, outputs: int) -> ModelShape:
    """The shape `training` asks for on data with so many inputs and outputs."""
    size, model = dimensions(training.model), training.model
    if size is None or model.name is None:
        words = json.dumps(model.arguments or {}, sort_keys=True)
        return ModelShape("import", 0, 0, 0, inputs, outputs, model.import_, words)
    heads = (size.heads or 0) if model.name in WITH_HEADS else 0
    return ModelShape(model.name, size.layers, size.width, heads, inputs, outputs)


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
