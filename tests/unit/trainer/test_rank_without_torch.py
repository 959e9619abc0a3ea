"""What a rank says before it imports torch: faults of configuration and data show at once, on one line, with a code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from dtj_api.exit_codes import ExitCode

GOOD = {
    "training": {
        "model": {"name": "gpt", "size": "tiny"},
        "data": {"text": "tinydocs"},
        "steps": 1,
        "batch": {"global": 4},
    }
}


def run(tmp_path: Path, config: object, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """A rank for which importing torch is a failure."""
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    text = config if isinstance(config, str) else json.dumps(config)
    own = {"DTJ_CONFIG": text, "PYTHONPATH": str(tmp_path)} | environ
    command = [sys.executable, "-m", "dtj_trainer", *arguments]
    return subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=60)


def training(**fields: object) -> object:
    return {"training": {**GOOD["training"], **fields}}


@pytest.mark.parametrize(
    ("config", "code", "words"),
    [
        ("", 64, ["there is no configuration"]),
        ("{", 64, ["DTJ_CONFIG is not JSON"]),
        ("[]", 64, ["spec: is a list"]),
        (training(stepz=3), 64, ["spec.training.stepz: is not a known field; did you mean steps?"]),
        (training(model={"name": "gpt", "dimensions": {"layers": 2, "width": 65, "heads": 4}}), 64, ["multiple of 4"]),
        (training(batch={"global": 5}, steps=0), 64, ["spec.training.steps"]),
        (training(batch={"global": 5}, model={"name": "gpt", "size": "huge"}), 64, ["batch.global", "model.size"]),
        (training(data={"text": "/nowhere"}), 65, ["spec.training.data.text: /nowhere does not exist"]),
    ],
)
def test_fault_is_one_line_with_its_code(tmp_path: Path, config: object, code: int, words: list[str]) -> None:
    done = run(tmp_path, config, LOCAL_WORLD_SIZE="2", WORLD_SIZE="2")
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr == ""
    (line,) = map(json.loads, done.stdout.splitlines())
    assert (line["event"], line["exitCode"], line["reason"]) == ("failed", code, ExitCode(code).reason)
    assert all(each in line["message"] for each in words)


def test_file_beats_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(GOOD))
    assert run(tmp_path, "{", str(file), "--check").returncode == 0
    missing = run(tmp_path, GOOD, str(tmp_path / "none.json"), "--check")
    assert missing.returncode == 64
    assert "none.json" in missing.stdout


def test_check_says_what_it_found_and_trains_nothing(tmp_path: Path) -> None:
    done = run(tmp_path, GOOD, "--check", LOCAL_WORLD_SIZE="4", WORLD_SIZE="4")
    assert done.returncode == 0
    assert done.stdout.startswith("valid for 4 ranks: ")


def test_under_a_launcher_a_fault_of_all_ranks_is_said_once(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch was imported')")
    own = {"DTJ_CONFIG": json.dumps(training(stepz=3)), "PYTHONPATH": str(tmp_path), "LOCAL_WORLD_SIZE": "2"}
    command = [sys.executable, "-m", "dtj_trainer.launch"]
    done = subprocess.run(
        command, env={**os.environ, "DTJ_METRICS_PORT": "0", **own}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 64
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["event"] for line in lines if line["level"] == "error"] == ["failed"]
    assert "did you mean steps?" in done.stdout
