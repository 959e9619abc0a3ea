"""Rules of `spec.template`, a PodTemplateSpec that the CRD passes through as it is. Pure.

Its form is checked first, and only where rules and builders look: of the rest the API server's own words are better.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dtj_api import environment, names
from dtj_api.fields import FieldError
from dtj_api.spec import Network

# What a job may use of its nodes only where the operator was installed with `allow` of it.
HOST_FEATURES = ("hostNetwork", "hostPID", "hostIPC", "hostPath", "privileged")

REQUIRED_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"

# {}: an object; [x]: a list of x; a type: itself
_CONTAINER = {
    "name": str,
    "image": str,
    "env": [{"name": str}],
    "ports": [{"name": str}],
    "volumeMounts": [{"mountPath": str}],
    "resources": {"limits": {}, "requests": {}},
    "securityContext": {"privileged": bool, "capabilities": {"add": [str], "drop": [str]}},
}
_SELECTOR = {"matchLabels": {}, "matchExpressions": [{"key": str, "operator": str, "values": [str]}]}
_TERM = {
    "topologyKey": str,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [str],
    "mismatchLabelKeys": [str],
    "namespaces": [str],
    "namespaceSelector": {},
}
_SPREAD = {
    "topologyKey": str,
    "whenUnsatisfiable": str,
    "maxSkew": int,
    "labelSelector": _SELECTOR,
    "matchLabelKeys": [str],
}
_POD = {
    "containers": [_CONTAINER],
    "initContainers": [_CONTAINER],
    "volumes": [{"name": str, "hostPath": {}}],
    "securityContext": {},
    "affinity": {"podAffinity": {REQUIRED_TERMS: [{}]}, "podAntiAffinity": {REQUIRED_TERMS: [_TERM]}},
    "topologySpreadConstraints": [_SPREAD],
    "hostNetwork": bool,
    "hostPID": bool,
    "hostIPC": bool,
    "hostname": str,
    "subdomain": str,
    "restartPolicy": str,
    "dnsPolicy": str,
}
_METADATA: dict[str, Any] = {"labels": {}, "annotations": {}}
_TEMPLATE = {"metadata": _METADATA, "spec": _POD}
_WRITE = {
    str: "write a string; put it in quotation marks",
    bool: "write true or false",
    int: "write a whole number",
}


def examine_template(raw: Mapping[str, Any]) -> tuple[dict[str, Any], list[FieldError]]:
    """`raw` without nulls and without what has the wrong form, and those faults: what is made from it need not look at
    forms again."""
    faults: list[FieldError] = []
    sound: dict[str, Any] = _sound(raw, _TEMPLATE, "spec.template", faults)
    return sound, faults


def _sound(value: Any, shape: Any, path: str, faults: list[FieldError]) -> Any:
    """None where `value` itself has the wrong form."""
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            return faults.append(FieldError(path, "is not an object", "write its fields below it"))
        known = {name: value[name] for name in shape if value.get(name) is not None}
        sound = {name: _sound(item, shape[name], f"{path}.{name}", faults) for name, item in known.items()}
        return {name: item for name, item in {**value, **sound}.items() if item is not None or not shape}
    if isinstance(shape, list):
        if not isinstance(value, list):
            return faults.append(FieldError(path, "is not a list", "begin each of its items with '- '"))
        return [_sound_item(item, shape[0], f"{path}[{i}]", faults) for i, item in enumerate(value)]
    if not isinstance(value, shape):
        return faults.append(FieldError(path, f"is {value!r}", _WRITE[shape]))
    return value


def _sound_item(item: Any, shape: Any, path: str, faults: list[FieldError]) -> Any:
    """Something empty where `item` has the wrong form: the places of those after it stay."""
    if item is None:
        faults.append(FieldError(path, "is nothing", "write it out, or remove it"))
    sound = None if item is None else _sound(item, shape, path, faults)
    if sound is None:
        return {} if isinstance(shape, dict) else ""
    return sound


def containers(template: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Those that run side by side, of a template of sound form."""
    listed: list[Mapping[str, Any]] = template.get("spec", {}).get("containers", [])
    return listed


