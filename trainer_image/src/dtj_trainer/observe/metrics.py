"""Prometheus metrics of one rank; the pod's supervisor serves them (prometheus_client's multiprocess mode)."""

import os
from collections.abc import Mapping

from dtj_api import environment
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

LABELS = ("job", "namespace", "rank")
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SAVE_SECONDS = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Metrics:
    """Label children are made once: looking one up costs three times an update."""

    def __init__(
        self,
        rank: int,
        *,
        tokens: bool,
        saves: bool,
        compresses: bool,
        mfu: bool,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._registry = CollectorRegistry()
        self._values = (environ.get(environment.JOB, ""), environ.get(environment.NAMESPACE, ""), str(rank))
        self.step = self._gauge("dtj_step", "Optimizer steps done")
        self.loss = self._gauge("dtj_loss", "Training loss at the last logged step, mean over ranks")
        self.eval_loss = self._gauge("dtj_eval_loss", "Validation loss at the last evaluation")
        self.learning_rate = self._gauge("dtj_learning_rate", "Learning rate of the last logged step")
        self.gradient_norm = self._gauge("dtj_gradient_norm", "Global gradient norm before clipping, last logged step")
        self.last_step = self._gauge("dtj_last_step_timestamp_seconds", "When the last step ended, Unix time")
        self.samples = self._counter("dtj_samples", "Training samples this rank has read")
        self.step_seconds = self._histogram("dtj_step_seconds", "Wall time of an optimizer step", SECONDS)
        self.tokens = self._counter("dtj_tokens", "Training tokens this rank has read") if tokens else None
        self.mfu = self._gauge("dtj_mfu", "Part of the devices' peak, last logged step") if mfu else None
        self.gradient_bytes = self.gradient_bytes_saved = None
        if compresses:
            self.gradient_bytes = self._counter("dtj_gradient_bytes", "Bytes of gradients this rank has given away")
            self.gradient_bytes_saved = self._counter("dtj_gradient_bytes_saved", "What compression has spared of them")
        self.checkpoint_seconds = self.checkpoint_step = None
        if saves:
            self.checkpoint_seconds = self._histogram("dtj_checkpoint_seconds", "Wall time of a save", SAVE_SECONDS)
            self.checkpoint_step = self._gauge("dtj_checkpoint_step", "Step of the newest checkpoint")

    def _gauge(self, name: str, words: str) -> Gauge:
        gauge = Gauge(name, words, LABELS, registry=self._registry, multiprocess_mode="mostrecent")
        return gauge.labels(*self._values)

    def _counter(self, name: str, words: str) -> Counter:
        return Counter(name, words, LABELS, registry=self._registry).labels(*self._values)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, words, LABELS, registry=self._registry, buckets=buckets).labels(*self._values)
