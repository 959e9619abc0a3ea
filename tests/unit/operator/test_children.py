"""children/pod.py: a worker's pod in full, and what of the user's template is left alone."""

import json

import pytest
from dtj_operator import children
from dtj_operator.children import pod

from tests.unit.operator.blueprints import OWNER, Object, blueprint, template, trainer_of, variables
from tests.unit.operator.builders import SCRIPT, TRAINING


def test_script_pod_in_full() -> None:
    given = template(
        {"command": ["python", "x.py"], "env": [{"name": "MINE", "value": "1"}]},
        {"labels": {"team": "a"}, "annotations": {"note": "kept"}},
        nodeSelector={"disk": "ssd"},
    )
    assert pod.build(blueprint(template=given), 1) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "gpt-0-1",
            "namespace": "ml",
            "labels": {
                "team": "a",
                "dtj.dev/job": "gpt",
                "dtj.dev/attempt": "0",
                "dtj.dev/worker": "1",
                "app.kubernetes.io/managed-by": "dtj-operator",
            },
            "annotations": {"note": "kept"},
            "ownerReferences": [OWNER],
        },
        "spec": {
            "hostname": "gpt-0-1",
            "subdomain": "gpt-0",
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "nodeSelector": {"disk": "ssd"},
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [
                {
                    "name": "trainer",
                    "image": "mine:1",
                    "command": ["python", "x.py"],
                    "env": [
                        {"name": "WORLD_SIZE", "value": "2"},
                        {"name": "LOCAL_WORLD_SIZE", "value": "1"},
                        {"name": "NODE_RANK", "value": "1"},
                        {"name": "MASTER_ADDR", "value": "gpt-0-0.gpt-0.ml.svc"},
                        {"name": "MASTER_PORT", "value": "29500"},
                        {"name": "PET_NNODES", "value": "2"},
                        {"name": "PET_NPROC_PER_NODE", "value": "1"},
                        {"name": "PET_NODE_RANK", "value": "1"},
                        {"name": "PET_MASTER_ADDR", "value": "gpt-0-0.gpt-0.ml.svc"},
                        {"name": "PET_MASTER_PORT", "value": "29500"},
                        {"name": "RANK", "value": "1"},
                        {"name": "LOCAL_RANK", "value": "0"},
                        {"name": "PET_RDZV_ID", "value": "uid-1-0"},
                        {"name": "DTJ_RENDEZVOUS_TOKEN", "value": "uid-1-0"},
                        {"name": "DTJ_JOB", "value": "gpt"},
                        {"name": "DTJ_NAMESPACE", "value": "ml"},
                        {"name": "DTJ_ATTEMPT", "value": "0"},
                        {"name": "DTJ_METRICS_PORT", "value": "9464"},
                        {"name": "MINE", "value": "1"},
                    ],
                    "ports": [{"name": "metrics", "containerPort": 9464}],
                    "terminationMessagePolicy": "FallbackToLogsOnError",
                    "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
                }
            ],
        },
    }


def test_building_twice_gives_the_same_and_leaves_the_spec_alone() -> None:
    plan = blueprint(template=template(), checkpoint={"size": "1Gi"})
    assert pod.build(plan, 0) == pod.build(plan, 0)
    assert "env" not in (plan.spec.template or {})["spec"]["containers"][0]


def test_the_built_in_trainer_gets_shared_memory_and_a_script_keeps_the_runtimes() -> None:
    mounts = trainer_of(pod.build(blueprint(training=TRAINING), 0))["volumeMounts"]
    assert {"name": "shared-memory", "mountPath": "/dev/shm"} in mounts
    own = trainer_of(pod.build(blueprint(template=template()), 0))["volumeMounts"]
    assert "/dev/shm" not in [mount["mountPath"] for mount in own]


def test_several_processes_number_themselves() -> None:
    built = variables(pod.build(blueprint(template=SCRIPT, processesPerWorker=4), 1))
    assert "RANK" not in built
    assert (built["WORLD_SIZE"], built["LOCAL_WORLD_SIZE"], built["NODE_RANK"]) == ("8", "4", "1")


