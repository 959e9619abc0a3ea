"""What becomes of a job whose script fails, hangs or ends: as its spec says, and told in its status."""

from typing import Any

from dtj_api import names

from tests.e2e.jobs import example, script_job
from tests.e2e.namespace import Namespace

FIRST_ATTEMPT_INTERRUPTED = "import os, sys; sys.exit(130 if os.environ['DTJ_ATTEMPT'] == '0' else 0)"
# What the kernel kills for want of memory and the end of the container are told to the node on two ways: of a container
# that ends at once, the one may be heard of too late.
TOO_MUCH_MEMORY = """
import subprocess, sys, time
greedy = subprocess.run([sys.executable, "-c", "filled = b'x' * (300 << 20)"])
time.sleep(2)
sys.exit(128 - greedy.returncode)
"""
SLEEP = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(0)); signal.pause()"
CHIEF_ENDS = f"import os\nif os.environ['RANK'] != '0':\n    {SLEEP}"

# Worker 1 fails by itself; worker 0 fails when it sees that.
LOST_PEER = """
import os, socket, time

def load(row):
    raise ValueError(f"row {row} has no label")

address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    peer, _ = socket.create_server(("", address[1])).accept()
    peer.recv(1)
    raise RuntimeError("[pair.cc:534] Connection closed by peer [10.244.0.9]:29500")
while True:
    try:
        peer = socket.create_connection(address, timeout=5)
        break
    except OSError:
        time.sleep(0.1)
load(7)
"""

Object = dict[str, Any]


def job(name: str, image: str, script: str, *, workers: int = 1, limits: Object | None = None, **spec: Any) -> Object:
    made = script_job(name, image, script, workers=workers)
    made["spec"] |= spec
    if limits:
        made["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": limits}
    return made


def exits(code: int) -> str:
    return f"raise SystemExit({code})"


def outcome(status: Object) -> tuple[Any, ...]:
    """Phase, restarts, reason and exit code of the last failure."""
    failure = status.get("lastFailure", {})
    return status["phase"], status.get("restarts", 0), failure.get("reason"), failure.get("exitCode")


def test_each_failure_is_restarted_or_final_as_the_spec_says(namespace: Namespace, operator_image: str) -> None:
    soon = {"backoffSeconds": 0}
    rules = [{"onExitCodes": {"values": [42]}, "action": "FailJob", "message": "the licence server said no"}]
    namespace.apply(
        job("permanent", operator_image, exits(3), restart=soon | {"policy": "ExitCode"}),
        job("retryable", operator_image, FIRST_ATTEMPT_INTERRUPTED, restart=soon | {"policy": "ExitCode"}),
        job("never", operator_image, exits(137), restart={"policy": "Never"}),
        job("again", operator_image, exits(130), restart=soon | {"maxRestarts": 1}),
        job("ruled", operator_image, exits(42), restart=soon, failureRules=rules),
        job("greedy", operator_image, TOO_MUCH_MEMORY, limits={"memory": "64Mi"}, restart={"policy": "Never"}),
    )
    assert outcome(namespace.until_phase("permanent", "Failed")) == ("Failed", 0, "Error", 3)
    assert outcome(namespace.until_phase("retryable", "Succeeded")) == ("Succeeded", 1, "SIGINT", 130)
    assert outcome(namespace.until_phase("never", "Failed")) == ("Failed", 0, "SIGKILL", 137)
    assert outcome(namespace.until_phase("again", "Failed")) == ("Failed", 1, "SIGINT", 130)
    assert namespace.condition("again", "Failed")["reason"] == "MaxRestartsReached"
    assert outcome(namespace.until_phase("ruled", "Failed")) == ("Failed", 0, "Error", 42)
    assert "the licence server said no" in namespace.condition("ruled", "Failed")["message"]
    assert outcome(namespace.until_phase("greedy", "Failed")) == ("Failed", 0, "OOMKilled", 137)
    assert "limits.memory" in namespace.condition("greedy", "Failed")["message"]


