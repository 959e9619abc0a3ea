"""flops.py beside what is published: 6 N + 12 L W T operations a token (Kaplan et al. 2020; PaLM, appendix B)."""

import pytest

pytestmark = pytest.mark.torch


@pytest.mark.parametrize(("layers", "width", "length", "vocabulary"), [(12, 768, 1024, 50257), (2, 64, 128, 256)])
def test_a_gpt_computes_what_the_formula_says(layers: int, width: int, length: int, vocabulary: int) -> None:
    import torch
    from dtj_trainer.models.gpt import GPT
    from dtj_trainer.observe.flops import work

    def build() -> GPT:
        return GPT(layers=layers, width=width, heads=4, length=length, vocabulary=vocabulary)

    tokens = torch.zeros(3, length, dtype=torch.int64)
    found = work(build, tokens, torch.device("cpu"), 1, "fp32")
    assert found is not None
    with torch.device("meta"):
        # products only: norms and positions have none; the embedding is counted once, as the output layer
        weights = sum(
            p.numel() for name, p in build().named_parameters() if "norm" not in name and name != "positions.weight"
        )
    assert found.per_sample == (6 * weights + 12 * layers * width * length) * length
    assert found.utilisation(10.0) is None, "no peak is known of a CPU"


def test_utilisation_is_what_is_done_of_what_could_be() -> None:
    from dtj_trainer.observe.flops import Work

    # 400,000 tokens/s of GPT-2 124M at 1,024 on one H100: about 35 %
    per_sample = (6 * 123.6e6 + 12 * 12 * 768 * 1024) * 1024
    assert Work(per_sample, 989e12).utilisation(400_000 / 1024) == pytest.approx(0.346, abs=0.001)


def test_a_model_that_reads_its_values_is_not_counted() -> None:
    import torch
    from dtj_trainer.observe.flops import work

    class Reads(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * x.sum().item()

    assert work(Reads, torch.zeros(1, 2), torch.device("cpu"), 1, "bf16") is None


def test_utilisation_is_told_in_metric_and_progress() -> None:
    import io

    from dtj_api.fields import decode
    from dtj_api.layout import Layout
    from dtj_api.spec import RunConfig
    from dtj_trainer.observe.flops import Work
    from dtj_trainer.observe.log import Log
    from dtj_trainer.observe.observer import Observer

    training = {"model": {"name": "gpt"}, "data": {"text": "tinydocs"}, "steps": 2, "batch": {"perProcess": 1}}
    config = decode(RunConfig, {"training": training}, "")

    def observed(work: Work) -> Observer:
        observer = Observer(
            config=config, rank=0, layout=Layout(), tokens_per_sample=0, log=Log(0, io.StringIO()), run=None, work=work
        )
        observer.step(1)
        observer.logged(1, epoch=0, loss=1.0, gradient_norm=1.0, learning_rate=0.1)
        return observer

    told = observed(Work(per_sample=10.0, peak=1e6))
    samples = {sample.name: sample.value for family in told.metrics._registry.collect() for sample in family.samples}
    assert told.progress.mfu is not None
    assert samples["dtj_mfu"] == told.progress.mfu == told.progress.samples_per_second * 10.0 / 1e6  # type: ignore[operator]
    assert observed(Work(per_sample=10.0, peak=None)).progress.mfu is None
