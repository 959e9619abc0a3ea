"""What `kubectl dtj` prints, and how it ends."""

from pathlib import Path
from typing import Any

import pytest
from dtj_cli import render
from dtj_cli.__main__ import main

EXAMPLES = Path(__file__).parents[3] / "examples"


def job(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "gpt"}, "status": status}


def condition(kind: str, status: str, message: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "R", "message": message, "lastTransitionTime": "t"}


RUNNING = job(
    phase="Running",
    workers={"summary": "2/2"},
    progress={"step": 20, "totalSteps": 300, "loss": 2.5, "tokensPerSecond": 12345.6, "eta": "1m20s"},
    checkpoint={"step": 10},
    conditions=[condition("Created", "True", "made"), condition("Running", "True", "runs")],
)


def test_a_running_job_on_a_line() -> None:
    expected = "gpt  Running  2/2 ready  step 20/300  loss 2.5000  12,346 tokens/s  eta 1m20s  checkpoint 10"
    assert render.line(RUNNING) == expected


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        ({"phase": "Failed", "conditions": [condition("Failed", "True", "worker 1 died")]}, "worker 1 died"),
        ({"phase": "Invalid", "conditions": [condition("Created", "False", "spec.steps: is 0")]}, "spec.steps: is 0"),
        ({"phase": "Pending", "conditions": [condition("Created", "False", "no claim")]}, "no claim"),
        ({"phase": "Pending", "conditions": [condition("Running", "False", "bad image")]}, "bad image"),
        ({"phase": "Succeeded", "conditions": [condition("Running", "False", "ended")]}, None),
        ({}, None),
    ],
)
def test_what_is_wrong_is_said(status: dict[str, Any], problem: str | None) -> None:
    assert render.problem(job(**status)) == problem


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["kubectl-dtj", *arguments])
    return main()


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_the_examples_are_good(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "check", str(path)) == 0
    assert ": good; " in capsys.readouterr().out


def test_every_fault_of_a_manifest_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (
        (EXAMPLES / "gpt-ddp.yaml").read_text().replace("global: 32", "global: 33").replace("size: tiny", "size: huge")
    )
    (tmp_path / "job.yaml").write_text(text)
    assert run(monkeypatch, "check", str(tmp_path / "job.yaml")) == 1
    printed = capsys.readouterr().out
    assert "gpt: spec.training.batch.global: 33 does not divide" in printed
    assert "gpt: spec.training.model.size: 'huge' is not a size of gpt" in printed


HOST_JOB = """
kind: DistributedTrainingJob
metadata: {name: near}
spec:
  workers: 1
  network: {hostNetwork: true}
  template:
    spec:
      containers: [{name: trainer, image: mine}]
      volumes: [{name: data, hostPath: {path: /data}}]
"""


@pytest.mark.parametrize(
    ("options", "refused"),
    [
        ([], ["spec.network.hostNetwork", "spec.template.spec.volumes[0].hostPath"]),
        (["--allow", "hostPath"], ["spec.network.hostNetwork"]),
        (["--allow", "hostPath,hostNetwork"], []),
        (["--allow", "hostPath", "--allow", "hostNetwork"], []),
    ],
)
def test_what_the_operator_allows_is_not_refused(
    options: list[str],
    refused: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "job.yaml").write_text(HOST_JOB)
    assert run(monkeypatch, "check", str(tmp_path / "job.yaml"), *options) == bool(refused)
    printed = capsys.readouterr().out
    assert [line.split(": ")[1] for line in printed.splitlines() if "not allowed" in line] == refused


def test_a_feature_that_no_operator_knows_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "check", str(EXAMPLES / "gpt-ddp.yaml"), "--allow", "hostpath") == 2
    assert "--allow: hostpath is unknown; choose of hostNetwork" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read"),
        ("a: [", "is not YAML"),
        ("kind: Pod", "holds no DistributedTrainingJob"),
    ],
)
def test_a_file_that_is_no_manifest_is_one_sentence(
    text: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "job.yaml").write_text(text)
    assert run(monkeypatch, "check", str(tmp_path / "job.yaml")) == 2
    assert message in capsys.readouterr().err


def test_workers_kept_apart_by_the_name_of_their_job_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.yaml").write_text("""
kind: DistributedTrainingJob
metadata: {name: apart}
spec:
  workers: 2
  checkpoint: {size: 1Gi}
  template:
    spec:
      containers: [{name: trainer, image: mine}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {dtj.dev/job: apart}}
""")
    assert run(monkeypatch, "check", str(tmp_path / "job.yaml")) == 1
    assert "IgnoredDuringExecution[0] keeps them apart" in capsys.readouterr().out
