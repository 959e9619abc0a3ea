"""Jobs that train on the cluster, as their user sees them."""

import re

import pytest
from dtj_api import names

from tests.e2e.jobs import EXAMPLES, example, gpt_job, inspector
from tests.e2e.namespace import Namespace

OWNED = "pods,services,pvc"


def scrape(namespace: Namespace, pod: str) -> dict[str, float]:
    """Samples of the pod's /metrics, through the API server."""
    path = f"/api/v1/namespaces/{namespace.name}/pods/{pod}:9464/proxy/metrics"
    lines = namespace.kubectl("get", "--raw", path, check=False).splitlines()
    return {m[1]: float(m[2]) for line in lines if (m := re.match(r"(\w+\{.*\}) (\S+)$", line))}


def test_the_demo_job_learns_more_than_a_bigram_and_its_checkpoint_proves_it(
    namespace: Namespace, trainer_image: str
) -> None:
    job = example("gpt-ddp.yaml")
    total = job["spec"]["training"]["steps"]
    namespace.apply(job)
    running = namespace.until_step("gpt", 1)
    assert running["phase"] == "Running"
    assert running["worldSize"] == 4
    assert running["workers"]["summary"] == "2/2"
    nodes = {namespace.pod("gpt", worker)["spec"]["nodeName"] for worker in range(2)}
    assert len(nodes) == 2, "the workers share a node"
    samples = namespace.until("metrics of all ranks", lambda: scrape(namespace, names.pod("gpt", 0, 1)))
    ranks = {m[1] for key in samples if key.startswith("dtj_step{") and (m := re.search(r'rank="(\d+)"', key))}
    assert ranks == {"2", "3"}

    seen = namespace.until("a checkpoint while it runs", lambda: namespace.status("gpt").get("checkpoint"))
    assert seen["step"] < total

    done = namespace.until_phase("gpt", "Succeeded")
    assert done["progress"]["step"] == total
    assert done["checkpoint"]["step"] == total
    assert done["startTime"] <= done["firstStepTime"] <= done["completionTime"]
    namespace.kubectl("wait", "--for=condition=Succeeded", "dtj/gpt", "--timeout=1s")
    row = namespace.kubectl("get", "dtj", "gpt").splitlines()[1].split()
    assert row[:4] == ["gpt", "Succeeded", done["workers"]["summary"], str(total)]

    command = ["python", "-m", "dtj_trainer", "--evaluate", "/checkpoints", "--bigram"]
    namespace.apply(inspector(trainer_image, names.checkpoint_claim("gpt"), command))
    namespace.until_pod_succeeds("inspector")
    words = namespace.kubectl("logs", "inspector")
    loss = float(re.search(r"validation loss (\d+\.\d+)", words)[1])  # type: ignore[index]
    bigram = float(re.search(r"bigram[^\d]*(\d+\.\d+)", words)[1])  # type: ignore[index]
    assert loss == pytest.approx(done["progress"]["evalLoss"], abs=2e-4)
    assert loss < bigram - 0.05

    namespace.kubectl("delete", "pod", "inspector")
    namespace.kubectl("delete", "dtj", "gpt")
    namespace.until("nothing left of the job", lambda: not namespace.list(OWNED, f"{names.LABEL_JOB}=gpt"), 60)


@pytest.mark.parametrize(
    ("job", "mesh"),
    [
        ("gpt-single", {}),
        ("gpt-compression", {"replicate": 2}),
        ("gpt-fsdp", {"shard": 4}),
        ("gpt-hsdp", {"replicate": 2, "shard": 2}),
        ("gpt-tensor", {"tensor": 2}),
        ("gpt-pipeline", {"pipeline": 2}),
        ("gpt-3d", {"shard": 2, "tensor": 2, "pipeline": 2}),
    ],
)
def test_the_example_of_each_strategy_learns(
    namespace: Namespace, trainer_image: str, job: str, mesh: dict[str, int]
) -> None:
    namespace.apply(example(f"{job}.yaml"))
    done = namespace.until_phase(job, "Succeeded")
    assert done["mesh"] == {"replicate": 1, "shard": 1, "tensor": 1, "pipeline": 1} | mesh
    assert done["checkpoint"]["step"] == done["progress"]["step"] == 100
    assert done["progress"]["evalLoss"] < 2.8, "no better than the frequencies of letters"
    strategy = example(f"{job}.yaml")["spec"]["training"].get("strategy", "ddp")
    assert strategy in namespace.kubectl("get", "dtj", job, "-o", "wide")
    if job in ("gpt-fsdp", "gpt-3d"):
        # what many ranks have saved, one process reads
        command = ["python", "-m", "dtj_trainer", "--evaluate", "/checkpoints"]
        namespace.apply(inspector(trainer_image, names.checkpoint_claim(job), command))
        namespace.until_pod_succeeds("inspector")
        words = namespace.kubectl("logs", "inspector")
        loss = float(re.search(r"validation loss (\d+\.\d+)", words)[1])  # type: ignore[index]
        assert loss == pytest.approx(done["progress"]["evalLoss"], abs=2e-4)


def test_a_model_of_the_users_own_is_sharded(namespace: Namespace) -> None:
    code = EXAMPLES / "my_models.py"
    namespace.kubectl("create", "configmap", "my-models", f"--from-file=my_models.py={code}")
    namespace.apply(example("own-model.yaml"))
    done = namespace.until_phase("own-model", "Succeeded")
    assert done["progress"]["evalLoss"] < 2.8, "no better than the frequencies of letters"


def test_a_job_deleted_while_it_trains_leaves_nothing(namespace: Namespace) -> None:
    job = gpt_job("gone", steps=100000)
    job["spec"]["checkpoint"] = {"size": "100Mi", "everySteps": 50}
    namespace.apply(job)
    namespace.until_step("gone", 10)
    assert len(namespace.list(OWNED, f"{names.LABEL_JOB}=gone")) == 4
    namespace.kubectl("delete", "dtj", "gone", "--timeout=5s")
    namespace.until("nothing left of the job", lambda: not namespace.list(OWNED, f"{names.LABEL_JOB}=gone"), 120)


@pytest.mark.xdist_group("operator")
def test_a_restarted_operator_goes_on_where_it_was(namespace: Namespace) -> None:
    namespace.apply(gpt_job("steady", steps=150, log={"everySteps": 5}))
    before = namespace.until_step("steady", 1)
    pods = {pod["metadata"]["uid"] for pod in namespace.list("pods")}
    system = Namespace("dtj-system")
    system.kubectl("delete", "pod", "-l", "app.kubernetes.io/name=dtj-operator", "--grace-period=0", "--force")
    done = namespace.until_phase("steady", "Succeeded")
    assert {pod["metadata"]["uid"] for pod in namespace.list("pods")} == pods
    assert done["startTime"] == before["startTime"]
    assert done["attempt"] == 0


@pytest.mark.parametrize(("file", "job"), [("mlp-digits.yaml", "digits"), ("vision-digits.yaml", "vision")])
def test_an_example_classifies_digits_on_one_pod(namespace: Namespace, file: str, job: str) -> None:
    namespace.apply(example(file))
    done = namespace.until_phase(job, "Succeeded")
    assert done["progress"]["evalLoss"] < 0.5
