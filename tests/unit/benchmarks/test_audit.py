"""What the benchmark reads out of the API server's audit log."""

from pathlib import Path
from typing import Any

import orjson

from benchmarks.operator import audit


def line(verb: str = "create", resource: str = "pods", **more: Any) -> bytes:
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": "/api/v1/namespaces/bench/pods",
        "user": {"username": "controller"},
        "userAgent": "anything/1.0",
        "objectRef": {"resource": resource, "namespace": "bench", "name": "a"},
        "responseStatus": {"code": 201},
        "requestReceivedTimestamp": "2026-01-01T00:00:00.500000Z",
        "stageTimestamp": "2026-01-01T00:00:00.750000Z",
    }
    return orjson.dumps(event | more)


def parsed(**more: Any) -> audit.Request:
    request = audit.parse(line(**more))
    assert request is not None
    return request


def test_a_request_has_its_times_and_its_author() -> None:
    request = parsed()
    assert (request.who, request.verb, request.resource, request.code) == ("controller", "create", "pods", 201)
    assert request.answered - request.received == 0.25
    assert request.made_a_pod


def test_programs_of_the_control_plane_are_told_by_their_user_agent() -> None:
    scheduler = {"userAgent": "kube-scheduler/v1.36 (linux/amd64)", "user": {"username": "admin"}}
    assert parsed(**scheduler).who == "kube-scheduler"
    assert parsed(userAgent="curl/8", user={"username": "admin"}).who == "curl"


def test_a_rehearsal_makes_no_pod_and_writes_nothing() -> None:
    request = parsed(requestURI="/api/v1/namespaces/bench/pods?dryRun=All")
    assert request.dry_run
    assert not request.made_a_pod
    assert not request.writes


def test_a_refused_post_makes_no_pod() -> None:
    assert not parsed(responseStatus={"code": 409}).made_a_pod


def test_a_subresource_is_a_resource_of_its_own() -> None:
    reference = {"resource": "pods", "subresource": "status", "namespace": "bench", "name": "a"}
    request = parsed(verb="patch", objectRef=reference)
    assert request.resource == "pods/status"
    assert request.writes


def test_a_watch_is_seen_when_it_begins_and_not_again_when_it_ends() -> None:
    assert audit.parse(line(verb="watch", stage="ResponseStarted")) is not None
    assert audit.parse(line(verb="watch", stage="ResponseComplete")) is None


def test_tally_keeps_rehearsals_apart_and_leaves_watches_out() -> None:
    dry = line(requestURI="/api/v1/namespaces/bench/pods?dryRun=All")
    lines = [line(), line(), dry, line(verb="watch", stage="ResponseStarted")]
    requests = [request for one in lines if (request := audit.parse(one))]
    found = {(tally.verb, tally.dry_run): tally.count for tally in audit.tally(requests)}
    assert found == {("create", False): 2, ("create", True): 1}


def test_nth_is_none_until_so_many_have_come() -> None:
    assert audit.nth([3.0, 1.0, 2.0], 2) == 2.0
    assert audit.nth([3.0, 1.0], 3) is None


def test_tail_reads_only_what_is_new_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    log.write_bytes(line() + b"\n")
    tail = audit.Tail(log)
    tail.skip()
    whole = line(verb="delete") + b"\n"
    with log.open("ab") as file:
        file.write(whole[:50])
    assert tail.read() == []
    with log.open("ab") as file:
        file.write(whole[50:])
    assert [request.verb for request in tail.read()] == ["delete"]
