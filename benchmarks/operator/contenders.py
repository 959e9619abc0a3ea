"""Who is measured: our operator, its peers, the floor. How each is started, and when its job's status is settled."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from dtj_api import names
from dtj_testbed import binaries
from dtj_testbed.certificates import Authority
from dtj_testbed.processes import free_ports

from benchmarks.operator import manifests
from benchmarks.operator.bed import Bed

Object = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
# training-operator reads them there and nowhere else
_TRAINING_OPERATOR_CERTIFICATES = Path("/tmp/k8s-webhook-server/serving-certs")
_RAISED = ("--kube-api-qps=5000", "--kube-api-burst=5000")


@dataclass(frozen=True)
class Contender:
    """
    Attributes:
        title: as tables call it.
        api, plural: its job resource; empty for the floor.
        manifest: a job of that name with so many workers.
        settled: whether the job's status says that all its workers run, after so many restarts.
        start: its process, in that bed.
        raised: its client limits, and kube-controller-manager's, are raised.
        replaces_gang: one failed pod makes it replace all of them.
        program: of the testbed's, that it needs.
    """

    name: str
    title: str
    api: str = ""
    plural: str = ""
    manifest: Callable[[str, int], Object] = manifests.dtj
    settled: Callable[[Object, int, int], bool] = lambda job, workers, restarts: True
    start: Callable[[Bed, bool], None] = lambda bed, raised: None
    crd: Callable[[], Object] | None = None
    raised: bool = True
    replaces_gang: bool = True
    program: str = ""

    @property
    def is_floor(self) -> bool:
        return self.name == "floor"

    def jobs_path(self) -> str:
        return f"/apis/{self.api}/namespaces/{manifests.NAMESPACE}/{self.plural}"


# our operator


def _our_crd() -> Object:
    crd: Object = yaml.safe_load((ROOT / "crds" / "dtj.dev_distributedtrainingjobs.yaml").read_text())
    return crd


def _start_ours(bed: Bed, raised: bool) -> None:
    bed.start([sys.executable, "-m", "dtj_operator"], {"DTJ_TRAINER_IMAGE": "example.test/trainer:1"})


def _our_status_is_settled(job: Object, workers: int, restarts: int) -> bool:
    status = job.get("status", {})
    return bool(status.get("phase") == "Running" and status.get("restarts", 0) == restarts)


# JobSet


def _jobset_crd() -> Object:
    folder = binaries.source_folder("sigs.k8s.io/jobset", "jobset")
    crd: Object = yaml.safe_load((folder / "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml").read_text())
    return crd


def _start_jobset(bed: Bed, raised: bool) -> None:
    """Its webhook server cannot be left out, so it gets a certificate; no webhook is registered, so nobody calls it."""
    health, webhook = free_ports(2)
    folder = bed.cluster.folder / "jobset"
    certificate, key = Authority.make(folder).server(["DNS:localhost"])
    certificate.rename(folder / "tls.crt")
    key.rename(folder / "tls.key")
    config = {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "webhook": {"host": "127.0.0.1", "port": webhook, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    bed.start(
        [binaries.need("jobset"), f"--config={folder / 'config.yaml'}", "--metrics-bind-address=0",
         f"--health-probe-bind-address=127.0.0.1:{health}", "--zap-log-level=error", *(_RAISED if raised else ())]
    )  # fmt: skip


def _jobset_is_settled(job: Object, workers: int, restarts: int) -> bool:
    status = job.get("status", {})
    ready = [replicated.get("ready") for replicated in status.get("replicatedJobsStatus", [])]
    return ready == [1] and status.get("restarts", 0) == restarts


# training-operator


def _pytorchjob_crd() -> Object:
    folder = binaries.source_folder("github.com/kubeflow/training-operator", "training-operator")
    crd: Object = yaml.safe_load((folder / "manifests/base/crds/kubeflow.org_pytorchjobs.yaml").read_text())
    return crd


def _start_training_operator(bed: Bed, raised: bool) -> None:
    """It waits for a certificate in a fixed folder, a secret and a webhook configuration: one without webhooks here."""
    health, webhook = free_ports(2)
    bed.create("/api/v1/namespaces", {"metadata": {"name": "kubeflow"}})
    secret = {"metadata": {"name": "training-operator-webhook-cert"}}
    bed.create("/api/v1/namespaces/kubeflow/secrets", secret)
    configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    bed.create(configurations, {"metadata": {"name": "validator.training-operator.kubeflow.org"}})
    if not _TRAINING_OPERATOR_CERTIFICATES.parent.exists():
        _TRAINING_OPERATOR_CERTIFICATES.mkdir(parents=True)
        bed.at_the_end(shutil.rmtree, _TRAINING_OPERATOR_CERTIFICATES.parent)
        certificate, key = Authority.make(bed.cluster.folder / "training-operator").server(["DNS:localhost"])
        shutil.copy(certificate, _TRAINING_OPERATOR_CERTIFICATES / "tls.crt")
        shutil.copy(key, _TRAINING_OPERATOR_CERTIFICATES / "tls.key")
    more = (*_RAISED, "--controller-threads=8") if raised else ()
    bed.start(
        [binaries.need("training-operator"), "--enable-scheme=pytorchjob", "--metrics-bind-address=0",
         f"--health-probe-bind-address=127.0.0.1:{health}", f"--webhook-server-port={webhook}",
         "--zap-log-level=error", *more]
    )  # fmt: skip


def _pytorchjob_is_settled(job: Object, workers: int, restarts: int) -> bool:
    status = job.get("status", {})
    running = any(c["type"] == "Running" and c["status"] == "True" for c in status.get("conditions", []))
    active = sum(replica.get("active", 0) for replica in status.get("replicaStatuses", {}).values())
    return running and active == workers


FLOOR = Contender("floor", "bare client")
OURS = Contender(
    "dtj", "dtj-operator", names.API_VERSION, names.PLURAL,
    manifests.dtj, _our_status_is_settled, _start_ours, _our_crd,
)  # fmt: skip
JOBSET = Contender(
    "jobset", "JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets",
    manifests.jobset, _jobset_is_settled, _start_jobset, _jobset_crd, program="jobset",
)  # fmt: skip
PYTORCHJOB = Contender(
    "pytorchjob", "PyTorchJob", "kubeflow.org/v1", "pytorchjobs",
    manifests.pytorchjob, _pytorchjob_is_settled, _start_training_operator, _pytorchjob_crd,
    replaces_gang=False, program="training-operator",
)  # fmt: skip
PEERS = (JOBSET, PYTORCHJOB)


def at_defaults(contender: Contender) -> Contender:
    """The same with the client limits that it and kube-controller-manager come with."""
    name, title = f"{contender.name}-default", f"{contender.title}, default limits"
    return replace(contender, name=name, title=title, raised=False)


_CONTENDERS = (
    FLOOR,
    OURS,
    replace(OURS, name="dtj-open", title="dtj-operator, network Open", manifest=manifests.dtj_open),
    *PEERS,
    *map(at_defaults, (OURS, *PEERS)),
)
CONTENDERS = {contender.name: contender for contender in _CONTENDERS}
