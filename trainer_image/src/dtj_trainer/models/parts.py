"""What pipeline and tensor parallelism must be told of a model: names of its parts. It changes nothing in the model.

Names are those of `named_modules()`; `*` stands for any number of characters (fnmatch).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Parts:
    """A model that computes `head(block(...block(embed(inputs))))`. A model has it as its attribute `parts`.

    Attributes:
        blocks: the nn.ModuleList or nn.Sequential whose entries are called one after the other, each with the answer of
            the one before.
        embed: inputs to the first block's input, as a function of model and inputs; None where they are the same.
        head: the last block's answer to logits, likewise.
        before, after: modules and parameters that embed and head use. One that both use is tied.
        column: linear layers whose outputs are split between ranks. Their inputs are whole.
        row: linear layers whose inputs are so split, and whose results are summed over the ranks.
        vocabulary: embeddings that are split by tokens.
        output: the linear layer that makes the logits, to be split by classes.
        tokenwise: modules outside of column and row that treat each token alike, such as norms: under sequence
            parallelism each rank computes its own tokens only.
        positions: embeddings of positions, called with (T,): under sequence parallelism each rank keeps its own.
    """

    blocks: str
    embed: Callable[[Any, Tensor], Tensor] | None = None
    head: Callable[[Any, Tensor], Tensor] | None = None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    column: tuple[str, ...] = ()
    row: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    output: str | None = None
    tokenwise: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()
