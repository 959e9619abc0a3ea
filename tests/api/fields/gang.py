"""Rows of what the gang and its pods look like: workers, template, network, monitoring."""

from typing import Any

from tests.api.fields.rows import Children, ChildRow, Row, environment, pod, trainer
from tests.api.harness import SCRIPT, TRAINING, Object

SCRIPT_BASE: Object = {"workers": 1, "template": SCRIPT}


def template(metadata: Object | None = None, pod: Object | None = None, **container: Any) -> Object:
    spec = {"containers": [{"name": "trainer", **container}], **(pod or {})}
    return {"template": {"spec": spec, **({"metadata": metadata} if metadata else {})}}


GPUS = template(resources={"limits": {"nvidia.com/gpu": "4"}})


def worlds(children: Children) -> Any:
    pods = sum(name.startswith("Pod ") for name in children)
    return pods, environment("WORLD_SIZE", "LOCAL_WORLD_SIZE")(children)


def policy_of_network(children: Children) -> Any:
    return any(name.startswith("NetworkPolicy ") for name in children)


def ports(children: Children) -> Any:
    service = children["Service JOB-A"]["spec"]["ports"]
    return (
        environment("DTJ_METRICS_PORT")(children)[0],
        [p["containerPort"] for p in trainer(children)["ports"]],
        [p["port"] for p in service if p["name"] == "metrics"],
        pod(children)["metadata"]["annotations"]["prometheus.io/port"],
    )


def rdma(children: Children) -> Any:
    container = trainer(children)
    limits = (container.get("resources") or {}).get("limits") or {}
    return limits.get("rdma/hca"), (container["securityContext"]["capabilities"]).get("add")


ROWS: list[Row] = [
    ChildRow(
        path="workers",
        valid={"workers": 2},
        invalid={"workers": 0},
        says="spec.workers.*greater than or equal to 1",
        look=worlds,
        shows=(2, ("4", "2")),
    ),
    ChildRow(
        path="processesPerWorker",
        valid={"processesPerWorker": 4},
        invalid={"processesPerWorker": 0},
        says='must be a whole number from 1 to 256, or "auto"',
        look=worlds,
        shows=(1, ("4", "4")),
    ),
    ChildRow(
        path="processesPerWorker",
        name="auto",
        given=GPUS,
        valid={"processesPerWorker": "auto"},
        invalid={"processesPerWorker": "all"},
        says='must be a whole number from 1 to 256, or "auto"',
        look=worlds,
        shows=(1, ("4", "4")),
    ),
    ChildRow(
        path="template",
        name="label",
        valid=template(metadata={"labels": {"team": "nlp"}}),
        invalid=template(metadata={"labels": {"team": "not a label"}}),
        says="metadata.labels: Invalid value",
        look=lambda children: pod(children)["metadata"]["labels"].get("team"),
        shows="nlp",
    ),
    ChildRow(
        path="template",
        name="image",
        base=SCRIPT_BASE,
        valid=template(image="example.test/mine:2"),
        invalid={"template": {"spec": {"containers": [{"name": "trainer"}]}}},
        says=r"spec\.template\.spec\.containers\[0\]\.image: is missing; name the image",
        look=lambda children: trainer(children)["image"],
        shows="example.test/mine:2",
    ),
    ChildRow(
        path="template",
        name="variable",
        valid=template(env=[{"name": "MINE", "value": "1"}]),
        invalid=template(env=[{"name": "WORLD_SIZE", "value": "1"}]),
        says=r"containers\[0\]\.env\[0\]\.name: WORLD_SIZE is set by the operator; remove it",
        look=environment("MINE", "WORLD_SIZE"),
        shows=("1", "2"),
    ),
    ChildRow(
        path="template",
        name="resources",
        valid=template(resources={"requests": {"cpu": "2"}}),
        invalid=template(resources={"requests": {"cpu": "many"}}),
        says="quantities must match|is not a quantity",
        look=lambda children: trainer(children).get("resources"),
        shows={"requests": {"cpu": "2"}},
    ),
    ChildRow(
        path="template",
        name="command",
        base=SCRIPT_BASE,
        valid=template(image="example.test/mine:1", command=["torchrun", "x.py"]),
        invalid={"training": TRAINING},
        says=r"containers\[0\]\.command: cannot be set beside spec\.training",
        look=lambda children: trainer(children)["command"],
        shows=["torchrun", "x.py"],
    ),
    ChildRow(
        path="template",
        name="placement",
        valid=template(pod={"nodeSelector": {"disk": "ssd"}}),
        invalid=template(pod={"volumes": [{"name": "h", "hostPath": {"path": "/"}}]}),
        says="hostPath",
        look=lambda children: pod(children)["spec"].get("nodeSelector"),
        shows={"disk": "ssd"},
    ),
    ChildRow(
        path="network.policy",
        valid={"network": {"policy": "Open"}},
        invalid={"network": {"policy": "Closed"}},
        says='Unsupported value: "Closed"',
        look=policy_of_network,
        shows=False,
    ),
    ChildRow(
        path="network.hostNetwork",
        valid={"network": {"hostNetwork": True}},
        invalid={"network": {"hostNetwork": "yes"}},
        says='hostNetwork.*must be of type boolean: "string"',
        look=lambda children: pod(children)["spec"].get("hostNetwork"),
        shows=True,
    ),
    ChildRow(
        path="network.rdmaResource",
        valid={"network": {"rdmaResource": "rdma/hca"}},
        invalid={"network": {"rdmaResource": "hca"}},
        says="rdmaResource.*should match",
        look=rdma,
        shows=("1", ["IPC_LOCK"]),
    ),
    ChildRow(
        path="network.interface",
        valid={"network": {"interface": "eth1"}},
        invalid={"network": {"interface": "eth 1"}},
        says="interface.*should match",
        look=environment("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"),
        shows=("=eth1", "eth1"),
    ),
    ChildRow(
        path="monitoring.port",
        valid={"monitoring": {"port": 9999}},
        invalid={"monitoring": {"port": 29500}},
        says=r"spec\.monitoring\.port: 29500 is the port of the ranks' rendezvous; choose another",
        look=ports,
        shows=("9999", [9999], [9999], "9999"),
    ),
    ChildRow(
        path="monitoring.podMonitor",
        valid={"monitoring": {"podMonitor": True}},
        invalid={"monitoring": {"podMonitor": 1}},
        says="podMonitor.*must be of type boolean",
        look=lambda children: any(name.startswith("PodMonitor ") for name in children),
        shows=True,
    ),
]