def trainer_container(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """The container that gets the rank environment: the one named `trainer`, or the first; {} where there is none."""
    listed = containers(template)
    named = [container for container in listed if container.get("name") == names.TRAINER_CONTAINER]
    return (named or listed or [{}])[0]


def trainer_path(template: Mapping[str, Any]) -> str:
    """Where `trainer_container` is, of a template that has one."""
    main = trainer_container(template)
    at = next(i for i, container in enumerate(containers(template)) if container is main)
    return f"spec.template.spec.containers[{at}]"


def template_errors(template: Mapping[str, Any]) -> Iterator[FieldError]:
    """What a template of sound form may not say, wherever it runs."""
    for key in template:
        if key not in _TEMPLATE:
            yield FieldError(f"spec.template.{key}", "is not a known field", "known here: metadata, spec")
    yield from _metadata_errors(template.get("metadata", {}))
    yield from _pod_errors(template.get("spec", {}))
    for i, container in enumerate(containers(template)):
        for j, variable in enumerate(container.get("env", [])):
            if environment.is_reserved(variable.get("name")):
                path = f"spec.template.spec.containers[{i}].env[{j}].name"
                yield FieldError(path, f"{variable['name']} is set by the operator", "remove it")


def _metadata_errors(metadata: Mapping[str, Any]) -> Iterator[FieldError]:
    path = "spec.template.metadata"
    for key in metadata:
        if key not in _METADATA:
            yield FieldError(f"{path}.{key}", "cannot be set", "remove it: only labels and annotations can")
    for key in metadata.get("labels", {}):
        if str(key).startswith(f"{names.GROUP}/"):
            yield FieldError(f"{path}.labels.{key}", "is set by the operator", "remove it")


def _pod_errors(pod: Mapping[str, Any]) -> Iterator[FieldError]:
    path = "spec.template.spec"
    if not pod.get("containers"):
        yield FieldError(f"{path}.containers", "has no container", f"add one named {names.TRAINER_CONTAINER}")
    for name in ("hostname", "subdomain"):
        if pod.get(name):
            yield FieldError(f"{path}.{name}", "is set by the operator", "remove it")
    policy = pod.get("restartPolicy") or "Never"
    if policy != "Never":
        problem = f"{policy} would restart one worker, but the gang is restarted as a whole"
        yield FieldError(f"{path}.restartPolicy", problem, "remove it and see spec.restart")
    if pod.get("hostNetwork"):
        remedy = "remove it and set spec.network.hostNetwork"
        yield FieldError(f"{path}.hostNetwork", "is set by spec.network.hostNetwork", remedy)


def host_features(listed: str) -> frozenset[str]:
    """Features of the host named in a list with commas.

    Raises:
        ValueError: one of them is none of HOST_FEATURES.
    """
    given = frozenset(name.strip() for name in listed.split(",")) - {""}
    if unknown := sorted(given - set(HOST_FEATURES)):
        raise ValueError(f"{', '.join(unknown)} is unknown; choose of {', '.join(HOST_FEATURES)}")
    return given


def host_errors(template: Mapping[str, Any], network: Network, allowed: frozenset[str]) -> Iterator[FieldError]:
    """Each thing a job asks of its nodes that is not `allowed`: some of HOST_FEATURES."""
    for feature, path in _host_features(template.get("spec", {}), network):
        if feature not in allowed:
            remedy = f"remove it, or ask whoever installed the operator to allow it (chart value allow: [{feature}])"
            yield FieldError(path, "opens the node to the job, which is not allowed here", remedy)


def _host_features(pod: Mapping[str, Any], network: Network) -> Iterator[tuple[str, str]]:
    """The features of the host that are used, and where."""
    path = "spec.template.spec"
    if network.host_network:
        yield "hostNetwork", "spec.network.hostNetwork"
    for feature in ("hostPID", "hostIPC"):
        if pod.get(feature):
            yield feature, f"{path}.{feature}"
    for i, volume in enumerate(pod.get("volumes", [])):
        if "hostPath" in volume:
            yield "hostPath", f"{path}.volumes[{i}].hostPath"
    for kind in ("initContainers", "containers"):
        for i, container in enumerate(pod.get(kind, [])):
            if container.get("securityContext", {}).get("privileged"):
                yield "privileged", f"{path}.{kind}[{i}].securityContext.privileged"


def interface_errors(template: Mapping[str, Any], network: Network) -> Iterator[FieldError]:
    """`network.interface` beside the variables it sets: two ways to say one thing."""
    if network.interface is None:
        return
    for i, variable in enumerate(trainer_container(template).get("env", [])):
        if variable.get("name") in (environment.NCCL_INTERFACE, environment.GLOO_INTERFACE):
            problem = f"{variable['name']} is set by spec.network.interface"
            yield FieldError(f"{trainer_path(template)}.env[{i}].name", problem, "remove one of them")
