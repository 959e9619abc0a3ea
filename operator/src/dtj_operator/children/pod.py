"""The pod of one worker: the user's template, with what a rank needs added. Pure.

What the user wrote stays, save for what makes the gang a gang: host name, labels, restart policy, rank environment.
"""

import copy
import json

from dtj_api import environment, names
from dtj_api.spec import encode_run_config, run_config
from dtj_api.template import trainer_container
from dtj_api.validation import processes_per_worker

from dtj_operator.children import network, volumes
from dtj_operator.children.blueprint import Blueprint, Object

# long enough to save a checkpoint after SIGTERM
TRAINER_GRACE_SECONDS = 60
UNPRIVILEGED_USER = 1000


def build(blueprint: Blueprint, worker: int) -> Object:
    """The pod that worker `worker` should have. The template has a sound form; what it says may still be refused."""
    template = copy.deepcopy(dict(blueprint.spec.template or {}))
    spec: Object = template.get("spec", {})
    spec["containers"] = spec.get("containers") or [{"name": names.TRAINER_CONTAINER}]
    container = _trainer(spec)
    _join_gang(spec, blueprint, worker)
    _tell_rank(container, blueprint, worker)
    _connect(spec, container, blueprint)
    volumes.mount_scratch(spec, container)
    volumes.mount_checkpoints(spec, container, blueprint, worker)
    if blueprint.spec.training is not None:
        container["image"] = container.get("image") or blueprint.trainer_image
        volumes.mount_shared_memory(spec, container)
        _restrict(spec, container)
        spec.setdefault("terminationGracePeriodSeconds", TRAINER_GRACE_SECONDS)
        spec.setdefault("topologySpreadConstraints", [_spread(blueprint)])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(template.get("metadata", {}), blueprint, worker),
        "spec": spec,
    }


def _trainer(spec: Object) -> Object:
    """The container of `spec` itself, to be changed in place."""
    found = trainer_container({"spec": spec})
    containers: list[Object] = spec["containers"]
    return next(container for container in containers if container is found)


def _metadata(given: Object, blueprint: Blueprint, worker: int) -> Object:
    metadata = blueprint.attempt_metadata(names.pod(blueprint.job, blueprint.attempt, worker))
    own_labels = metadata["labels"] | {names.LABEL_WORKER: str(worker)}
    metadata["labels"] = given.get("labels", {}) | own_labels
    annotations = given.get("annotations", {})
    if blueprint.spec.training is not None:
        annotations = _prometheus(blueprint.spec.monitoring.port) | annotations
    if annotations:
        metadata["annotations"] = annotations
    return metadata


def _prometheus(port: int) -> dict[str, str]:
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(port),
        "prometheus.io/path": names.METRICS_PATH,
    }


def _join_gang(spec: Object, blueprint: Blueprint, worker: int) -> None:
    spec["hostname"] = names.pod(blueprint.job, blueprint.attempt, worker)
    spec["subdomain"] = names.service(blueprint.job, blueprint.attempt)
    # a rank that died cannot rejoin: the gang is replaced as a whole
    spec["restartPolicy"] = "Never"
    spec.setdefault("automountServiceAccountToken", False)
    # one variable a service of the namespace: thousands in a busy one
    spec.setdefault("enableServiceLinks", False)


def _tell_rank(container: Object, blueprint: Blueprint, worker: int) -> None:
    variables = rank_environment(blueprint, worker)
    own = [{"name": name, "value": value} for name, value in variables.items()]
    # first, so that the user's own can refer to them: WORLD=$(WORLD_SIZE)
    container["env"] = own + container.get("env", [])
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")


def _connect(spec: Object, container: Object, blueprint: Blueprint) -> None:
    asked = blueprint.spec.network
    network.open_port(container, names.METRICS_PORT_NAME, blueprint.spec.monitoring.port)
    if asked.host_network:
        network.use_host_network(spec, container)
    if asked.rdma_resource is not None:
        network.use_rdma(container, asked.rdma_resource)


def rank_environment(blueprint: Blueprint, worker: int) -> dict[str, str]:
    """All that the trainer container of `worker` is told."""
    spec, job, attempt = blueprint.spec, blueprint.job, blueprint.attempt
    token = names.rendezvous_token(blueprint.uid, attempt)
    gang = environment.Gang(
        workers=spec.workers,
        processes=processes_per_worker(spec),
        worker=worker,
        master_addr=names.worker_host(job, attempt, 0, blueprint.namespace),
        master_port=names.MASTER_PORT,
    )
    variables = gang.pod_environment() | {
        environment.PET_RDZV_ID: token,
        environment.RENDEZVOUS_TOKEN: token,
        environment.JOB: job,
        environment.NAMESPACE: blueprint.namespace,
        environment.ATTEMPT: str(attempt),
        environment.METRICS_PORT: str(spec.monitoring.port),
    }
    if spec.checkpoint is not None:
        variables[environment.CHECKPOINT_DIR] = spec.checkpoint.mount_path
    if spec.training is not None:
        variables[environment.CONFIG] = json.dumps(encode_run_config(run_config(spec)), separators=(",", ":"))
    return variables | network.interface_variables(spec.network)


def _restrict(spec: Object, container: Object) -> None:
    """What the `restricted` pod security standard asks for, where the user has not said otherwise."""
    pod = spec["securityContext"] = dict(spec.get("securityContext", {}))
    own = container["securityContext"] = dict(container.get("securityContext", {}))
    user = own.get("runAsUser", pod.get("runAsUser"))
    if user != 0:
        pod.setdefault("runAsNonRoot", True)
    for name in ("runAsUser", "runAsGroup", "fsGroup"):
        pod.setdefault(name, UNPRIVILEGED_USER)
    pod.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    own.setdefault("readOnlyRootFilesystem", True)
    capabilities = own["capabilities"] = dict(own.get("capabilities", {}))
    capabilities.setdefault("drop", ["ALL"])
    # the API server refuses these beside allowPrivilegeEscalation: false
    if not own.get("privileged") and "SYS_ADMIN" not in capabilities.get("add", []):
        own.setdefault("allowPrivilegeEscalation", False)


def _spread(blueprint: Blueprint) -> Object:
    return {
        "maxSkew": 1,
        "topologyKey": names.LABEL_NODE,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": blueprint.attempt_selector()},
    }
