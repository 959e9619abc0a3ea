"""The webhook, asked by a real API server: what it refuses, in which words, and that it never stands in the way."""

import base64
import contextlib
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dtj_api import names
from dtj_operator.webhook.certificates import issue
from dtj_testbed import ApiServer
from dtj_testbed.processes import free_ports

from tests.api.conftest import CONFIGURATIONS, environment
from tests.api.harness import SCRIPT, TRAINING, Api, Object, Operator, eventually
from tests.api.test_chart import of_kind, render

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
DENIED = 'admission webhook "distributedtrainingjobs.dtj.dev" denied the request: '


class Guarded:
    """A namespace whose jobs are checked at admission, and the operator that does it."""

    def __init__(self, api: Api, kubeconfig: Path, folder: Path, configuration: str = CONFIGURATIONS[0]) -> None:
        self.api = api
        self.name = configuration
        self.port, self.health_port = free_ports(2)
        more = {
            "DTJ_WEBHOOK_PORT": str(self.port),
            "DTJ_WEBHOOK_HOST": "127.0.0.1",
            "DTJ_WEBHOOK_CONFIGURATION": configuration,
            "DTJ_HEALTH_PORT": str(self.health_port),
            "DTJ_RESYNC_SECONDS": "0.5",
        }
        self.operator = Operator(environment(kubeconfig, api.namespace) | more, folder / "guarded.log")

    def configure(self, **client: Any) -> None:
        """The chart's configuration, for this namespace and a server on this machine."""
        [configuration] = of_kind(render(), "ValidatingWebhookConfiguration")
        configuration["metadata"] = {"name": self.name}
        [webhook] = configuration["webhooks"]
        webhook["clientConfig"] = {"url": f"https://127.0.0.1:{self.port}/validate", **client}
        webhook["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": self.api.namespace}}
        self.api.request("POST", WEBHOOKS, configuration)

    def remove(self) -> None:
        self.operator.kill()
        with contextlib.suppress(urllib.error.HTTPError):
            self.api.request("DELETE", f"{WEBHOOKS}/{self.name}")

    def configuration(self) -> Object:
        return self.api.request("GET", f"{WEBHOOKS}/{self.name}")

    def bundle(self) -> str | None:
        found: str | None = self.configuration()["webhooks"][0]["clientConfig"].get("caBundle")
        return found

    def until_it_answers(self) -> None:
        """The API server knows whom to trust a moment after it was told."""
        eventually(lambda: denial(self.api, "probe", script(env("RANK")), rehearse=True))


def env(*names: str) -> Object:
    """A template's container fields that set these variables."""
    return {"env": [{"name": name, "value": "1"} for name in names]}


def script(container: Object | None = None, **more: Any) -> Object:
    spec = {"containers": [SCRIPT["spec"]["containers"][0] | (container or {})]}
    return {"workers": 2, "template": {"spec": spec}, **more}


def denial(api: Api, name: str, spec: Object, *, rehearse: bool = False) -> str:
    """What the webhook says to a new job; "" where it is taken."""
    manifest = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": name}, "spec": spec}
    path = api.path(names.PLURAL) + ("?dryRun=All" if rehearse else "")
    return _denial(api, "POST", path, json.dumps(manifest))


def denial_of_change(api: Api, name: str, spec: Object) -> str:
    """What the webhook says to a merge patch of a job's spec; "" where it is taken."""
    return _denial(api, "PATCH", api.path(names.PLURAL, name), json.dumps({"spec": spec}))


def _denial(api: Api, method: str, path: str, body: str) -> str:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    call = urllib.request.Request(api.url + path, body.encode(), {"Content-Type": kind}, method=method)
    try:
        urllib.request.urlopen(call, context=api.context, timeout=20).close()
    except urllib.error.HTTPError as error:
        message: str = json.loads(error.read())["message"]
        assert message.startswith(DENIED), message
        return message.removeprefix(DENIED)
    return ""


