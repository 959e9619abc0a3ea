"""The launcher with ranks of a few lines: what it starts, what it forwards, what it blames, what it serves."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode

Start = Callable[..., Any]

RECORD = r"""
import os, sys, time, json
from dtj_api.progress import Failure, Progress
from dtj_trainer.run_folder import RunFolder
from dtj_trainer.clock import rfc3339
run, rank = RunFolder.from_environment(os.environ), int(os.environ["RANK"])
def fail(code, message):
    run.write_failure(Failure(rank, code, "Reason", message, rfc3339(time.time())))
    os._exit(code)
def say(event, **fields):
    sys.stdout.write(json.dumps({"event": event, "rank": rank, **fields}) + "\n")
    sys.stdout.flush()
"""
# Blocks until a signal; a rank that has said `ready` has its handlers in place
WAIT = "import signal; say('ready'); signal.pause()\n"


def test_each_rank_gets_its_own_place_and_the_gangs(pod: Start) -> None:
    script = (
        RECORD + "say('env', **{k: os.environ[k] for k in ('LOCAL_RANK','WORLD_SIZE','MASTER_PORT','OMP_NUM_THREADS')})"
    )
    one = pod(script, LOCAL_WORLD_SIZE=2, WORLD_SIZE=4, NODE_RANK=1, MASTER_ADDR="worker-0", MASTER_PORT=1234)
    assert one.wait() == 0
    seen = {line["rank"]: line for line in one.events("env")}
    assert sorted(seen) == [2, 3]
    assert [seen[2]["LOCAL_RANK"], seen[3]["LOCAL_RANK"]] == ["0", "1"]
    assert {line["WORLD_SIZE"] + line["MASTER_PORT"] for line in seen.values()} == {"41234"}
    assert all(int(line["OMP_NUM_THREADS"]) >= 1 for line in seen.values())
    assert one.last_words().failure is None


def test_arguments_reach_a_users_script_and_a_module() -> None:
    launch = [sys.executable, "-m", "dtj_trainer.launch"]
    environ = {**os.environ, "DTJ_METRICS_PORT": "0"}
    command = [*launch, "-m", "json.tool", "--help"]
    assert "json.tool" in subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_first_failure_ends_the_others_and_is_blamed(pod: Start) -> None:
    one = pod(RECORD + "fail(68, 'the disk is full') if rank == 1 else None\n" + WAIT, LOCAL_WORLD_SIZE=3)
    assert one.wait() == 68
    failure = one.last_words().failure
    assert (failure.rank, failure.exit_code, failure.message) == (1, 68, "the disk is full")
    assert [line["message"] for line in one.events("failed")] == ["the disk is full"]


def test_peer_lost_yields_to_a_kill_seen_later(pod: Start) -> None:
    script = (
        RECORD
        + """
import signal, pathlib
victim = pathlib.Path(os.environ["DTJ_RUN_DIR"], "victim")
if rank == 0:
    while not victim.exists(): pass
    os.kill(int(victim.read_text()), signal.SIGKILL)
    fail(201, "lost a peer")
temporary = victim.with_name("temporary"); temporary.write_text(str(os.getpid())); temporary.rename(victim)
signal.pause()
"""
    )
    one = pod(script, LOCAL_WORLD_SIZE=2)
    assert one.wait() == 137
    failure = one.last_words().failure
    assert (failure.rank, failure.reason) == (1, "SIGKILL")
    assert "rank 1 was killed by SIGKILL" in failure.message
    assert [line["endedRank"] for line in one.events("rank_ended")] == [0]


def test_killed_rank_gives_137(pod: Start) -> None:
    one = pod(RECORD + WAIT, LOCAL_WORLD_SIZE=2)
    for rank in (0, 1):
        one.wait_for("ready", rank=rank)
    one.kill(signal.SIGKILL, rank=1)
    assert one.wait() == 137
    assert one.last_words().failure.rank == 1


def test_rank_deaf_to_sigterm_is_killed_after_the_grace(pod: Start) -> None:
    script = (
        RECORD
        + """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
