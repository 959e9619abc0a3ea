"""The chart, by helm itself: what it makes, what it refuses, what it leaves behind."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from dtj_testbed import ApiServer
from dtj_testbed.binaries import need

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "dtj"


def helm(*arguments: str, environ: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [str(need("helm")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(environ or {})})


def render(*settings: str) -> list[dict[str, Any]]:
    flags = [flag for setting in settings for flag in ("--set", setting)]
    done = helm("template", "dtj", str(CHART), "--namespace", "dtj-system", *flags)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


def test_lint_has_no_complaint() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_crd_is_the_one_of_the_repository_and_is_kept() -> None:
    [crd] = of_kind(render(), "CustomResourceDefinition")
    source = yaml.safe_load((ROOT / "crds" / "dtj.dev_distributedtrainingjobs.yaml").read_text())
    assert crd["spec"] == source["spec"]
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert "annotations" not in of_kind(render("crds.keep=false"), "CustomResourceDefinition")[0]["metadata"]
    assert of_kind(render("crds.enabled=false"), "CustomResourceDefinition") == []


def test_the_operator_has_no_right_to_secrets_commands_in_pods_or_wildcards() -> None:
    for document in render():
        for rule in document.get("rules", []):
            assert not {"secrets", "pods/exec", "*"} & {*rule["resources"], *rule["verbs"], *rule["apiGroups"]}


def test_a_list_of_namespaces_makes_no_cluster_wide_right() -> None:
    documents = render("watchNamespaces={a,b}", "rbac.aggregate=false")
    assert of_kind(documents, "ClusterRole") == of_kind(documents, "ClusterRoleBinding") == []
    assert [role["metadata"]["namespace"] for role in of_kind(documents, "Role")] == ["a", "b"]
    [deployment] = of_kind(documents, "Deployment")
    environ = {v["name"]: v["value"] for v in deployment["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert environ["DTJ_NAMESPACES"] == "a,b"


def test_the_operator_runs_restricted() -> None:
    [deployment] = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("setting", ["foo=1", "progressSeconds=0", "logging.level=loud", "image.repository="])
def test_a_value_that_means_nothing_is_refused(setting: str) -> None:
    done = helm("template", "dtj", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert setting.split("=")[0].split(".")[-1] in done.stderr


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[dict[str, str]]:
    with ApiServer() as server:
        yield {"KUBECONFIG": str(server.kubeconfig)}


def test_uninstall_leaves_the_crd_and_nothing_else(kubeconfig: dict[str, str]) -> None:
    def objects() -> list[str]:
        kinds = "crd,deployments,serviceaccounts,clusterroles,clusterrolebindings"
        command = [str(need("kubectl")), "get", kinds, "-A", "-l", "app.kubernetes.io/instance=dtj", "-o", "name"]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **kubeconfig}, check=True)
        return done.stdout.split()

    where = ["--namespace", "dtj-system"]
    installed = helm("install", "dtj", str(CHART), *where, "--create-namespace", "-o", "json", environ=kubeconfig)
    assert installed.returncode == 0, installed.stderr
    assert json.loads(installed.stdout)["info"]["status"] == "deployed"
    assert len(objects()) == 7
    removed = helm("uninstall", "dtj", *where, environ=kubeconfig)
    assert removed.returncode == 0, removed.stderr
    assert objects() == ["customresourcedefinition.apiextensions.k8s.io/distributedtrainingjobs.dtj.dev"]
