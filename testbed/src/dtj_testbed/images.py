"""Builds the images of the product and puts them where nodes find them; a tag is a digest of the sources."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dtj_testbed import base_image, cluster, layers, paths, pins, registry
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError
from dtj_testbed.progress import Progress

# Target of the Dockerfile -> folders whose change makes a new image.
TARGETS = {"operator": ("api", "operator"), "trainer": ("api", "trainer_image")}
_CA_VARIABLES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")


def image_references() -> dict[str, str]:
    """Target -> reference of the images built last, such as `localhost:5001/dtj-trainer:0123456789ab`."""
    try:
        references: dict[str, str] = json.loads(paths.image_references_file().read_text())
    except (OSError, ValueError):
        return {}
    return references


def reference(target: str) -> str:
    """What the image of the sources as they are now is called."""
    return f"{registry.host()}/dtj-{target}:{_tag(target)}"


def build_step(target: str) -> str:
    return f"{target} image: build"


def push_step(target: str) -> str:
    return f"{target} image: push and pull"


def build(engine: Engine, target: str, progress: Progress) -> str:
    """Build the image unless the engine has it already; returns its reference."""
    name = reference(target)  # once: somebody may be editing the sources
    if engine.has_image(name):
        return name
    with progress.step(build_step(target)):
        base = base_image.ready(engine)
        index = os.environ.get("DTJ_TORCH_INDEX", "")
        engine.logged(
            paths.logs_folder() / f"image-{target}.log",
            "build", "--target", target, "--tag", name, "--progress", "plain",
            f"--build-arg=BASE_IMAGE={base}", f"--build-arg=TORCH_INDEX={index}",
            *_ca_secret(), *engine.build_arguments(), paths.repository_root(),
        )  # fmt: skip
    return name


def publish(engine: Engine, target: str, name: str, progress: Progress) -> None:
    """Push a built image and have every node pull it; only layers that are new there move."""
    with progress.step(push_step(target)):
        repository, _, tag = name.partition("/")[2].partition(":")
        if not registry.has(repository, tag):
            _push(engine, name, repository, tag)
        if cluster.healthy(engine):
            with ThreadPoolExecutor() as pool:
                list(pool.map(lambda node: _pull(engine, node, name), cluster.NODES))
    older = image_references().get(target, name)
    _remember(target, name)
    if older != name:
        engine.succeeds("image", "rm", older)


def build_and_publish(engine: Engine, targets: Sequence[str], progress: Progress) -> dict[str, str]:
    registry.start(engine)
    names = {target: build(engine, target, progress) for target in targets}
    for target, name in names.items():
        publish(engine, target, name, progress)
    return names


def _push(engine: Engine, name: str, repository: str, tag: str) -> None:
    if engine.private:
        layers.push(engine, name, repository, tag)
    else:
        engine.output("push", name, timeout=1200)


def _pull(engine: Engine, node: str, name: str) -> None:
    engine.output("exec", node, "crictl", "pull", name, timeout=900)


def _tag(target: str) -> str:
    root = paths.repository_root()
    if missing := [f for f in ("Dockerfile", *TARGETS[target]) if not (root / f).exists()]:
        raise TestbedError(f"{root} is not a checkout of the whole repository: no {', '.join(missing)}")
    single = [root / "Dockerfile", root / "constraints.txt"]
    parts: list[str | bytes] = [file.read_bytes() for file in single if file.exists()]
    parts += [pins.digest_of_files(root / folder, _SOURCES) for folder in TARGETS[target]]
    return pins.digest([target, base_image.reference(), os.environ.get("DTJ_TORCH_INDEX", ""), *parts])


_SOURCES = ("pyproject.toml", "README*", "src/**/*")


def _ca_secret() -> list[str]:
    """The machine's own certificate bundle, where the environment names one: an index behind a proxy needs it."""
    bundle = next((os.environ[name] for name in _CA_VARIABLES if os.environ.get(name)), None)
    return ["--secret", f"id=ca,src={bundle}"] if bundle and Path(bundle).is_file() else []


def _remember(target: str, name: str) -> None:
    references = image_references() | {target: name}
    temporary = paths.image_references_file().with_suffix(".new")
    temporary.write_text(json.dumps(references, indent=1, sort_keys=True))
    temporary.replace(paths.image_references_file())
