"""Several ranks: real processes over gloo, started by the real launcher."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dtj_api.exit_codes import ExitCode
from dtj_trainer.checkpoint import layout, reader

pytestmark = pytest.mark.torch

Make = Callable[..., dict[str, Any]]
Start = Callable[..., Any]
Alone = Callable[..., Any]


def weights(folder: Path, step: int) -> bytes:
    return (folder / layout.folder_name(step) / layout.MODEL).read_bytes()


@pytest.mark.parametrize(
    ("workers", "processes", "accumulation"), [(2, 1, 1), (1, 3, 2), (2, 2, 3)], ids=["world2", "world3", "world4"]
)
def test_same_losses_as_one_process(
    make_config: Make, gang: Start, alone: Alone, workers: int, processes: int, accumulation: int
) -> None:
    """The bars are those of fp32: 2e-6 in 20 steps. The validation loss is over samples no rank may count twice."""
    batch = {"global": 12 * accumulation, "accumulation": accumulation}
    made = make_config(steps=20, batch=batch, evaluate={"batches": 0, "everySteps": 10})
    pods = gang(made, workers, processes)
    truth = alone(made)
    assert pods.wait() == [0] * workers, pods.pods[0].text()
    losses = pods.losses()
    assert len(losses) == 20
    assert all(losses[step] == pytest.approx(loss, abs=2e-6) for step, loss in truth.losses().items())
    wanted = {line["step"]: line["evalLoss"] for line in truth.events("evaluated")}
    found = {line["step"]: line["evalLoss"] for line in pods.pods[0].events("evaluated")}
    assert found.keys() == {10, 20}
    assert found == pytest.approx(wanted, abs=1e-5)
    progress = pods.pods[0].last_words().progress
    assert (progress.step, progress.total_steps, progress.eta_seconds) == (20, 20, 0.0)
    # the record has the number in full, the log nine digits
    assert progress.eval_loss == pytest.approx(found[20], abs=1e-8)
    assert all(pod.last_words().progress is None for pod in pods.pods[1:])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """The run that every disturbed one must equal, made once."""
    kept: dict[str, Any] = {}

    def get(make: Make, gang: Start) -> Any:
        if not kept:
            folder = tmp_path_factory.mktemp("undisturbed")
            pods = gang(make(folder, steps=400), processes=2)
            assert pods.wait() == [0], pods.pods[0].text()
            kept.update(folder=folder, losses=pods.losses())
        return kept

    return get


def test_stopped_run_saves_and_the_next_attempt_goes_on_as_if_nothing_had_been(
    tmp_path: Path, make_config: Make, gang: Start, undisturbed: Callable[..., Any]
) -> None:
    whole = undisturbed(make_config, gang)
    made = make_config(tmp_path / "c", steps=400, every=1000)
    first = gang(made, processes=2)
    pod = first.pods[0]
    pod.wait_for("step", step=3)
    pod.kill()
    pod.kill()
    assert first.wait() == [ExitCode.STOPPED], pod.text()
    words = pod.last_words()
    assert words.failure.reason == "Stopped"
    stopped = words.progress.step
    assert 3 <= stopped < 400
    assert words.progress.checkpoint.path == str(tmp_path / "c" / layout.folder_name(stopped))
    assert reader.newest_valid(tmp_path / "c").newest[1].step == stopped
    assert not [line for line in pod.lines if line.get("level") == "error"]
    second = gang(made, processes=2, DTJ_ATTEMPT=1)
    assert second.wait() == [0], second.pods[0].text()
    assert min(second.losses()) == stopped + 1
    assert first.losses() | second.losses() == whole["losses"]
    assert weights(tmp_path / "c", 400) == weights(whole["folder"], 400)
    assert second.pods[0].last_words().progress.checkpoint.attempt == 1


def test_killed_rank_is_named_everywhere_at_once_and_no_step_is_lost(
    tmp_path: Path, make_config: Make, gang: Start, undisturbed: Callable[..., Any]
) -> None:
    """Nobody waits for the timeout of the collectives, which is longer than the test may take."""
    made = make_config(tmp_path / "c", steps=100000, every=5, timeoutSeconds=3600)
    pods = gang(made, workers=2, processes=1)
    pods.pods[0].wait_for("checkpoint_saved")
    pods.pods[1].kill(signal.SIGKILL, rank=1)
    assert pods.wait() == [ExitCode.PEER_LOST, 137], pods.pods[0].text()
    failures = [pod.last_words().failure for pod in pods.pods]
    assert [(f.rank, f.reason) for f in failures] == [(0, "PeerLost"), (1, "SIGKILL")]
    assert "lost contact with its peers" in failures[0].message
    assert [len(pod.events("failed")) for pod in pods.pods] == [1, 1]
    found = reader.newest_valid(tmp_path / "c").newest
    assert found is not None
    whole = undisturbed(make_config, gang)
    again = gang(make_config(tmp_path / "c", steps=400, every=50), workers=1, processes=2, DTJ_ATTEMPT=1)
    assert again.wait() == [0], again.pods[0].text()
    if found[1].step < 400:
        assert min(again.losses()) == found[1].step + 1
        assert again.losses().items() <= whole["losses"].items()
        assert weights(tmp_path / "c", 400) == weights(whole["folder"], 400)


def test_killed_rank_of_a_pod_is_named_though_its_neighbours_fall_too(make_config: Make, gang: Start) -> None:
    pods = gang(make_config(steps=100000, timeoutSeconds=3600), processes=3)
    pod = pods.pods[0]
    pod.wait_for("step", step=2)
    pod.kill(signal.SIGKILL, rank=2)
    assert pods.wait() == [137]
    assert (pod.last_words().failure.rank, pod.last_words().failure.reason) == (2, "SIGKILL")


def test_ranks_do_not_outlive_their_supervisor(tmp_path: Path, make_config: Make, gang: Start) -> None:
    pods = gang(make_config(tmp_path / "c", steps=100000, every=100000), processes=2)
    pod = pods.pods[0]
    pod.wait_for("step", step=3)
    watched = [os.pidfd_open(pod.pid(rank)) for rank in (0, 1)]
    pod.kill(signal.SIGKILL)
    for descriptor in watched:
        assert select.select([descriptor], [], [], 100)[0], "a rank trains on"
        os.close(descriptor)
    assert reader.newest_valid(tmp_path / "c").newest is not None


def test_checkpoint_of_one_world_resumes_in_another(
    tmp_path: Path, make_config: Make, gang: Start, alone: Alone
) -> None:
    whole = alone(make_config(tmp_path / "whole", steps=20)).losses()
    alone(make_config(tmp_path / "c", steps=10))
    pods = gang(make_config(tmp_path / "c", steps=20), processes=2)
    assert pods.wait() == [0], pods.pods[0].text()
    assert sorted(pods.losses()) == list(range(11, 21))
    assert all(loss == pytest.approx(whole[step], abs=2e-6) for step, loss in pods.losses().items())


def test_mismatch_is_said_once_and_blamed_on_the_rank_that_looked(
    tmp_path: Path, make_config: Make, gang: Start, alone: Alone
) -> None:
    alone(make_config(tmp_path, steps=10))
    wider = {"name": "gpt", "dimensions": {"layers": 2, "width": 64, "heads": 2}}
    pods = gang(make_config(tmp_path, steps=20, model=wider), processes=2)
    assert pods.wait() == [ExitCode.CHECKPOINT_MISMATCH], pods.pods[0].text()
    (failed,) = pods.pods[0].events("failed")
    assert failed["message"].startswith("spec.training.model.dimensions.width: checkpoint ")
    assert failed["failedRank"] == 0
    assert not pods.pods[0].events("step")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A volume of its own that holds one checkpoint and not two."""
    folder = tmp_path / "volume"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk_ends_all_ranks_in_rank_zeros_name(small_disk: Path, make_config: Make, gang: Start) -> None:
    pods = gang(make_config(small_disk, steps=100, every=5, timeoutSeconds=3600), workers=2, processes=1)
    assert pods.wait() == [ExitCode.STORAGE_FULL, ExitCode.PEER_LOST], pods.pods[0].text()
    failure = pods.pods[0].last_words().failure
    assert failure.reason == "StorageFull"
    for words in (str(small_disk), "bytes", "spec.checkpoint.size", "spec.checkpoint.keepLast"):
        assert words in failure.message
    assert "ended with rank 0" in pods.pods[1].last_words().failure.message
    assert sorted(p.name for p in small_disk.iterdir()) == ["latest", "step-00000005"]
    assert reader.newest_valid(small_disk).newest is not None
    assert not [line for pod in pods.pods for line in pod.lines if "text" in line]


