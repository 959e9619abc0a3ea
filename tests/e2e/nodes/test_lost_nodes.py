"""A node is lost while a gang trains on it: the job goes on elsewhere, and what lives on there can do no harm."""

import json
from datetime import datetime
from typing import Any

from dtj_api import names
from dtj_api.exit_codes import ExitCode
from dtj_testbed.cluster import Cluster

from tests.e2e.jobs import gpt_job
from tests.e2e.namespace import Namespace, losses
from tests.e2e.nodes.lossy import LossyNode, worker_on

Object = dict[str, Any]

LOST_NODE_SECONDS = 5
# The testbed's controller manager calls a silent node not ready after 20 s; the rest is for a loaded machine.
SEEN_SECONDS = LOST_NODE_SECONDS + 20 + 15
# Stops the rank in a container while it still imports torch: before it looks for the others.
# The brackets keep the pattern from matching the shell that it is written in.
RANK = "'[p]ython[0-9.]* -m dtj_trainer'"
STOP_A_STARTING_RANK = f"until pkill -STOP -f {RANK}; do sleep 0.05; done"
CONTINUE = f"pkill -CONT -f {RANK}"


def job(name: str, *, workers: int, **training: Any) -> Object:
    made = gpt_job(name, workers=workers, **training)
    made["spec"] |= {"health": {"lostNodeSeconds": LOST_NODE_SECONDS}, "monitoring": {"progressSeconds": 1}}
    return made


def place(manifest: Object, **affinity: Any) -> None:
    manifest["spec"]["template"]["spec"]["affinity"] = affinity


