"""Programs taken out of published container images, where a registry answers. Compiles nothing."""

from __future__ import annotations

import os
from pathlib import Path

from dtj_testbed import paths, pins
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError

# The registry prefix can be changed, to use a mirror or to try this path without the internet.
PREFIX = os.environ.get("DTJ_KUBERNETES_IMAGES", "registry.k8s.io")

_SOURCES = {
    "etcd": (f"etcd:{pins.ETCD_IMAGE_TAG}", "/usr/local/bin/etcd"),
    "kube-apiserver": (f"kube-apiserver:{pins.KUBERNETES}", "/usr/local/bin/kube-apiserver"),
    "kube-controller-manager": (
        f"kube-controller-manager:{pins.KUBERNETES}",
        "/usr/local/bin/kube-controller-manager",
    ),
    "kube-scheduler": (f"kube-scheduler:{pins.KUBERNETES}", "/usr/local/bin/kube-scheduler"),
    "kubectl": (f"kubectl:{pins.KUBERNETES}", "/bin/kubectl"),
    "kwok": (f"kwok/kwok:{pins.KWOK}", "/usr/local/bin/kwok"),
}


def take_out(name: str, target: Path, engine: Engine | None) -> bool:
    """Copy a program out of its published image; False where that cannot be had."""
    if engine is None or name not in _SOURCES:
        return False
    image, inside = _SOURCES[name]
    reference = f"{PREFIX}/{image}"
    if not pull(reference, engine):
        return False
    temporary = paths.made(target.parent) / f".{name}.new"
    container = engine.output("create", reference, "-")
    try:
        engine.output("cp", f"{container}:{inside}", temporary)
    except TestbedError:
        return False
    finally:
        engine.output("rm", container)
    temporary.chmod(0o755)
    temporary.replace(target)
    return True


_silent: set[str] = set()
_LACKS = ("manifest unknown", "not found")  # the registry answers, it just has no such image


def pull(reference: str, engine: Engine) -> bool:
    """Whether the engine has the image now; a registry that could not be reached once is not asked again."""
    if engine.has_image(reference):
        return True
    first, slash, _ = reference.partition("/")
    registry = first if slash and ("." in first or ":" in first) else "default"
    if registry in _silent:
        return False
    try:
        engine.output("pull", "--quiet", reference, timeout=900)
    except TestbedError as error:
        if not any(words in str(error) for words in _LACKS):
            _silent.add(registry)
        return False
    return True