def namespace(server: ApiServer, context: ssl.SSLContext, name: str) -> Api:
    """One whose policy and claim forbid something that no spec shows alone."""
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    server.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    api = Api(server.url, context, name)
    api.create("persistentvolumeclaims", {
        "metadata": {"name": "mine"},
        "spec": {"accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip
    return api


@pytest.fixture
def guarded(api: Api, operator_kubeconfig: Path, tmp_path: Path) -> Iterator[Guarded]:
    guarded = Guarded(api, operator_kubeconfig, tmp_path)
    guarded.configure()
    guarded.operator.start()
    try:
        guarded.until_it_answers()
        yield guarded
    finally:
        guarded.remove()
        print(guarded.operator.log.read_text()[-8000:])


@pytest.fixture(scope="module")
def pair(
    server: ApiServer,
    admin_context: ssl.SSLContext,
    operator_kubeconfig: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Api, Api]]:
    """Two namespaces alike; in the first jobs are checked at admission, in the second by the operator alone."""
    folder = tmp_path_factory.mktemp("pair")
    checked, unchecked = (namespace(server, admin_context, name) for name in ("checked", "unchecked"))
    guarded = Guarded(checked, operator_kubeconfig, folder, CONFIGURATIONS[1])
    alone = Operator(environment(operator_kubeconfig, unchecked.namespace), folder / "alone.log")
    guarded.configure()
    guarded.operator.start()
    alone.start()
    try:
        guarded.until_it_answers()
        yield checked, unchecked
    finally:
        guarded.remove()
        alone.kill()
        print(alone.log.read_text()[-4000:])


GOOD = script()
BATCH = {"workers": 2, "training": TRAINING | {"batch": {"global": 7}}}
WRONG = {
    "reserved environment": (
        script(env("RANK")),
        ["spec.template.spec.containers[0].env[0].name: RANK is set by the operator; remove it"],
    ),
    "a batch that does not divide": (
        BATCH,
        ["spec.training.batch.global: 7 does not divide by 2 (2 processes x accumulation 1); use a multiple of 2"],
    ),
    "a template the API server refuses": (
        script({"imagePullPolicy": "Sometimes"}),
        ["spec.template: the API server refuses Pod ", "imagePullPolicy", "; correct it"],
    ),
    "a field no pod has": (script({"resorces": {}}), ['unknown field "spec.containers[0].resorces"']),
    "a pod the namespace's policy forbids": (
        script({"ports": [{"containerPort": 80, "hostPort": 80}]}),
        ['violates PodSecurity "baseline', "ask for what it names to be allowed here"],
    ),
    "a claim that only one worker can mount": (
        script(checkpoint={"claimName": "mine"}),
        ["spec.checkpoint.claimName: a ReadWriteOncePod volume cannot be mounted by 2 workers"],
    ),
    "the host's network": (script(network={"hostNetwork": True}), ["spec.network.hostNetwork: opens the node"]),
    "several faults": (
        BATCH | {"template": {"spec": {"hostPID": True, "containers": [{"name": "trainer", **env("RANK", "MINE")}]}}},
        ["env[0].name: RANK is set by", "spec.template.spec.hostPID: opens the node", "batch.global: 7 does not"],
    ),
    "a fault of the spec and one the API server finds": (
        script(env("RANK") | {"imagePullPolicy": "Sometimes"}),
        ["RANK is set by the operator", "the API server refuses Pod "],
    ),
    "more faults than fit": (
        script(env(*["RANK"] * 25)),
        ["env[19].name: RANK is set by the operator", "; and 5 more"],
    ),
}


@pytest.mark.parametrize(("spec", "words"), WRONG.values(), ids=WRONG.keys())
def test_wrong_job_is_refused_in_the_words_of_the_condition_it_would_get(
    pair: tuple[Api, Api], request: pytest.FixtureRequest, spec: Object, words: list[str]
) -> None:
    checked, unchecked = pair
    name = f"job-{list(WRONG).index(request.node.callspec.id)}"
    told = denial(checked, name, spec)
    for part in words:
        assert part in told
    assert checked.get(names.PLURAL, name) is None
    assert denial(unchecked, name, spec) == ""
    assert unchecked.until(name, "Created", "False")["message"] == told
    assert not unchecked.pods(name)
    unchecked.delete(names.PLURAL, name)


def test_good_job_is_let_in_and_made(guarded: Guarded) -> None:
    assert denial(guarded.api, "gpt", GOOD) == ""
    guarded.api.until("gpt", "Created")
    assert denial(guarded.api, "later", script(checkpoint={"claimName": "not-there-yet"})) == ""


def test_full_quota_does_not_keep_a_job_out(guarded: Guarded) -> None:
    api = guarded.api
    api.create("resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}})
    quota = api.get("resourcequotas", "q")
    assert quota is not None
    quota["status"] = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
    api.request("PUT", api.path("resourcequotas", "q") + "/status", quota)
    assert denial(api, "gpt", GOOD) == ""
    assert "exceeded quota" in api.until("gpt", "Created", "False", "QuotaExceeded")["message"]


def test_job_that_came_while_nobody_answered_is_told_the_same_and_can_be_mended(guarded: Guarded) -> None:
    api = guarded.api
    told = denial(api, "gpt", script(env("RANK")))
    guarded.operator.kill()
    assert denial(api, "gpt", script(env("RANK"))) == ""
    guarded.operator.start()
    assert api.until("gpt", "Created", "False", "InvalidSpec")["message"] == told
    for plural in ("pods", "services"):
        assert not api.list(plural)
    guarded.until_it_answers()
    labelled = api.request("PATCH", api.path(names.PLURAL, "gpt"), {"metadata": {"labels": {"team": "a"}}})
    assert labelled["metadata"]["labels"] == {"team": "a"}
    assert "WORLD_SIZE is set by the operator" in denial_of_change(api, "gpt", script(env("WORLD_SIZE")))
    assert denial_of_change(api, "gpt", script()) == ""
    api.until("gpt", "Created")


def test_change_of_a_suspended_job_is_checked(guarded: Guarded) -> None:
    api = guarded.api
    assert denial(api, "gpt", script(suspend=True)) == ""
    api.until("gpt", "Suspended")
    assert "RANK is set by the operator" in denial_of_change(api, "gpt", script(env("RANK")))
    assert denial_of_change(api, "gpt", {"workers": 3, "suspend": False}) == ""
    api.until("gpt", "Created")
    assert len(api.pods("gpt")) == 3


def test_operator_that_was_asked_ends_at_once_when_it_is_told_to(guarded: Guarded) -> None:
    assert guarded.operator.process is not None
    guarded.operator.process.terminate()
    assert guarded.operator.process.wait(timeout=4) == 0


def test_bundle_that_is_taken_out_comes_back(guarded: Guarded) -> None:
    webhook = guarded.configuration()["webhooks"][0]
    bundle = webhook["clientConfig"].pop("caBundle")
    guarded.api.request("PATCH", f"{WEBHOOKS}/{guarded.name}", {"webhooks": [webhook]})
    eventually(lambda: guarded.bundle() == bundle)
    guarded.until_it_answers()


def test_operator_stays_healthy_whatever_it_is_asked(guarded: Guarded) -> None:
    anyone = ssl.create_default_context()
    anyone.check_hostname, anyone.verify_mode = False, ssl.CERT_NONE
    for body in (b"", b"{", b"[]", b'{"kind": "AdmissionReview"}', b"[" * 100_000):
        call = urllib.request.Request(f"https://127.0.0.1:{guarded.port}/validate", body, method="POST")
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(call, context=anyone, timeout=10)
        assert refusal.value.code == 400
    for spec in (spec for spec, _ in WRONG.values() if "checkpoint" not in spec):
        assert denial(guarded.api, "bad", spec) or spec["template"]["spec"]["containers"][0]["ports"]
    with urllib.request.urlopen(f"http://127.0.0.1:{guarded.health_port}/healthz", timeout=10) as health:
        assert health.status == 200
    assert denial(guarded.api, "good", GOOD) == ""
    guarded.api.until("good", "Created")
    assert "Traceback" not in guarded.operator.log.read_text()


def test_job_nested_as_deep_as_the_api_server_takes_it_harms_no_other(guarded: Guarded) -> None:
    api, levels = guarded.api, 9_900
    manifest = {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": {"name": "deep"}, "spec": script()}
    manifest["spec"]["template"]["spec"]["deep"] = "HERE"
    body = json.dumps(manifest).replace('"HERE"', '{"a":' * levels + "1" + "}" * levels)
    assert 'unknown field "spec.deep"' in _denial(api, "POST", api.path(names.PLURAL), body)
    guarded.operator.kill()
    assert _denial(api, "POST", api.path(names.PLURAL), body) == ""
    guarded.operator.start()
    guarded.until_it_answers()
    assert denial(guarded.api, "good", GOOD) == ""
    guarded.api.until("good", "Created")
    assert "Traceback" not in guarded.operator.log.read_text()


def test_certificate_of_others_is_shown_and_the_configuration_left_to_them(
    api: Api, operator_kubeconfig: Path, tmp_path: Path
) -> None:
    guarded = Guarded(api, operator_kubeconfig, tmp_path)
    given = issue(["127.0.0.1"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(given.chain)
    (tmp_path / "tls.key").write_bytes(given.key)
    guarded.operator.environment["DTJ_WEBHOOK_CERT_DIR"] = str(tmp_path)
    guarded.configure(caBundle=base64.b64encode(given.authority.encode()).decode())
    version = guarded.configuration()["metadata"]["resourceVersion"]
    guarded.operator.start()
    try:
        guarded.until_it_answers()
        assert guarded.configuration()["metadata"]["resourceVersion"] == version
    finally:
        guarded.remove()
