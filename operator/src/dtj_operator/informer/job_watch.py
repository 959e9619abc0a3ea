"""Whether kopf's watch of jobs still brings news: it tells nobody when it falls silent
(https://github.com/nolar/kopf/issues/1276)."""

from collections.abc import Iterable

from dtj_operator.children import Object

# rounds in a row in which a list knew better than the watch had by the round after it
MOST_MISSES = 2


class JobWatch:
    """Compares what the watch brought with what lists show, a round later."""

    def __init__(self) -> None:
        self._heard: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        self._misses = 0

    @property
    def is_stale(self) -> bool:
        return self._misses >= MOST_MISSES

    def hear(self, raw: Object, *, ended: bool = False) -> None:
        """The watch brought a job."""
        metadata = raw["metadata"]
        if ended:
            self._heard.pop(metadata["uid"], None)
        else:
            self._heard[metadata["uid"]] = int(metadata["resourceVersion"])

    def compare(self, listed: Iterable[Object]) -> None:
        """All jobs as a list shows them. What the list before this one showed, the watch has had time to bring."""
        current = {raw["metadata"]["uid"]: int(raw["metadata"]["resourceVersion"]) for raw in listed}
        late = [uid for uid, version in self._expected.items() if uid in current and self._heard.get(uid, 0) < version]
        self._misses = self._misses + 1 if late else 0
        self._expected = current
        self._heard = {uid: version for uid, version in self._heard.items() if uid in current}
