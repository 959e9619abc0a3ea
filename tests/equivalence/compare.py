"""How far a run is from one process."""

from dataclasses import dataclass

import numpy as np
from dtj_api.layout import Ranks

from benchmarks.trainer.gang import Trace, run
from tests.equivalence.cases import Case


@dataclass(frozen=True)
class Difference:
    """The largest, each: of the losses of all steps (the validation loss too), of gradient norms (relative), of final
    parameters. `error`: it did not run."""

    loss: float = float("inf")
    norm: float = float("inf")
    parameters: float = float("inf")
    error: str = ""

    def within(self, case: Case) -> bool:
        found = (self.loss, self.norm, self.parameters)
        return not self.error and all(value <= bar for value, bar in zip(found, case.bars, strict=True))


class Comparison:
    """Remembers the traces of one process, which many cases share."""

    def __init__(self) -> None:
        self._alone: dict[str, Trace] = {}

    def of(self, case: Case) -> Difference:
        truth = self._truth(case)
        found = run(case.training, Ranks(case.world, case.local), double=case.double)
        if truth.error or found.error:
            return Difference(error=truth.error or found.error)
        return Difference(
            loss=_largest([*found.losses, found.validation], [*truth.losses, truth.validation]),
            norm=max(abs(a - b) / b for a, b in zip(found.norms, truth.norms, strict=True)),
            parameters=max(_largest(found.weights[name], weight) for name, weight in truth.weights.items()),
        )

    def _truth(self, case: Case) -> Trace:
        """The same steps by one process that has none of the case's ways, but for what changes the mathematics."""
        shared = {name: case.training[name] for name in ("optimizer",) if name in case.training}
        fields = {**shared, **case.reference}
        key = f"{case.double} {fields}"
        if key not in self._alone:
            self._alone[key] = run(fields, Ranks(1, 1), double=case.double)
        return self._alone[key]


def _largest(one: object, other: object) -> float:
    return float(np.abs(np.asarray(one) - np.asarray(other)).max())
