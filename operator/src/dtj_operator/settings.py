"""The operator's settings, read once from its environment. Inside they are known good."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

LOG_LEVELS = ("debug", "info", "warning", "error")
LOG_FORMATS = ("text", "json")


@dataclass(frozen=True)
class Settings:
    """
    Attributes:
        trainer_image: image of workers with `training`, where their template names none.
        namespaces: whose jobs to run; empty means every namespace.
        liveness_port: where /healthz is served; None for nowhere.
        progress_seconds: pause between two looks at a running job's progress.
        reconcilers: jobs worked on at the same time.
        resync_seconds: pause between two looks at every job, should a watch have fallen silent.
        settle_seconds: how long a failure that may be another's symptom waits for its cause.
        claim_seconds: pause between two looks for a claim of the user's that is not there.
    """

    trainer_image: str
    namespaces: tuple[str, ...] = ()
    log_level: str = "info"
    log_format: str = "text"
    liveness_port: int | None = None
    progress_seconds: float = 3.0
    reconcilers: int = 8
    resync_seconds: float = 60.0
    settle_seconds: float = 3.0
    claim_seconds: float = 5.0

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Settings":
        """Raises ValueError, with a sentence for whoever installs the operator."""
        image = environ.get("DTJ_TRAINER_IMAGE", "").strip()
        if not image:
            raise ValueError(
                "DTJ_TRAINER_IMAGE is not set: set it to the image of the built-in trainer, such as dtj-trainer:0.1.0"
            )
        namespaces = (name.strip() for name in environ.get("DTJ_NAMESPACES", "").split(","))
        port = environ.get("DTJ_LIVENESS_PORT", "").strip()
        return cls(
            trainer_image=image,
            namespaces=tuple(name for name in namespaces if name),
            log_level=_choice(environ, "DTJ_LOG_LEVEL", LOG_LEVELS, cls.log_level),
            log_format=_choice(environ, "DTJ_LOG_FORMAT", LOG_FORMATS, cls.log_format),
            liveness_port=_number(environ, "DTJ_LIVENESS_PORT", int, 0) if port else None,
            progress_seconds=_number(environ, "DTJ_PROGRESS_SECONDS", float, cls.progress_seconds),
            reconcilers=_number(environ, "DTJ_RECONCILERS", int, cls.reconcilers),
            resync_seconds=_number(environ, "DTJ_RESYNC_SECONDS", float, cls.resync_seconds),
            settle_seconds=_number(environ, "DTJ_SETTLE_SECONDS", float, cls.settle_seconds),
            claim_seconds=_number(environ, "DTJ_CLAIM_SECONDS", float, cls.claim_seconds),
        )


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