def preferring(node: str) -> Object:
    """Node affinity, if it can be had."""
    here = {"matchExpressions": [{"key": names.LABEL_NODE, "operator": "In", "values": [node]}]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": here}]}


def spread(job: str) -> Object:
    """Pod anti-affinity, if it can be had."""
    mates = {"topologyKey": names.LABEL_NODE, "labelSelector": {"matchLabels": {names.LABEL_JOB: job}}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": mates}]}


def until_attempt(namespace: Namespace, name: str, attempt: int) -> Object:
    """The status once that attempt has begun."""

    def begun() -> Object | None:
        status = namespace.status(name)
        return status if status["attempt"] >= attempt else None

    found = namespace.until(f"attempt {attempt}", begun, SEEN_SECONDS)
    assert isinstance(found, dict)
    return found


def events(lines: list[Object], event: str) -> list[Object]:
    return [line for line in lines if line["event"] == event]


def test_a_worker_whose_kubelet_hangs_is_fenced_off_the_checkpoints(
    namespace: Namespace, lossy_node: LossyNode, shared_claim: str, cluster: Cluster
) -> None:
    folder = f"/shared/{namespace.name}"
    # so many steps that the old worker does not end by itself
    manifest = job("fence", workers=1, steps=1000000, log={"everySteps": 20})
    manifest["spec"]["checkpoint"] = {"claimName": shared_claim, "everySteps": 20, "keepLast": 100}
    place(manifest, nodeAffinity=preferring(lossy_node.name))
    namespace.apply(manifest)
    namespace.until_step("fence", 20)
    old = namespace.pod("fence", 0)
    assert old["spec"]["nodeName"] == lossy_node.name
    lossy_node.freeze()
    failure = until_attempt(namespace, "fence", 1)["lastFailure"]
    assert (failure["reason"], failure["worker"], failure["node"]) == ("NodeLost", 0, lossy_node.name)
    assert lossy_node.alive(old)

    namespace.until("the old worker to end", lambda: not lossy_node.alive(old))
    assert lossy_node.container(old)["exitCode"] == ExitCode.FENCED
    namespace.until("a checkpoint", lambda: namespace.status("fence")["checkpoint"]["attempt"] == 1)
    [start] = events(namespace.log(names.pod("fence", 1, 0)), "training")
    record = json.loads(cluster.exec_on_node(cluster.nodes[0], "cat", f"{folder}/attempt.json"))
    assert record["attempt"] == 1
    assert all(attempt == (step > start["step"]) for step, attempt in checkpoint_attempts(cluster, folder).items())

    lossy_node.recover()
    namespace.until("the old pod to be gone", lambda: not namespace.pod("fence", 0), 60)
    assert namespace.status("fence")["attempt"] == 1
    namespace.patch("fence", suspend=True)
    namespace.kubectl("wait", "--for=condition=Suspended", "dtj/fence", "--timeout=90s")
    saved = namespace.status("fence")["checkpoint"]["step"]
    namespace.patch("fence", suspend=False, training={"steps": saved + 5})
    done = namespace.until_phase("fence", "Succeeded")
    assert (done["attempt"], done["restarts"], done["progress"]["step"]) == (2, 1, saved + 5)


def checkpoint_attempts(cluster: Cluster, folder: str) -> dict[int, int]:
    """The attempt that wrote each checkpoint, by step."""
    command = f"cd {folder} && grep -H '\"attempt\":' step-*/manifest.json"
    lines = cluster.exec_on_node(cluster.nodes[0], "sh", "-c", command).splitlines()
    # step-00000020/manifest.json: "attempt": 0,
    return {int(line[5:13]): int(line.rsplit(":", 1)[1].strip(" ,")) for line in lines}


def test_a_straggler_does_not_get_into_the_next_attempt(namespace: Namespace, lossy_node: LossyNode) -> None:
    manifest = job("gang", workers=2, steps=40, log={"everySteps": 1})
    place(manifest, podAntiAffinity=spread("gang"))
    namespace.apply(manifest)
    lossy_node.run("timeout", "60", "sh", "-c", STOP_A_STARTING_RANK)
    straggler = worker_on(namespace, "gang", lossy_node.name, 2)
    lossy_node.freeze()
    until_attempt(namespace, "gang", 1)
    mates = [namespace.until("a worker", lambda w=worker: namespace.pod("gang", w, 1)) for worker in range(2)]
    namespace.until_step("gang", 1, attempt=1)
    lossy_node.run("sh", "-c", CONTINUE)

    done = namespace.until_phase("gang", "Succeeded")
    assert (done["attempt"], done["worldSize"]) == (1, 2)
    assert {namespace.pod("gang", worker, 1)["metadata"]["uid"] for worker in range(2)} == {
        pod["metadata"]["uid"] for pod in mates
    }
    waiting = lambda: events(lossy_node.log(straggler), "waiting")  # noqa: E731
    namespace.until("the straggler to look for its gang", waiting, 60)
    assert lossy_node.alive(straggler)
    assert not [line for line in lossy_node.log(straggler) if line["event"] in ("training", "step")]


def test_a_paused_node_costs_its_gang_one_attempt_and_no_step_that_was_saved(
    namespace: Namespace, lossy_node: LossyNode, shared_claim: str, cluster: Cluster
) -> None:
    calm, rough = (job(name, workers=2, steps=200, log={"everySteps": 10}) for name in ("calm", "rough"))
    calm["spec"]["template"]["spec"]["nodeSelector"] = {names.LABEL_NODE: cluster.nodes[0]}
    rough["spec"]["checkpoint"] = {"claimName": shared_claim, "everySteps": 10}
    place(rough, podAntiAffinity=spread("rough"))
    namespace.apply(calm, rough)
    namespace.until_step("rough", 11)
    lost = worker_on(namespace, "rough", lossy_node.name, 2)
    lossy_node.pause()
    seen = until_attempt(namespace, "rough", 1)
    failure = seen["lastFailure"]
    assert (failure["reason"], failure["node"]) == ("NodeLost", lossy_node.name)
    assert failure["worker"] == int(lost["metadata"]["labels"][names.LABEL_WORKER])
    assert lossy_node.name in seen["attempts"][0]["message"]
    unready, begun = (datetime.fromisoformat(when) for when in (failure["time"], seen["attempts"][1]["startTime"]))
    assert LOST_NODE_SECONDS <= (begun - unready).total_seconds() < LOST_NODE_SECONDS + 10

    done = namespace.until_phase("rough", "Succeeded")
    namespace.until_phase("calm", "Succeeded")
    assert (done["attempt"], done["restarts"], done["progress"]["step"]) == (1, 1, 200)
    lines = namespace.log(names.pod("rough", 1, 0))
    [start] = events(lines, "training")
    assert start["step"] >= 10
    regular = {step: loss for step, loss in losses(lines).items() if step % 10 == 0}
    assert max(regular) == 200
    assert regular.items() <= losses(namespace.log(names.pod("calm", 0, 0))).items()