say("deaf")
while True: signal.pause()
"""
    )
    one = pod(script, LOCAL_WORLD_SIZE=2)
    for rank in (0, 1):
        one.wait_for("deaf", rank=rank)
    one.kill(signal.SIGUSR1, rank=0)
    assert one.wait() == 7
    assert (one.last_words().failure.rank, one.last_words().failure.reason) == (0, "ExitCode7")
    assert [line["exitCode"] for line in one.events("rank_ended")] == [137]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_forwarded_and_a_long_save_is_waited_for(pod: Start, number: signal.Signals) -> None:
    """Rank 1 leaves at once; rank 0 takes longer than the grace for ranks whose peer failed."""
    script = (
        RECORD
        + f"""
import signal
def stop(*_):
    if rank == 0:
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline: pass
        run.write_progress(Progress(step=7, total_steps=9))
    fail(143, "stopped at step 7")
signal.signal({int(number)}, stop)
say("ready"); signal.pause()
"""
    )
    one = pod(script, LOCAL_WORLD_SIZE=2)
    for rank in (0, 1):
        one.wait_for("ready", rank=rank)
    one.kill(number)
    assert one.wait() == ExitCode.STOPPED
    words = one.last_words()
    assert words.progress.step == 7
    assert words.failure.exit_code == ExitCode.STOPPED
    assert not one.events("failed")


def test_pages(pod: Start) -> None:
    script = (
        RECORD
        + """
from prometheus_client import Gauge
Gauge("dtj_step", "Steps", ["rank"], multiprocess_mode="mostrecent").labels(str(rank)).set(40 + rank)
say("ready"); sys.stdin = None
import signal
def go(*_):
    if rank == 0:
        run.write_progress(Progress(step=3, total_steps=9, loss=1.5))
    say("written")
signal.signal(signal.SIGUSR1, go)
say("set")
while True: signal.pause()
"""
    )
    one = pod(script, LOCAL_WORLD_SIZE=2, DTJ_JOB="gpt", DTJ_NAMESPACE="team")
    for rank in (0, 1):
        one.wait_for("set", rank=rank)
    status, body = one.get("/progress")
    assert status == 404
    assert "reason" in json.loads(body)
    one.kill(signal.SIGUSR1, rank=0)
    one.wait_for("written")
    status, body = one.get("/progress")
    assert (status, json.loads(body)["step"], json.loads(body)["loss"]) == (200, 3, 1.5)
    status, body = one.get("/metrics")
    assert status == 200
    assert 'dtj_step{rank="0"} 40.0' in body
    assert 'dtj_step{rank="1"} 41.0' in body
    assert 'dtj_ranks_alive{job="gpt",namespace="team"} 2.0' in body
    assert "pid=" not in body
    assert one.get("/healthz")[0] == 200
    assert one.get("/elsewhere")[0] == 404
    one.kill()
    assert one.wait() == 143


def test_only_worker_zero_has_progress(pod: Start) -> None:
    one = pod(RECORD + WAIT, WORLD_SIZE=2, NODE_RANK=1, LOCAL_WORLD_SIZE=1)
    one.wait_for("ready", rank=1)
    status, body = one.get("/progress")
    assert status == 404
    assert "worker 0" in json.loads(body)["reason"]
    one.kill()
    one.wait()


@pytest.mark.parametrize(
    ("name", "value"), [("WORLD_SIZE", "many"), ("LOCAL_WORLD_SIZE", "0"), ("DTJ_METRICS_PORT", "http")]
)
def test_environment_that_makes_no_sense_is_one_error(pod: Start, name: str, value: str) -> None:
    one = pod("", **{name: value})
    assert one.wait() == ExitCode.INVALID_CONFIG
    assert len(one.lines) == 1
    assert value in one.last_words().failure.message


def test_scratch_space_is_left_empty(pod: Start) -> None:
    one = pod("")
    one.wait()
    assert list(one.scratch.iterdir()) == []


def test_supervisor_needs_no_torch_and_no_numpy() -> None:
    code = "import sys, dtj_trainer.launch.__main__; print({'torch', 'numpy', 'sklearn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_crowded_port_does_not_stop_training(pod: Start) -> None:
    first = pod(RECORD + WAIT)
    port = first.wait_for("serving")["metricsPort"]
    second = pod(RECORD + "say('trained')", DTJ_METRICS_PORT=port)
    assert second.wait() == 0
    assert re.search(rf"{port}", second.events("metrics_unavailable")[0]["message"])
    assert second.events("trained")
    first.wait_for("ready")
    first.kill()
    assert first.wait() == 143
