"""Environment, names, exit codes and records: what one part writes, the other reads."""

import pytest
from dtj_api import names
from dtj_api.environment import RESERVED, Gang
from dtj_api.exit_codes import ExitCode, describe
from dtj_api.progress import (
    TERMINATION_MESSAGE_LIMIT,
    Failure,
    Progress,
    SavedCheckpoint,
    TerminationMessage,
    parse_progress,
    parse_termination_message,
    to_json,
)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_pod_reads_the_gang_the_operator_wrote(processes: int) -> None:
    gang = Gang(workers=4, processes=processes, worker=2, master_addr="a-0-0.a-0.ns.svc", master_port=29500)
    assert Gang.from_environment(gang.pod_environment()) == gang


def test_ranks_of_a_gang_are_numbered_once() -> None:
    gangs = [Gang(3, 2, worker, "m", 1) for worker in range(3)]
    assert [g.rank(local) for g in gangs for local in range(2)] == list(range(6))


def test_rank_is_only_written_where_a_pod_has_one_process() -> None:
    assert Gang(2, 1, 1, "m", 1).pod_environment()["RANK"] == "1"
    assert "RANK" not in Gang(2, 2, 1, "m", 1).pod_environment()


def test_every_written_variable_is_reserved() -> None:
    gang = Gang(2, 1, 1, "m", 1)
    assert {*gang.pod_environment(), *gang.rank_environment(0)} <= RESERVED


def test_a_world_that_is_no_multiple_is_refused() -> None:
    with pytest.raises(ValueError, match="WORLD_SIZE=3 is not a multiple of LOCAL_WORLD_SIZE=2"):
        Gang.from_environment({"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "2"})


def test_the_longest_job_name_still_makes_host_names() -> None:
    assert len(names.pod("j" * names.JOB_NAME_MAX_LENGTH, 9999, 9999)) <= 63


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (137, "killed by SIGKILL"),
        (143, "Stopped"),
        (68, "StorageFull"),
        (7, "exit code 7"),
        (192, "killed by SIGRTMAX"),
    ],
)
def test_an_exit_code_is_put_in_words(code: int, words: str) -> None:
    assert describe(code) == words


def test_user_errors_are_below_128_and_the_rest_above() -> None:
    retryable = {ExitCode.STOPPED, ExitCode.RENDEZVOUS_FAILED, ExitCode.PEER_LOST, ExitCode.FENCED}
    assert {code for code in ExitCode if code >= 128} == retryable


def test_records_survive_the_wire() -> None:
    saved = SavedCheckpoint(step=5, path="/c/step-5", saved_at="2026-01-01T00:00:00Z", bytes=9, checksum="ab")
    progress = Progress(step=5, total_steps=10, loss=1.5, checkpoint=saved)
    assert parse_progress(to_json(progress)) == progress
    message = TerminationMessage(progress, Failure(1, 137, "SIGKILL", "gone", "2026-01-01T00:00:00Z"))
    assert parse_termination_message(to_json(message)) == message


@pytest.mark.parametrize("letter", ["x", "é", '"'])
def test_a_long_failure_is_cut_to_what_the_kubelet_keeps(letter: str) -> None:
    failure = Failure(0, 1, "Error", "begin " + letter * 9000, "2026-01-01T00:00:00Z")
    text = to_json(TerminationMessage(None, failure))
    assert len(text.encode()) <= TERMINATION_MESSAGE_LIMIT
    parsed = parse_termination_message(text).failure
    assert parsed is not None
    assert parsed.message.startswith("begin ")
    assert parsed.message.endswith("[cut]")


@pytest.mark.parametrize("text", ["", "Traceback", "[]", "{}", '{"step": "x", "totalSteps": 1}'])
def test_what_is_no_progress_record_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any message: JSON's own or ours
        parse_progress(text)
