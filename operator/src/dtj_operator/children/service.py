"""The headless service of one attempt: it gives every worker a DNS name. Pure."""

from dtj_api import names

from dtj_operator.children.blueprint import Blueprint, Object


def build(blueprint: Blueprint) -> Object:
    """Addresses are published before pods are ready: no worker is, until all have found each other."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": blueprint.attempt_metadata(names.service(blueprint.job, blueprint.attempt)),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": blueprint.attempt_selector(),
            "ports": [
                {"name": "master", "port": names.MASTER_PORT},
                {"name": names.METRICS_PORT_NAME, "port": blueprint.spec.monitoring.port},
            ],
        },
    }