def test_divergence_has_one_cause_on_all_ranks(make_config: Make, gang: Start) -> None:
    made = make_config(steps=50, optimizer={"learningRate": 1e30}, log={"everySteps": 5})
    pods = gang(made, processes=2)
    assert pods.wait() == [ExitCode.DIVERGED], pods.pods[0].text()
    assert "at step 2;" in pods.pods[0].last_words().failure.message


def test_worker_that_never_comes_is_named(make_config: Make, gang: Start) -> None:
    made = make_config(timeoutSeconds=3)
    waiting, lone = gang(made, workers=2, only=0), gang(made, workers=2, only=1, MASTER_ADDR="nowhere.invalid")
    assert waiting.wait() == [ExitCode.RENDEZVOUS_FAILED], waiting.pods[0].text()
    assert "1 of 2 ranks to reach localhost:" in waiting.pods[0].last_words().failure.message
    assert lone.wait() == [ExitCode.RENDEZVOUS_FAILED], lone.pods[0].text()
    assert "nowhere.invalid:" in lone.pods[0].last_words().failure.message
    assert "nowhere.invalid" in lone.pods[0].events("waiting")[0]["waitingFor"]


def test_stop_while_waiting_for_the_others_is_obeyed_at_once(make_config: Make, gang: Start) -> None:
    pods = gang(make_config(timeoutSeconds=3600), workers=2, only=1, MASTER_ADDR="nowhere.invalid")
    pods.pods[0].wait_for("waiting")
    pods.pods[0].kill()
    assert pods.wait() == [ExitCode.STOPPED]
    assert "nothing to save" in pods.pods[0].last_words().failure.message


