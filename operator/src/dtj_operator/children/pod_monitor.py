"""The PodMonitor of a job, for prometheus-operator. Pure."""

from dtj_api import names

from dtj_operator.children.blueprint import Blueprint, Object


def build(blueprint: Blueprint) -> Object | None:
    """One for all attempts; how often is Prometheus' own default."""
    if not blueprint.spec.monitoring.pod_monitor:
        return None
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": blueprint.job_metadata(blueprint.job),
        "spec": {
            "selector": {"matchLabels": {names.LABEL_JOB: blueprint.job}},
            "podMetricsEndpoints": [{"port": names.METRICS_PORT_NAME, "path": names.METRICS_PATH}],
        },
    }
