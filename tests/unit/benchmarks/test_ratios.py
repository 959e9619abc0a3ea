"""Medians, ratios and bars of the operator's benchmark."""

from dataclasses import replace
from xml.etree import ElementTree

from benchmarks.operator import ratios, report
from benchmarks.operator.audit import CONTROLLER, Tally
from benchmarks.operator.picture import draw
from benchmarks.operator.results import Run, Summary, summarize

RUN = Run(
    part="B",
    contender="dtj",
    repeat=1,
    jobs=10,
    workers=2,
    seconds={"created": 1.0, "running": 2.0, "settled": 3.0},
    reached={"created": 20, "running": 20, "settled": 10},
    finished=True,
    cpu={CONTROLLER: 0.5, "etcd": 1.0},
    memory={CONTROLLER: 90.0},
    requests=(
        Tally(CONTROLLER, "create", "pods", False, 20),
        Tally(CONTROLLER, "create", "pods", True, 20),
        Tally(CONTROLLER, "patch", "distributedtrainingjobs/status", False, 30),
        Tally("kube-scheduler", "create", "events", False, 20),
    ),
)


def took(seconds: float | None, **more: object) -> Run:
    moments = {"created": seconds, "running": seconds, "settled": seconds}
    return replace(RUN, seconds=moments, finished=seconds is not None, **more)  # type: ignore[arg-type]


def figures(*runs: Run) -> dict[str, float | None]:
    return ratios.figures(summarize(runs))


def only(*runs: Run) -> Summary:
    (summary,) = summarize(runs)
    return summary


def test_median_of_the_repeats_counts() -> None:
    summary = only(took(1.0), took(9.0, repeat=2), took(2.0, repeat=3))
    assert summary.seconds["running"] == 2.0
    assert summary.spread == (1.0, 9.0)


def test_a_repeat_that_did_not_finish_leaves_no_median() -> None:
    summary = only(took(1.0), took(None, repeat=2))
    assert summary.seconds["running"] is None
    assert (summary.finished, summary.repeats) == (1, 2)


def test_ours_is_compared_with_the_floor_and_with_the_faster_peer() -> None:
    found = figures(
        took(2.0), took(1.6, contender="floor"), took(5.0, contender="jobset"), took(4.0, contender="pytorchjob")
    )
    assert found["B_running_over_floor"] == 1.25
    assert found["B_jobset_over_ours"] == 2.5
    assert found["B_fastest_peer_over_ours"] == 2.0


def test_faster_peer_is_not_told_while_one_is_missing() -> None:
    assert figures(took(2.0), took(5.0, contender="jobset"))["B_fastest_peer_over_ours"] is None


def test_default_limits_are_compared_among_themselves() -> None:
    found = figures(
        took(1.0),
        took(2.0, contender="dtj-default"),
        took(9.0, contender="jobset-default"),
        took(8.0, contender="pytorchjob-default"),
    )
    assert found["B_fastest_default_peer_over_ours"] == 4.0


def test_requests_of_all_components_count_and_rehearsals_too() -> None:
    found = figures(RUN)
    assert found["B_requests_per_job"] == 9.0
    assert found["B_status_patches_per_job"] == 3.0
    assert found["B_posts_per_pod"] == 1.0
    assert found["B_events_per_job"] == 0.0


def test_restart_compares_the_time_until_all_are_created() -> None:
    found = figures(took(0.5, part="C30"), took(2.0, part="C30", contender="jobset"))
    assert found["C30_jobset_over_ours"] == 4.0


def test_a_bar_is_met_missed_or_not_measured() -> None:
    limit = ratios.Bar("", "x", 1.5, at_least=True)
    assert limit.met({"x": 1.5}) is True
    assert limit.met({"x": 1.4}) is False
    assert limit.met({}) is None


def test_what_did_not_finish_is_told_with_how_far_it_came() -> None:
    table = report.times([only(took(None))])
    assert "1 of 1 not finished: 20 created, 20 running, 10 settled" in table


def test_tables_are_aligned() -> None:
    lines = report.table(("a", "long"), [("x", "1.5"), ("yyyy", "22.5")]).splitlines()
    assert len({len(line) for line in lines}) == 1


def test_picture_tells_what_did_not_finish() -> None:
    picture = ElementTree.fromstring(draw([("B", [only(took(2.0)), only(took(None, contender="jobset"))])]))
    labels = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"2.00 s", "not finished"} <= set(labels)
