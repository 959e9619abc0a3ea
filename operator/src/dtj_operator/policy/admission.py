"""All that is wrong with a job before anything is made of it. Pure; what the webhook asks, the operator can ask too."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from dtj_api.fields import FieldError, InvalidFields, examine, without_followers
from dtj_api.spec import JobSpec
from dtj_api.storage import storage_errors, volume_modes
from dtj_api.template import examine_template, trainer_container

from dtj_operator import children, specs
from dtj_operator.children import Blueprint, Object
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Job, World


@dataclass(frozen=True)
class Examined:
    """
    Attributes:
        faults: of the spec, and of the user's claim for it.
        rehearse: objects the API server must be willing to take; () where the spec is not sound enough to make any.
    """

    faults: tuple[FieldError, ...]
    rehearse: tuple[Object, ...]


def examine_job(world: World, settings: Settings) -> Examined:
    """What there is to say about the job's spec, and what the API server is still to be asked."""
    raw = world.job.spec
    faults: list[FieldError] = []
    spec: JobSpec | None
    try:
        spec = specs.load(raw, settings.allow)
    except InvalidFields as error:
        faults, spec = error.errors, _sound(raw)
    if spec is None:
        return Examined(tuple(faults), ())
    modes = volume_modes(spec) or world.volume_modes
    faults += without_followers(storage_errors(spec, modes, world.job.name), faults)
    plan = blueprint(world, spec, settings, next_attempt(world.job))
    return Examined(tuple(faults), tuple(children.rehearsal(plan)))


def next_attempt(job: Job) -> int:
    return 0 if job.status.attempt is None else job.status.attempt + 1


def blueprint(world: World, spec: JobSpec, settings: Settings, attempt: int) -> Blueprint:
    job = world.job
    scrapers = settings.scraper_namespaces
    own = (settings.own_namespace,) if settings.own_namespace else ()
    return Blueprint(
        namespace=job.namespace,
        job=job.name,
        uid=job.uid,
        attempt=attempt,
        spec=spec,
        trainer_image=settings.trainer_image,
        # the operator asks worker 0 for its progress on the same port
        scraper_namespaces=tuple(dict.fromkeys((*scrapers, *own))) if scrapers else (),
        volume_modes=world.volume_modes,
    )


def _sound(raw: Any) -> JobSpec | None:
    """The spec if every field of it means something, whatever they mean together. A field that means nothing would be
    taken for its default, and the API server's answer would be about that; but of `training` it sees nothing."""
    spec, errors = examine(JobSpec, raw, "spec")
    if spec is None or any(spec.training is None or not error.path.startswith("spec.training.") for error in errors):
        return None
    if not isinstance(raw.get("template"), Mapping):
        return spec
    template, faults = examine_template(raw["template"])
    without_container = bool(template.get("spec")) and not trainer_container(template)
    return None if faults or without_container else replace(spec, template=template)
