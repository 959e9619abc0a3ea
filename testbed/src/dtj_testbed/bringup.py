"""The order of things: what is built, what runs beside what, what `up` does in which state of the machine."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dtj_testbed import binaries, cluster, images, node_image, paths, prerequisites, registry
from dtj_testbed import engine as engines
from dtj_testbed.engine import Engine
from dtj_testbed.progress import Progress

STEP_ENGINE = "container engine"
_SPACE_API = 12.0  # gigabytes for a first build, measured
_SPACE_KIND = 32.0
_SPACE_BUILT = 2.0
_SCARCE = 30.0  # below this, Go's compile cache (6 GB) is given up once everything is compiled

API_BATCHES: Sequence[Sequence[str]] = (binaries.API,)
KWOK_BATCHES: Sequence[Sequence[str]] = (*API_BATCHES, binaries.KWOK)
_BATCHES = {"api": API_BATCHES, "kwok": KWOK_BATCHES, "peers": (*KWOK_BATCHES, *binaries.PEERS)}
NODE_BATCHES: Sequence[Sequence[str]] = (
    *API_BATCHES, binaries.CLIENTS, *binaries.NODE, ("registry",),
)  # fmt: skip


def build_without_containers(level: str) -> None:
    """Programs of the levels without containers; needs no engine, but takes published images if one answers."""
    batches = _absent(_BATCHES[level])
    if not batches:
        return
    prerequisites.check(compiles=True, brings_engine=False, gigabytes=_SPACE_API)
    engine = engines.answering()
    with Progress([[binaries.step_name(batch) for batch in batches]]) as progress:
        for batch in batches:
            binaries.get(batch, progress, None if engine is None or engine.private else engine)
    if level != "api":
        binaries.source_folder("sigs.k8s.io/kwok")


def up(targets: Sequence[str] = ()) -> Engine:
    """A healthy cluster and registry, from whatever state the machine is in; then the product's images."""
    engine = engines.answering()
    if engine and not targets and cluster.healthy(engine) and registry.answers():
        return engine
    engine, names = build(targets)
    image = node_image.pulled_or_made(engine) or ""
    steps = [] if cluster.healthy(engine) else [cluster.STEP]
    steps += [images.push_step(target) for target in targets]
    with Progress([steps]) as progress:
        registry.start(engine)
        if not cluster.healthy(engine):
            with progress.step(cluster.STEP):
                if not cluster.start_again(engine):
                    cluster.create(engine, image)
        registry.tell_nodes(engine, cluster.NODES)
        for target, name in names.items():
            images.publish(engine, target, name, progress)
    return engine


def build(targets: Sequence[str] = ()) -> tuple[Engine, dict[str, str]]:
    """Everything a cluster needs, without starting it: engine, programs, node image, product images.

    Returns:
        The engine, and the reference of each product image.
    """
    engine = engines.answering()
    _check_machine(engine)
    if engine is None:
        with Progress([[STEP_ENGINE]]) as progress, progress.step(STEP_ENGINE):
            engine = engines.bring()
    pulled = node_image.pulled_or_made(engine)
    wanted: Sequence[Sequence[str]] = NODE_BATCHES if pulled is None else (binaries.CLIENTS,)
    names = _build_side_by_side(engine, _absent(wanted), targets, makes_node=pulled is None)
    if prerequisites.free_gigabytes() < _SCARCE:
        shutil.rmtree(paths.cache_root() / "go" / "build", ignore_errors=True)
    return engine, names


def check_machine() -> None:
    """Complain once about everything this machine lacks for bringing up a cluster.

    Raises:
        TestbedError: with one line for each thing that is missing.
    """
    _check_machine(engines.answering())


def _check_machine(engine: Engine | None) -> None:
    built = bool(engine and engine.has_image(node_image.reference()))
    brings_engine = engine is None or engine.private
    space = _SPACE_BUILT if built else _SPACE_KIND
    prerequisites.check(compiles=True, brings_engine=brings_engine, gigabytes=space)


def _build_side_by_side(
    engine: Engine, batches: Sequence[Sequence[str]], targets: Sequence[str], *, makes_node: bool
) -> dict[str, str]:
    """Compiling fills the processors; unpacking Debian and torch mostly waits for network and disk."""
    unbuilt = [t for t in targets if not engine.has_image(images.reference(t))]
    compiling = [binaries.step_name(batch) for batch in batches]
    fetching = [images.build_step(target) for target in unbuilt]
    if makes_node:
        fetching.insert(0, node_image.STEP_DEBIAN)
        compiling += [node_image.STEP_IMAGES, node_image.STEP_NODE]

    def compile_all() -> None:
        for batch in batches:
            binaries.get(batch, progress, None if engine.private else engine)

    def fetch_debian() -> None:
        if makes_node:
            node_image.prepare_debian(progress)

    def build_targets() -> dict[str, str]:
        debian_ready.result()
        return {target: images.build(engine, target, progress) for target in targets}

    with Progress([compiling, fetching]) as progress, ThreadPoolExecutor() as pool:
        debian_ready = pool.submit(fetch_debian)
        products = pool.submit(build_targets)
        compile_all()
        debian_ready.result()
        if makes_node:
            node_image.make(engine, progress)
        return products.result()


def _absent(batches: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    return [batch for batch in batches if binaries.missing(batch)]
