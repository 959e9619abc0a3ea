"""`kubectl dtj check`: every fault of a manifest, without a cluster; the operator's own rules."""

from collections.abc import Iterable
from typing import Any

import yaml
from dtj_api import names
from dtj_api.fields import InvalidFields
from dtj_api.storage import storage_errors, volume_modes
from dtj_api.template import host_features
from dtj_api.validation import load_job_spec, world_size

from dtj_cli.errors import CommandError


def check(path: str, allow: Iterable[str] = ()) -> int:
    """Print what is wrong in the jobs of the file. Exit code: 0 nothing, 1 something.

    Args:
        allow: host features the operator was installed with, each item one or several with commas.

    Raises:
        CommandError: a feature is unknown, or the file cannot be read, is not YAML, or holds no job.
    """
    allowed = features(allow)
    jobs = [document for document in documents(path) if document.get("kind") == names.KIND]
    if not jobs:
        raise CommandError(f"{path} holds no {names.KIND} (apiVersion: {names.API_VERSION})")
    return max(report(job, allowed) for job in jobs)


def features(allow: Iterable[str]) -> frozenset[str]:
    try:
        return host_features(",".join(allow))
    except ValueError as error:
        raise CommandError(f"--allow: {error}") from None


def documents(path: str) -> list[dict[str, Any]]:
    try:
        with open(path, encoding="utf-8") as file:
            return [document for document in yaml.safe_load_all(file) if isinstance(document, dict)]
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {error}") from None
    except yaml.YAMLError as error:
        raise CommandError(f"{path} is not YAML: {error}") from None


def report(job: dict[str, Any], allowed: frozenset[str]) -> int:
    name = (job.get("metadata") or {}).get("name", "(no name)")
    try:
        spec = load_job_spec(job.get("spec"), allowed)
        errors = list(storage_errors(spec, volume_modes(spec), name))
    except InvalidFields as invalid:
        errors = invalid.errors
    for error in errors:
        print(f"{name}: {error}")
    if errors:
        return 1
    print(f"{name}: good; {spec.workers} workers, {world_size(spec)} processes")
    return 0
