"""A sample of `make equivalence`: each strategy, several numbers of ranks."""

from typing import TYPE_CHECKING

import pytest

from tests.equivalence.cases import Case, cases

if TYPE_CHECKING:
    from tests.equivalence.compare import Comparison

pytestmark = pytest.mark.torch

SAMPLE = {
    ("ddp", 3), ("ddp", 8), ("ddp, fp32", 4), ("ddp, accumulation", 2), ("ddp, clipped", 4),
    ("ddp, selective recomputation", 2), ("ddp, bf16", 2), ("ddp, fp16", 2),
    ("ddp, topk of all entries", 3), ("ddp, exchanged in bf16", 2), ("ddp, powersgd of rank 16", 2),
    ("fsdp", 3), ("fsdp, fp32", 4), ("fsdp, wrapped by size", 2), ("fsdp, resharded to 2", 4),
    ("fsdp, accumulation", 2), ("fsdp, full recomputation", 2), ("fsdp, bf16", 2),
    ("hsdp, 2 x 4", 8), ("hsdp, 2 x 2, accumulation", 4),
    ("tensor, 3 heads, loss by classes", 3), ("tensor, by tokens and classes", 2), ("tensor, bf16", 2),
    ("tensor, clipped, selective, accumulation", 2),
    ("pipeline, 1f1b", 3), ("pipeline, gpipe, bf16", 2), ("pipeline, loopedbfs", 2), ("pipeline, interleaved1f1b", 3),
    ("pipeline, zerobubble, clipped, full, accumulation", 2), ("pipeline, zbv", 2), ("pipeline, dualpipev", 2),
    ("hybrid, shard 2 x tensor 2, by tokens and classes", 4), ("hybrid, replicate 2 x tensor 2", 4),
    ("hybrid, shard 2 x pipeline 2, zbv", 4), ("hybrid, shard 2 x tensor 2 x pipeline 2", 8),
    ("mlp, tensor, clipped", 3), ("mlp, pipeline, clipped", 3),
}  # fmt: skip
CHOSEN = [case for case in cases() if (case.name, case.world) in SAMPLE]


def test_the_sample_is_of_cases() -> None:
    assert {(case.name, case.world) for case in CHOSEN} == SAMPLE


@pytest.fixture(scope="module")
def comparison() -> "Comparison":
    from tests.equivalence.compare import Comparison

    return Comparison()


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: f"{case.name} x {case.world}")
def test_ranks_compute_what_one_process_does(case: Case, comparison: "Comparison") -> None:
    difference = comparison.of(case)
    assert difference.within(case), difference


def test_tied_weights_whose_gradients_are_not_summed_are_beyond_the_bars(
    comparison: "Comparison", monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtj_trainer.parallel.pipeline import Ties

    monkeypatch.setattr(Ties, "sum_gradients", lambda self: None)
    assert not comparison.of(Case("pipeline, untied", {"strategy": "pipeline"})).within(Case("", {}))


def test_gradients_that_are_not_exchanged_are_beyond_the_bars(
    comparison: "Comparison", monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtj_trainer.parallel.ddp import DataParallel

    monkeypatch.setattr(DataParallel, "exchange", lambda self, last: self._called.no_sync())
    case = Case("ddp, each for itself", {})
    found = comparison.of(case)
    assert not found.within(case)
    assert found.parameters > 1e-3