def test_the_example_of_failure_rules_restarts_in_spite_of_its_policy(
    namespace: Namespace, operator_image: str
) -> None:
    manifest = example("failure-rules.yaml")
    manifest["spec"]["template"]["spec"]["containers"][0]["image"] = operator_image
    namespace.apply(manifest)
    done = namespace.until_phase("failure-rules", "Succeeded")
    assert outcome(done) == ("Succeeded", 1, "Error", 42)
    assert "the licence server was busy" in done["lastFailure"]["message"]


def test_a_job_that_is_over_is_cleaned_up_as_its_spec_says(namespace: Namespace, operator_image: str) -> None:
    namespace.apply(
        job("chief", operator_image, CHIEF_ENDS, workers=2, success={"policy": "Chief"}),
        job("clean", operator_image, "pass", cleanPodPolicy="All"),
        job("brief", operator_image, "pass", ttlSecondsAfterFinished=1),
        job("late", operator_image, SLEEP, activeDeadlineSeconds=5),
    )
    left = lambda name: namespace.list("pods,services", f"{names.LABEL_JOB}={name}")  # noqa: E731
    namespace.until_phase("clean", "Succeeded")
    namespace.until("pods and service of the clean job to go", lambda: not left("clean"), 60)
    namespace.until("the brief job to go", lambda: not namespace.get("dtj", "brief") and not left("brief"), 60)
    namespace.until_phase("late", "Failed")
    assert namespace.condition("late", "Failed")["reason"] == "DeadlineExceeded"
    namespace.until_phase("chief", "Succeeded")
    assert namespace.condition("chief", "Succeeded")["reason"] == "ChiefSucceeded"

    def ended(name: str) -> bool:
        return all(pod["status"]["phase"] != "Running" for pod in namespace.list("pods", f"{names.LABEL_JOB}={name}"))

    namespace.until("workers that are no longer needed to be stopped", lambda: ended("chief") and ended("late"), 60)


def test_a_job_that_cannot_start_is_given_up_in_time_and_one_that_can_goes_on(
    namespace: Namespace, operator_image: str
) -> None:
    patient = job("patient", operator_image, "pass")
    patient["spec"]["template"]["spec"]["containers"][0]["envFrom"] = [{"configMapRef": {"name": "later"}}]
    image = "localhost:5001/no-such-image:1"
    namespace.apply(patient, job("typo", image, "pass", health={"startupTimeoutSeconds": 10}))
    missing = lambda: namespace.condition("patient", "Running").get("reason") == "ContainerConfigError"  # noqa: E731
    namespace.until("the missing ConfigMap to be seen", missing, 60)
    assert '"later" not found' in namespace.condition("patient", "Running")["message"]
    namespace.kubectl("create", "configmap", "later")
    assert outcome(namespace.until_phase("typo", "Failed")) == ("Failed", 0, "ImagePullFailed", None)
    assert image in namespace.condition("typo", "Failed")["message"]
    namespace.until_phase("patient", "Succeeded")


def test_the_first_cause_is_named_and_not_the_worker_that_lost_its_peer(
    namespace: Namespace, operator_image: str
) -> None:
    namespace.kubectl("create", "configmap", "code", f"--from-literal=train.py={LOST_PEER}")
    manifest = job("blame", operator_image, "", workers=2, restart={"policy": "Never"})
    pod = manifest["spec"]["template"]["spec"]
    pod["containers"][0] |= {
        "command": ["python", "/app/train.py"],
        "volumeMounts": [{"name": "code", "mountPath": "/app"}],
    }
    pod["volumes"] = [{"name": "code", "configMap": {"name": "code"}}]
    namespace.apply(manifest)
    failure = namespace.until_phase("blame", "Failed")["lastFailure"]
    assert (failure["worker"], failure["rank"], failure["exitCode"]) == (1, 1, 1)
    assert "ValueError: row 7 has no label (/app/train.py:5 in load)" in failure["message"]
    assert failure["node"] == namespace.pod("blame", 1)["spec"]["nodeName"]
    [other] = failure["evidence"]
    assert "worker 0" in other
    assert "Connection closed by peer" in other
