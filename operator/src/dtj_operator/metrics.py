"""What the operator tells Prometheus of itself: names and labels are bounded, and listed in docs/reference/metrics.md.

Gauges are read at the scrape from where the truth is, so none can be stale.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.core import GaugeMetricFamily

from dtj_operator.errors import Conflict, Unavailable
from dtj_operator.workqueue import Age

T = TypeVar("T")

PREFIX = "dtj_operator"
# from a call answered at once to an API server that is hardly there
SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

# one more series for each, which says when the process began
disable_created_metrics()  # type: ignore[no-untyped-call]
REGISTRY = CollectorRegistry()
RECONCILES = Counter(f"{PREFIX}_reconciles", "Looks at a job, by how they ended.", ["result"], registry=REGISTRY)
RECONCILE_SECONDS = Histogram(
    f"{PREFIX}_reconcile_seconds", "Time of one look at a job, its calls included.", buckets=SECONDS, registry=REGISTRY
)
API_REQUESTS = Counter(
    f"{PREFIX}_api_requests",
    "Calls to the API server, by their answer: an HTTP status, or 0 for none.",
    ["verb", "resource", "code"],
    registry=REGISTRY,
)
API_SECONDS = Histogram(
    f"{PREFIX}_api_request_seconds",
    "Time until the API server had answered, watches aside.",
    ["verb"],
    buckets=SECONDS,
    registry=REGISTRY,
)


async def measured(reconcile: Awaitable[T]) -> T:
    """The same, told in RECONCILES and RECONCILE_SECONDS."""
    result = "error"
    try:
        with RECONCILE_SECONDS.time():
            answer = await reconcile
        result = "ok"
        return answer
    except Conflict:
        result = "conflict"
        raise
    except Unavailable:
        result = "unavailable"
        raise
    finally:
        RECONCILES.labels(result).inc()


class Queue(Protocol):
    """What is told of the queue."""

    def __len__(self) -> int: ...

    def age(self) -> Age: ...


class Watch(Protocol):
    """What is told of a reflector."""

    kind: str

    def silent_for(self) -> float: ...


class State:
    """The part of the operator's state that is told: a collector for the registry.

    Args:
        phases: how many jobs there are of each.
        watches: those that run; filled later where the operator waits for its turn.
        leading: whether this operator is the one at work.
    """

    def __init__(
        self,
        phases: Callable[[], Mapping[str, int]],
        queue: Queue,
        watches: Sequence[Watch],
        leading: Callable[[], bool],
    ) -> None:
        self._phases, self._queue, self._watches, self._leading = phases, queue, watches, leading

    def collect(self) -> Iterator[GaugeMetricFamily]:
        age = self._queue.age()
        yield _gauge("queue_depth", "Jobs that wait to be looked at.", len(self._queue))
        yield _gauge("queue_oldest_seconds", "For how long the first of them has waited.", age.waiting)
        yield _gauge("work_oldest_seconds", "For how long the longest look of now has taken.", age.working)
        yield _gauge("leading", "1 where this operator is the one at work.", float(self._leading()))
        phases = GaugeMetricFamily(f"{PREFIX}_jobs", "Jobs by phase.", labels=["phase"])
        for phase, count in sorted(self._phases().items()):
            phases.add_metric([phase], count)
        yield phases
        watches = GaugeMetricFamily(
            f"{PREFIX}_watch_age_seconds", "Since a watch last brought anything, a bookmark included.", labels=["kind"]
        )
        ages: dict[str, float] = {}
        for watch in self._watches:
            ages[watch.kind] = max(ages.get(watch.kind, 0.0), watch.silent_for())
        for kind, seconds in ages.items():
            watches.add_metric([kind], seconds)
        yield watches


def _gauge(name: str, words: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", words, value=value)
