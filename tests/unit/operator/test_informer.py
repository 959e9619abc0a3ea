"""informer/: what the cache holds after news in any order, and a reflector that nothing ends."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from dtj_api import names
from dtj_operator.errors import ApiError, Unavailable
from dtj_operator.informer import Cache, JobWatch, Reflector
from dtj_operator.informer import reflector as module
from dtj_operator.snapshot import JobKey

KEY = JobKey("ml", "gpt")
OTHER = JobKey("ml", "bert")


def child(name: str, version: int, *, uid: str = "", job: str = "gpt", kind: str = "Service") -> dict[str, Any]:
    labels = {names.LABEL_JOB: job}
    metadata = {"namespace": "ml", "name": name, "uid": uid or name, "resourceVersion": str(version), "labels": labels}
    return {"kind": kind, "metadata": metadata}


def job(version: int, uid: str = "u", **metadata: Any) -> dict[str, Any]:
    about = {"namespace": "ml", "name": "gpt", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": about | metadata, "spec": {"version": version}}


def seen(cache: Cache, key: JobKey = KEY) -> dict[str, int]:
    return {child.name: child.version for child in cache.children(key)}


def test_of_two_views_the_later_one_counts() -> None:
    cache = Cache()
    assert cache.see(child("a", 5)) == KEY
    assert cache.see(child("a", 4)) is None
    assert cache.see(child("a", 5)) is None
    assert cache.see(child("a", 10)) == KEY
    assert seen(cache) == {"a": 10}


def test_an_answer_that_comes_after_the_word_of_the_end_revives_nothing() -> None:
    cache = Cache()
    assert cache.lose("a") is None
    assert cache.see(child("a", 5)) is None
    assert cache.see(child("a", 7, uid="another")) == KEY
    assert seen(cache) == {"a": 7}


def test_a_list_drops_what_it_lacks_and_keeps_what_was_heard_of_since() -> None:
    cache = Cache()
    for one in (child("gone", 3), child("kept", 4), child("newer", 12), child("b", 2, job="bert")):
        cache.see(one)
    cache.see(child("claim", 1, kind="PersistentVolumeClaim"))
    news = cache.replace("Service", None, [child("kept", 4), child("found", 9)], "10")
    assert news == {KEY, OTHER}
    assert seen(cache) == {"kept": 4, "newer": 12, "found": 9, "claim": 1}
    assert seen(cache, OTHER) == {}


def test_a_list_of_one_namespace_says_nothing_of_others() -> None:
    cache = Cache()
    cache.see(child("a", 3))
    assert cache.replace("Service", "other", [], "10") == set()
    assert seen(cache) == {"a": 3}


def test_a_child_that_is_given_to_another_job_is_that_ones() -> None:
    cache = Cache()
    cache.see(child("a", 3))
    assert cache.see(child("a", 4, job="bert")) == OTHER
    assert (seen(cache), seen(cache, OTHER)) == ({}, {"a": 4})
    assert cache.lose("a") == OTHER


def test_kinds_that_nobody_watches_are_not_kept() -> None:
    cache = Cache()
    assert cache.see(child("a", 3, kind="PodMonitor")) is None
    assert seen(cache) == {}


def test_a_job_is_confirmed_by_an_answer_until_it_changes() -> None:
    cache = Cache()
    assert cache.see_job(job(1)) == KEY
    assert not cache.is_confirmed(KEY, "1")
    cache.see_job(job(2), confirmed=True)
    assert cache.is_confirmed(KEY, "2")
    # the watch brings the same version again, then a later one
    assert cache.see_job(job(2)) is None
    assert cache.see_job(job(3)) == KEY
    assert not cache.is_confirmed(KEY, "3")


def test_a_job_that_went_and_came_again_under_its_name_is_another() -> None:
    cache = Cache()
    cache.see_job(job(1))
    assert cache.lose_job(job(5)) == KEY
    assert cache.job(KEY) is None
    assert cache.see_job(job(4)) is None
    assert cache.see_job(job(6, uid="another")) == KEY
    assert cache.lose_job(job(5)) is None
    assert cache.job(KEY) is not None


def test_a_list_of_jobs_drops_those_that_were_deleted_unheard_and_names_those_it_knows_better() -> None:
    cache = Cache()
    cache.see_job(job(1))
    assert cache.compare_jobs("other", [], "9") == (set(), set())
    assert cache.compare_jobs(None, [job(1)], "9") == (set(), set())
    assert cache.jobs() == [KEY]
    assert cache.compare_jobs(None, [job(2)], "9") == (set(), {KEY})
    assert cache.compare_jobs(None, [], "9") == ({KEY}, set())
    assert cache.jobs() == []
    assert cache.compare_jobs(None, [job(2)], "9") == (set(), {KEY})
    cache.see_job(job(12))
    assert cache.compare_jobs(None, [], "10") == (set(), set()), "it was heard of since"


class Script:
    """A gateway that answers as written: a list's items and version, or watch events, or an error to raise."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.over = asyncio.Event()

    def _next(self) -> Any:
        if not self.answers:
            self.over.set()
            raise asyncio.CancelledError
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def list_all(self, kind: str, namespace: str | None) -> tuple[list[Any], str]:
        self.asked.append("list")
        items, version = self._next()
        return items, version

    async def watch(self, kind: str, namespace: str | None, version: str) -> AsyncIterator[Any]:
        self.asked.append(f"watch {version}")
        for event in self._next():
            if isinstance(event, Exception):
                raise event
            yield event


