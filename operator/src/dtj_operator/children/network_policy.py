"""The network policy of one attempt: who may reach its ranks. Pure."""

from dtj_api import names

from dtj_operator.children.blueprint import Blueprint, Object


def build(blueprint: Blueprint) -> Object | None:
    """Lets in the attempt's own pods, and metrics scrapers to their port: anybody, where the operator was not told
    which namespaces they are in. Where pods go out to is left open: a user's data may be anywhere. Pods in their node's
    network are out of any policy's reach."""
    network = blueprint.spec.network
    if network.policy == "Open" or network.host_network:
        return None
    own_pods = {"podSelector": {"matchLabels": blueprint.attempt_selector()}}
    metrics: Object = {"ports": [{"protocol": "TCP", "port": blueprint.spec.monitoring.port}]}
    if blueprint.scraper_namespaces:
        metrics["from"] = [{"namespaceSelector": _among(blueprint.scraper_namespaces)}]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": blueprint.attempt_metadata(names.service(blueprint.job, blueprint.attempt)),
        "spec": {
            **own_pods,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [own_pods]}, metrics],
        },
    }


def _among(namespaces: tuple[str, ...]) -> Object:
    return {"matchExpressions": [{"key": names.LABEL_NAMESPACE, "operator": "In", "values": list(namespaces)}]}
