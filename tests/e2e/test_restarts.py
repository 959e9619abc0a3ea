"""Training that is disturbed goes on from its last checkpoint, with the losses of a run that was not."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from dtj_api import names

from tests.e2e.jobs import example, gpt_job, inspector
from tests.e2e.namespace import Namespace, log_lines, losses

# Run inside a worker's container: SIGKILL to its ranks, which unlike this process have a LOCAL_RANK.
KILL_RANKS = """
import glob, os, signal
for path in glob.glob("/proc/[0-9]*/environ"):
    pid = int(path.split("/")[2])
    if pid not in (1, os.getpid()) and b"LOCAL_RANK=" in open(path, "rb").read():
        os.kill(pid, signal.SIGKILL)
"""


# more than any machine does before a test lowers it
ENDLESS = 1000000


class Listener:
    """Keeps what pods print, which goes with them when they are deleted."""

    def __init__(self, namespace: Namespace, folder: Path) -> None:
        self._namespace, self._folder = namespace, folder
        self._followers: list[subprocess.Popen[bytes]] = []

    def follow(self, pod: str) -> None:
        with (self._folder / pod).open("wb") as sink:
            command = ["kubectl", "--namespace", self._namespace.name, "logs", "--follow", pod]
            self._followers.append(subprocess.Popen(command, stdout=sink))

    def lines(self) -> list[list[dict[str, Any]]]:
        """The log lines of each pod, once all of them have ended."""
        for follower in self._followers:
            follower.wait(60)
        return [log_lines(path.read_text()) for path in sorted(self._folder.iterdir())]

    def stop(self) -> None:
        for follower in self._followers:
            follower.kill()


@pytest.fixture
def listener(namespace: Namespace, tmp_path: Path) -> Iterator[Listener]:
    listener = Listener(namespace, tmp_path)
    yield listener
    listener.stop()


def kill_a_rank(namespace: Namespace, attempt: int) -> None:
    namespace.kubectl("exec", names.pod("rough", attempt, 1), "--", "python", "-c", KILL_RANKS, check=False)


def delete_a_worker(namespace: Namespace, attempt: int) -> None:
    namespace.kubectl("delete", "pod", names.pod("rough", attempt, 0), "--wait=false")


def delete_a_worker_and_the_operator(namespace: Namespace, attempt: int) -> None:
    namespace.kubectl("delete", "pod", names.pod("rough", attempt, 1), "--grace-period=0", "--force")
    system = Namespace("dtj-system")
    system.kubectl("delete", "pod", "-l", "app.kubernetes.io/name=dtj-operator", "--grace-period=0", "--force")


@pytest.mark.xdist_group("operator")
def test_a_job_disturbed_in_every_attempt_ends_with_the_losses_of_one_that_was_not(
    namespace: Namespace, listener: Listener
) -> None:
    rough = disturbed("rough", steps=ENDLESS)
    namespace.apply(rough)
    step, causes = 15, []
    for attempt, disturb in enumerate([kill_a_rank, delete_a_worker, delete_a_worker_and_the_operator]):
        seen = namespace.until_step("rough", step, attempt)
        assert seen["attempt"] == attempt
        listener.follow(names.pod("rough", attempt, 0))
        node = namespace.pod("rough", 1, attempt)["spec"]["nodeName"]
        disturb(namespace, attempt)
        after = namespace.until("the next attempt", lambda n=attempt + 1: newer(namespace, n))
        causes.append(after["lastFailure"])
        if attempt == 0:
            assert (causes[0]["worker"], causes[0]["rank"], causes[0]["node"]) == (1, 1, node)
        step = max(step, after["progress"]["step"]) + 3
    namespace.until_step("rough", step, 3)
    listener.follow(names.pod("rough", 3, 0))
    total = suspend(namespace, "rough") + 10
    namespace.patch("rough", suspend=False, training={"steps": total})
    namespace.apply(disturbed("calm", steps=total))
    done = namespace.until_phase("rough", "Succeeded")
    listener.follow(names.pod("rough", 4, 0))

    assert [(c["attempt"], c["reason"], c["worker"]) for c in causes] == [
        (0, "SIGKILL", 1),
        (1, "PodDeleted", 0),
        (2, "PodDeleted", 1),
    ]
    assert causes[0]["exitCode"] == 137
    assert (done["restarts"], done["attempt"], done["progress"]["step"]) == (3, 4, total)
    told = [one["reason"] for one in done["attempts"]]
    assert told == ["SIGKILL", "PodDeleted", "PodDeleted", "Suspended", "AllWorkersSucceeded"]
    namespace.until_phase("calm", "Succeeded")
    undisturbed = losses(namespace.log(names.pod("calm", 0, 0)))
    attempts = listener.lines()
    resumed = [next(line for line in lines if line["event"] == "training")["step"] for lines in attempts]
    assert resumed == sorted(resumed)
    assert resumed[0] == 0
    assert resumed[1] > 0
    assert resumed[1] % 10 == 0, "a killed rank cannot save"
    for lines in attempts:
        regular = {step: loss for step, loss in losses(lines).items() if step % 5 == 0 or step == total}
        assert regular.items() <= undisturbed.items()
    assert max(losses(attempts[-1])) == total


def disturbed(name: str, *, steps: int) -> dict[str, Any]:
    job = gpt_job(name, steps=steps, log={"everySteps": 5})
    job["spec"] |= {"checkpoint": {"size": "1Gi", "everySteps": 10}, "restart": {"backoffSeconds": 0}}
    job["spec"]["monitoring"] = {"progressSeconds": 1}
    return job


def suspend(namespace: Namespace, job: str) -> int:
    """Step of the checkpoint that the job saves when it is suspended."""
    namespace.patch(job, suspend=True)
    namespace.kubectl("wait", "--for=condition=Suspended", f"dtj/{job}", "--timeout=90s")
    step = namespace.status(job)["checkpoint"]["step"]
    assert isinstance(step, int)
    return step


def newer(namespace: Namespace, attempt: int) -> dict[str, Any] | None:
    status = namespace.status("rough")
    return status if status["attempt"] == attempt else None


def test_a_suspended_job_saves_may_be_changed_and_goes_on_from_there(namespace: Namespace, trainer_image: str) -> None:
    job = gpt_job("pause", steps=ENDLESS)
    job["spec"] |= {"checkpoint": {"size": "1Gi", "everySteps": ENDLESS}, "monitoring": {"progressSeconds": 1}}
    namespace.apply(job)
    namespace.until_step("pause", 5)
    with pytest.raises(AssertionError, match="workers cannot be changed while the job runs; suspend it first"):
        namespace.patch("pause", workers=1)
    saved = suspend(namespace, "pause")
    assert saved >= 5
    assert namespace.status("pause")["phase"] == "Suspended"
    assert namespace.list("pods") == []
    command = ["cat", f"/checkpoints/step-{saved:08d}/manifest.json"]
    namespace.apply(inspector(trainer_image, names.checkpoint_claim("pause"), command))

    namespace.patch("pause", workers=1, suspend=False, training={"steps": saved + 20})
    done = namespace.until_phase("pause", "Succeeded")
    training = next(line for line in namespace.log(names.pod("pause", 1, 0)) if line["event"] == "training")
    assert (training["step"], training["worldSize"]) == (saved, 1)
    assert training["resumedFrom"] == f"/checkpoints/step-{saved:08d}"
    assert (done["progress"]["step"], done.get("restarts", 0)) == (saved + 20, 0)
    assert f'"step": {saved}' in namespace.kubectl("logs", "inspector")


def test_the_example_of_a_suspended_job_makes_no_pods_until_it_is_resumed(namespace: Namespace) -> None:
    namespace.apply(example("suspended.yaml"))
    namespace.kubectl("wait", "--for=condition=Suspended", "dtj/suspended", "--timeout=30s")
    assert namespace.list("pods,services,pvc") == []
    namespace.patch("suspended", suspend=False)
    assert namespace.until_phase("suspended", "Succeeded")["checkpoint"]["step"] == 200