def test_pages_of_a_running_gang(tmp_path: Path, make_config: Make, gang: Start) -> None:
    made = make_config(tmp_path, steps=100000, every=5, evaluate={"everySteps": 5, "batches": 1})
    pods = gang(made, processes=2, DTJ_JOB="gpt", DTJ_NAMESPACE="team")
    pod = pods.pods[0]
    pod.wait_for("checkpoint_saved")
    status, body = pod.get("/progress")
    record = json.loads(body)
    assert status == 200
    assert record["totalSteps"] == 100000
    status, body = pod.get("/metrics")
    labels = 'job="gpt",namespace="team"'
    for name in ("step", "loss", "eval_loss", "learning_rate", "gradient_norm", "last_step_timestamp_seconds"):
        for rank in (0, 1):
            assert f'dtj_{name}{{{labels},rank="{rank}"}}' in body
    for name in ("samples_total", "tokens_total", "step_seconds_count"):
        assert f'dtj_{name}{{{labels},rank="1"}}' in body
    for name in ("checkpoint_step", "checkpoint_seconds_count"):
        assert f'dtj_{name}{{{labels},rank="0"}}' in body
        assert f'dtj_{name}{{{labels},rank="1"}}' not in body
    assert f"dtj_ranks_alive{{{labels}}} 2.0" in body
    pod.kill()
    assert pods.wait() == [ExitCode.STOPPED]


def test_evaluate_from_the_command_line(tmp_path: Path, make_config: Make, alone: Alone) -> None:
    alone(make_config(tmp_path, steps=10))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("DTJ_")}
    command = [sys.executable, "-m", "dtj_trainer", "--evaluate", str(tmp_path)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("step 10: validation loss ")
    (tmp_path / "step-00000010" / layout.OPTIMIZER).unlink()
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == ExitCode.CHECKPOINT_INVALID
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