def test_training_without_template() -> None:
    built = pod.build(blueprint(training=TRAINING, monitoring={"port": 9999}), 0)
    trainer = trainer_of(built)
    assert trainer["image"] == "trainer:1"
    assert trainer["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    assert built["spec"]["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 1000,
        "runAsGroup": 1000,
        "fsGroup": 1000,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert built["spec"]["terminationGracePeriodSeconds"] == 60
    assert built["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "ScheduleAnyway"
    assert built["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": "9999",
        "prometheus.io/path": "/metrics",
    }
    config = json.loads(variables(built)["DTJ_CONFIG"])
    assert config["training"]["steps"] == 10
    assert config["training"]["optimizer"]["name"] == "adamw", "defaults are written out"


def test_what_the_template_says_beside_training_is_kept() -> None:
    given = template(
        {"image": "own:2", "securityContext": {"privileged": True, "readOnlyRootFilesystem": False}},
        {"annotations": {"prometheus.io/scrape": "false"}},
        securityContext={"runAsUser": 0},
        terminationGracePeriodSeconds=5,
        topologySpreadConstraints=[],
        automountServiceAccountToken=True,
    )
    built = pod.build(blueprint(training=TRAINING, template=given), 0)
    trainer = trainer_of(built)
    assert trainer["image"] == "own:2"
    assert trainer["securityContext"]["readOnlyRootFilesystem"] is False
    assert "allowPrivilegeEscalation" not in trainer["securityContext"], "the API server refuses it beside privileged"
    assert "runAsNonRoot" not in built["spec"]["securityContext"], "root and runAsNonRoot would never start"
    assert built["spec"]["securityContext"]["runAsUser"] == 0
    assert built["spec"]["terminationGracePeriodSeconds"] == 5
    assert built["spec"]["topologySpreadConstraints"] == []
    assert built["spec"]["automountServiceAccountToken"] is True
    assert built["metadata"]["annotations"]["prometheus.io/scrape"] == "false"


@pytest.mark.parametrize(
    ("spec", "on_worker"),
    [
        ({"training": TRAINING, "checkpoint": {"size": "1Gi"}}, [True, False]),
        ({"template": SCRIPT, "checkpoint": {"size": "1Gi"}}, [True, True]),
        ({"template": SCRIPT, "checkpoint": {"claimName": "mine"}}, [True, True]),
        ({"template": SCRIPT}, [False, False]),
    ],
)
def test_who_mounts_the_checkpoints(spec: Object, on_worker: list[bool]) -> None:
    plan = blueprint(**spec)
    pods = children.pods(plan, range(2))
    assert ["/checkpoints" in [m["mountPath"] for m in trainer_of(p)["volumeMounts"]] for p in pods] == on_worker
    if plan.spec.checkpoint:
        assert {variables(p)["DTJ_CHECKPOINT_DIR"] for p in pods} == {"/checkpoints"}
        name = plan.spec.checkpoint.claim_name or "gpt-checkpoints"
        assert {"name": "checkpoints", "persistentVolumeClaim": {"claimName": name}} in pods[0]["spec"]["volumes"]


def test_mounts_of_the_users_own_are_not_covered() -> None:
    given = template(
        {"volumeMounts": [{"name": "big", "mountPath": "/tmp/"}, {"name": "nfs", "mountPath": "/dev/shm"}]},
        volumes=[{"name": "big", "emptyDir": {}}, {"name": "nfs", "nfs": {}}],
    )
    built = pod.build(blueprint(training=TRAINING, template=given), 0)
    assert len(trainer_of(built)["volumeMounts"]) == 2
    assert len(built["spec"]["volumes"]) == 2


def test_volume_names_of_the_users_own_are_not_reused() -> None:
    built = pod.build(blueprint(template=template(volumes=[{"name": "scratch", "hostPath": {"path": "/x"}}])), 0)
    assert trainer_of(built)["volumeMounts"] == [{"name": "dtj-scratch", "mountPath": "/tmp"}]


def test_only_the_trainer_container_learns_its_rank() -> None:
    given = {"spec": {"containers": [{"name": "proxy", "image": "p"}, {"name": "trainer", "image": "t"}]}}
    built = pod.build(blueprint(template=given), 0)
    assert built["spec"]["containers"][0] == {"name": "proxy", "image": "p"}
    assert variables(built)["RANK"] == "0"


def test_nulls_in_a_template_are_as_good_as_nothing() -> None:
    given = {
        "metadata": None,
        "spec": {"containers": [{"name": "trainer", "image": "x", "env": None}], "volumes": None},
    }
    assert variables(pod.build(blueprint(template=given), 0))["RANK"] == "0"


def test_attempts_and_jobs_of_one_name_share_no_token() -> None:
    first, second = (variables(pod.build(blueprint(attempt, template=SCRIPT), 0)) for attempt in (0, 1))
    assert first["DTJ_RENDEZVOUS_TOKEN"] == first["PET_RDZV_ID"] == "uid-1-0"
    assert second["DTJ_RENDEZVOUS_TOKEN"] == second["PET_RDZV_ID"] == "uid-1-1"