def event(kind: str, raw: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": raw}


BOOKMARK = event("BOOKMARK", {"kind": "Service", "metadata": {"resourceVersion": "20"}})


async def reflect(monkeypatch: pytest.MonkeyPatch, *answers: Any) -> tuple[Script, Cache, list[JobKey]]:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0)
    script, cache, told = Script(*answers), Cache(), list[JobKey]()
    reflector = Reflector(script, cache, "Service", None, told.append)  # type: ignore[arg-type]
    with pytest.raises(asyncio.CancelledError):
        await reflector.run()
    assert reflector.synced.is_set() == any(asked.startswith("watch") for asked in script.asked)
    return script, cache, told


async def test_what_is_listed_and_watched_is_in_the_cache_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    script, cache, told = await reflect(
        monkeypatch,
        ([child("a", 3)], "10"),
        [event("ADDED", child("b", 11)), event("DELETED", child("a", 12)), BOOKMARK],
    )
    assert seen(cache) == {"b": 11}
    assert told == [KEY, KEY, KEY]
    assert script.asked == ["list", "watch 10", "watch 20"]


async def test_a_broken_watch_goes_on_from_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [event("ADDED", child("b", 11)), Unavailable(0, "Unreachable", "silent")]
    script, cache, _ = await reflect(monkeypatch, ([], "10"), broken, [event("ADDED", child("c", 12))])
    assert script.asked[:3] == ["list", "watch 10", "watch 11"]
    assert seen(cache) == {"b": 11, "c": 12}


@pytest.mark.parametrize("error", [Unavailable(410, "Expired", "too old"), ApiError(401, "Unauthorized", "no")])
async def test_where_a_watch_cannot_go_on_all_is_listed_again(monkeypatch: pytest.MonkeyPatch, error: ApiError) -> None:
    script, cache, _ = await reflect(monkeypatch, ([child("a", 3)], "10"), [error], ([child("b", 15)], "30"), [])
    assert script.asked[:4] == ["list", "watch 10", "list", "watch 30"]
    assert seen(cache) == {"b": 15}


async def test_a_list_that_fails_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    script, cache, _ = await reflect(
        monkeypatch, Unavailable(500, "InternalError", "no"), Unavailable(429, "TooMany", "no"), ([child("a", 3)], "10")
    )
    assert script.asked[:4] == ["list", "list", "list", "watch 10"]
    assert seen(cache) == {"a": 3}


def test_a_watch_that_brings_what_lists_show_is_well() -> None:
    watch = JobWatch()
    for version in (1, 5, 9):
        watch.hear(job(version))
        watch.compare([job(version)])
        assert not watch.is_stale
    watch.hear(job(9), ended=True)
    watch.compare([])
    watch.compare([])
    assert not watch.is_stale


def test_a_watch_that_is_behind_by_a_moment_is_not_stale_and_one_that_stays_behind_is() -> None:
    watch = JobWatch()
    watch.hear(job(1))
    watch.compare([job(5)])
    watch.hear(job(5))
    watch.compare([job(6)])
    assert not watch.is_stale
    # 6 is never brought
    watch.compare([job(6)])
    assert not watch.is_stale
    watch.compare([job(6)])
    assert watch.is_stale
    watch.hear(job(6))
    watch.compare([job(6)])
    assert not watch.is_stale
