"""The chart, by helm itself: what it makes, what it refuses, what it leaves behind."""

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from dtj_operator.webhook.certificates import issue
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


NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}


def environment(documents: list[dict[str, Any]]) -> dict[str, str]:
    [deployment] = of_kind(documents, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    return {v["name"]: v["value"] for v in container["env"] if "value" in v}


def test_a_list_of_namespaces_leaves_little_that_is_cluster_wide() -> None:
    documents = render("watchNamespaces={a,b}", "rbac.aggregate=false")
    [role] = of_kind(documents, "ClusterRole")
    [binding] = of_kind(documents, "ClusterRoleBinding")
    assert role["rules"] == [
        NODES,
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["validatingwebhookconfigurations"],
            "resourceNames": ["dtj.dtj-system"],
            "verbs": ["get", "patch"],
        },
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    *roles, lease = of_kind(documents, "Role")
    assert [role["metadata"]["namespace"] for role in roles] == ["a", "b"]
    assert lease["metadata"]["namespace"] == "dtj-system"
    assert {group for rule in lease["rules"] for group in rule["apiGroups"]} == {"coordination.k8s.io"}
    assert environment(documents)["DTJ_NAMESPACES"] == "a,b"
    [configuration] = of_kind(documents, "ValidatingWebhookConfiguration")
    assert configuration["webhooks"][0]["namespaceSelector"] == {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]
    }


def test_the_webhook_is_reached_by_the_name_its_certificate_is_for() -> None:
    documents = render()
    [configuration] = of_kind(documents, "ValidatingWebhookConfiguration")
    [webhook] = configuration["webhooks"]
    [service] = of_kind(documents, "Service")
    [deployment] = of_kind(documents, "Deployment")
    pod = deployment["spec"]["template"]
    told = environment(documents)
    assert told["DTJ_WEBHOOK_CONFIGURATION"] == configuration["metadata"]["name"]
    called = webhook["clientConfig"]["service"]
    assert told["DTJ_WEBHOOK_HOST"] == f"{called['name']}.{called['namespace']}.svc"
    assert (called["name"], called["namespace"]) == (service["metadata"]["name"], service["metadata"]["namespace"])
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    [port] = service["spec"]["ports"]
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    assert (port["port"], str(ports[port["targetPort"]])) == (called["port"], told["DTJ_WEBHOOK_PORT"])
    assert pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] == port["targetPort"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Ignore", "None")


def test_cert_manager_makes_the_certificate_where_it_is_asked_to() -> None:
    documents = render("webhook.certManager.enabled=true")
    [certificate] = of_kind(documents, "Certificate")
    [issuer] = of_kind(documents, "Issuer")
    [configuration] = of_kind(documents, "ValidatingWebhookConfiguration")
    [deployment] = of_kind(documents, "Deployment")
    assert certificate["spec"]["dnsNames"] == ["dtj-webhook.dtj-system.svc"]
    assert certificate["spec"]["issuerRef"] == {"kind": "Issuer", "name": issuer["metadata"]["name"]}
    assert configuration["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "dtj-system/dtj-webhook"}
    pod = deployment["spec"]["template"]["spec"]
    mounts = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    secrets = {volume["name"]: volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets == {"certificates": certificate["spec"]["secretName"]}
    assert environment(documents)["DTJ_WEBHOOK_CERT_DIR"] == mounts["certificates"]
    assert [
        role["rules"] for role in of_kind(documents, "ClusterRole") if "dtj-system" in role["metadata"]["name"]
    ] == [[NODES]]
    own = render("webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=corporate")
    assert of_kind(own, "Issuer") == []
    assert of_kind(own, "Certificate")[0]["spec"]["issuerRef"] == {"name": "corporate"}


def test_without_the_webhook_nothing_of_it_is_left() -> None:
    documents = render("webhook.enabled=false", "webhook.certManager.enabled=true")
    kinds = {document["kind"] for document in documents}
    assert not kinds & {"Service", "ValidatingWebhookConfiguration", "Certificate", "Issuer"}
    assert not [name for name in environment(documents) if "WEBHOOK" in name]
    [deployment] = of_kind(documents, "Deployment")
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert [port["name"] for port in container["ports"]] == ["health"]


def test_what_jobs_may_use_and_who_may_scrape_them_reaches_the_operator() -> None:
    told = environment(render("allow={hostPath,privileged}", "scraperNamespaces={monitoring}"))
    assert told["DTJ_ALLOW"] == "hostPath,privileged"
    assert told["DTJ_SCRAPER_NAMESPACES"] == "monitoring"


def test_the_operator_runs_restricted() -> None:
    [deployment] = of_kind(render(), "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"] == {
        "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    "setting",
    ["foo=1", "progressSeconds=0", "logging.level=loud", "image.repository=", "allow={hostpath}", "webhook.port=80"],
)
def test_a_value_that_means_nothing_is_refused(setting: str) -> None:
    done = helm("template", "dtj", str(CHART), "--set", setting)
    assert done.returncode != 0
    assert "values don't meet the specifications of the schema" in done.stderr
    assert setting.split("=")[0].split(".")[-1] in done.stderr


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[dict[str, str]]:
    with ApiServer() as server:
        yield {"KUBECONFIG": str(server.kubeconfig)}


WHERE = ["--namespace", "dtj-system"]
BUNDLE = base64.b64encode(issue(["dtj-webhook.dtj-system.svc"], datetime.now(UTC)).authority.encode()).decode()


def kubectl(kubeconfig: dict[str, str], *arguments: str) -> str:
    command = [str(need("kubectl")), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **kubeconfig}, check=True
    ).stdout.strip()


def test_upgrade_keeps_whom_the_api_server_trusts_and_uninstall_leaves_the_crd_alone(
    kubeconfig: dict[str, str],
) -> None:
    def objects() -> list[str]:
        kinds = (
            "crd,deployments,services,serviceaccounts,clusterroles,clusterrolebindings,validatingwebhookconfigurations"
        )
        return kubectl(kubeconfig, "get", kinds, "-A", "-l", "app.kubernetes.io/instance=dtj", "-o", "name").split()

    installed = helm("install", "dtj", str(CHART), *WHERE, "--create-namespace", "-o", "json", environ=kubeconfig)
    assert installed.returncode == 0, installed.stderr
    assert json.loads(installed.stdout)["info"]["status"] == "deployed"
    assert len(objects()) == 11

    configuration = "validatingwebhookconfiguration/dtj.dtj-system"
    trust = {"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": BUNDLE}
    kubectl(kubeconfig, "patch", configuration, "--type=json", "-p", json.dumps([trust]))
    upgraded = helm("upgrade", "dtj", str(CHART), *WHERE, "--set", "watchNamespaces={default}", environ=kubeconfig)
    assert upgraded.returncode == 0, upgraded.stderr
    kept = kubectl(kubeconfig, "get", configuration, "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
    assert kept == BUNDLE

    removed = helm("uninstall", "dtj", *WHERE, environ=kubeconfig)
    assert removed.returncode == 0, removed.stderr
    assert objects() == ["customresourcedefinition.apiextensions.k8s.io/distributedtrainingjobs.dtj.dev"]
