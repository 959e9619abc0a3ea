"""The operator's settings, read once from its environment. Inside they are known good."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from dtj_api.template import host_features

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True)
class Webhook:
    """
    Attributes:
        port: where it listens.
        hosts: DNS names and addresses it is called by, for the certificate it makes.
        configuration: the ValidatingWebhookConfiguration that is to trust that certificate.
        certificates: folder of tls.crt and tls.key that others renew; then neither of the two above is needed.
    """

    port: int
    hosts: tuple[str, ...] = ()
    configuration: str = ""
    certificates: Path | None = None


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        trainer_image: image of workers with `training`, where their template names none.
        namespaces: whose jobs to run; empty means every namespace.
        allow: what of their nodes jobs may use: some of dtj_api.template.HOST_FEATURES.
        scraper_namespaces: from where metrics are scraped; empty means every namespace.
        own_namespace: where the operator itself runs, if it runs in a cluster.
        webhook: how jobs are checked at admission; None for not at all.
        health_port: where /healthz and /metrics are served; None for nowhere.
        lease: name of the Lease, in `own_namespace`, that the operator at work holds; empty where it is the only one.
        lease_seconds: after so long without a renewal another operator takes the lease.
        identity: of its pod, a part of the name under which it holds it.
        progress_seconds: pause between two looks at a running job's progress.
        reconcilers: jobs worked on at the same time.
        resync_seconds: pause between two lists of all jobs, should a watch have fallen silent.
        settle_seconds: how long a failure that may be another's symptom waits for its cause.
        quiet_seconds: how long small news (all pods are created, one more is ready) wait to be told with others.
        claim_seconds: pause between two looks for a claim of the user's that is not there.
    """

    trainer_image: str
    namespaces: tuple[str, ...] = ()
    allow: frozenset[str] = frozenset()
    scraper_namespaces: tuple[str, ...] = ()
    own_namespace: str = ""
    log_level: str = "info"
    log_format: str = "text"
    webhook: Webhook | None = None
    health_port: int | None = None
    lease: str = ""
    lease_seconds: float = 15.0
    identity: str = ""
    progress_seconds: float = 3.0
    reconcilers: int = 16
    resync_seconds: float = 60.0
    settle_seconds: float = 3.0
    quiet_seconds: float = 15.0
    claim_seconds: float = 5.0

    @property
    def scopes(self) -> list[str | None]:
        """Each namespace whose jobs are run; None for all."""
        return list(self.namespaces) or [None]

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Settings":
        """Raises ValueError, with a sentence for whoever installs the operator."""
        image = environ.get("DTJ_TRAINER_IMAGE", "").strip()
        if not image:
            raise ValueError(
                "DTJ_TRAINER_IMAGE is not set: set it to the image of the built-in trainer, such as dtj-trainer:0.1.0"
            )
        port = environ.get("DTJ_HEALTH_PORT", "").strip()
        return cls(
            trainer_image=image,
            namespaces=_names(environ, "DTJ_NAMESPACES"),
            allow=_features(environ, "DTJ_ALLOW"),
            scraper_namespaces=_names(environ, "DTJ_SCRAPER_NAMESPACES"),
            own_namespace=environ.get("DTJ_OPERATOR_NAMESPACE", "").strip(),
            log_level=_choice(environ, "DTJ_LOG_LEVEL", LOG_LEVELS, cls.log_level),
            log_format=_choice(environ, "DTJ_LOG_FORMAT", LOG_FORMATS, cls.log_format),
            webhook=_webhook(environ),
            health_port=_number(environ, "DTJ_HEALTH_PORT", int, 0) if port else None,
            lease=_lease(environ),
            lease_seconds=_number(environ, "DTJ_LEASE_SECONDS", float, cls.lease_seconds),
            identity=environ.get("DTJ_IDENTITY", "").strip(),
            progress_seconds=_number(environ, "DTJ_PROGRESS_SECONDS", float, cls.progress_seconds),
            reconcilers=_number(environ, "DTJ_RECONCILERS", int, cls.reconcilers),
            resync_seconds=_number(environ, "DTJ_RESYNC_SECONDS", float, cls.resync_seconds),
            settle_seconds=_number(environ, "DTJ_SETTLE_SECONDS", float, cls.settle_seconds),
            quiet_seconds=_number(environ, "DTJ_QUIET_SECONDS", float, cls.quiet_seconds),
            claim_seconds=_number(environ, "DTJ_CLAIM_SECONDS", float, cls.claim_seconds),
        )


def _names(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    listed = (part.strip() for part in environ.get(name, "").split(","))
    return tuple(part for part in listed if part)


def _features(environ: Mapping[str, str], name: str) -> frozenset[str]:
    try:
        return host_features(environ.get(name, ""))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _lease(environ: Mapping[str, str]) -> str:
    lease = environ.get("DTJ_LEASE", "").strip()
    if lease and not environ.get("DTJ_OPERATOR_NAMESPACE", "").strip():
        raise ValueError("DTJ_LEASE is set but not DTJ_OPERATOR_NAMESPACE: set it to the namespace of the lease")
    return lease


def _webhook(environ: Mapping[str, str]) -> Webhook | None:
    if not environ.get("DTJ_WEBHOOK_PORT", "").strip():
        return None
    port = _number(environ, "DTJ_WEBHOOK_PORT", int, 0)
    if port > 65535:
        raise ValueError(f"DTJ_WEBHOOK_PORT={port} is no port: choose one from 1 to 65535")
    if folder := environ.get("DTJ_WEBHOOK_CERT_DIR", "").strip():
        return Webhook(port, certificates=Path(folder))
    hosts = _names(environ, "DTJ_WEBHOOK_HOST")
    configuration = environ.get("DTJ_WEBHOOK_CONFIGURATION", "").strip()
    for name, given, what in (
        ("DTJ_WEBHOOK_HOST", hosts, "the name of its service, such as dtj-webhook.dtj-system.svc"),
        ("DTJ_WEBHOOK_CONFIGURATION", configuration, "the name of its ValidatingWebhookConfiguration"),
    ):
        if not given:
            raise ValueError(f"DTJ_WEBHOOK_PORT is set but not {name}: set it to {what}, or set DTJ_WEBHOOK_CERT_DIR")
    return Webhook(port, hosts, configuration)


def _choice(environ: Mapping[str, str], name: str, choices: tuple[str, ...], default: str) -> str:
    given = environ.get(name, "").strip().lower() or default
    if given not in choices:
        raise ValueError(f"{name}={environ[name]!r} is not one of {', '.join(choices)}: choose one of them")
    return given


def _number(environ: Mapping[str, str], name: str, kind: Callable[[str], T], default: T) -> T:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        value: T | None = kind(text)
    except ValueError:
        value = None
    if not isinstance(value, (int, float)) or not 0 < value < 2**31:
        raise ValueError(f"{name}={text!r} is not a number above 0: correct it or remove it")
    return value
