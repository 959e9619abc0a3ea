"""The image of a kind node: pulled, or made of Debian packages and our Go binaries where no registry answers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dtj_testbed import binaries, debian, paths, pins, published
from dtj_testbed.engine import Engine
from dtj_testbed.progress import Progress

# What kind's own base image installs, and what the files it copies call.
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "conntrack", "iptables", "nftables", "iproute2", "ethtool",
    "util-linux", "mount", "kmod", "libseccomp2", "pigz", "e2fsprogs", "bash", "ca-certificates",
    "curl", "jq", "procps", "hostname", "runc", "iputils-ping", "netcat-openbsd", "nfs-common",
    "busybox",  # for the small image that plays helper and test pods
)  # fmt: skip
STEP_DEBIAN = "node image: Debian"
STEP_IMAGES = "node image: control-plane images"
STEP_NODE = "node image: put together"

_KUBERNETES_REPOSITORY = "registry.k8s.io"
_GO_MODULES = ("kubernetes", "tools", "node", "localpath")


@dataclass(frozen=True)
class ProgramImage:
    """An image with one static binary; `stage` of images.Dockerfile says its shape."""

    reference: str
    program: str
    stage: str = "program"


def _control_plane_images() -> tuple[ProgramImage, ...]:
    def kubernetes(name: str, stage: str = "program") -> ProgramImage:
        return ProgramImage(f"{_KUBERNETES_REPOSITORY}/{name}:{pins.KUBERNETES}", name, stage)

    return (
        kubernetes("kube-apiserver"),
        kubernetes("kube-controller-manager"),
        kubernetes("kube-scheduler"),
        kubernetes("kube-proxy", "kube-proxy"),
        ProgramImage(f"{_KUBERNETES_REPOSITORY}/etcd:{pins.ETCD_IMAGE_TAG}", "etcd"),
        ProgramImage(f"{_KUBERNETES_REPOSITORY}/coredns/coredns:{pins.COREDNS}", "coredns", "coredns"),
        ProgramImage(f"{_KUBERNETES_REPOSITORY}/pause:{pins.PAUSE_IMAGE_TAG}", "pause", "pause"),
        ProgramImage("localhost/minicni:testbed", "minicni"),
        ProgramImage("localhost/local-path-provisioner:testbed", "local-path-provisioner"),
        ProgramImage("localhost/busybox:testbed", "busybox", "busybox"),
    )


def reference() -> str:
    """What the node image made here is called."""
    version = binaries.go_version()
    keys = [pins.go_module_key(module, version) for module in _GO_MODULES]
    return f"localhost/dtj-node:{pins.node_image_key([*keys, *PACKAGES])}"


def pulled_or_made(engine: Engine) -> str | None:
    """The reference of a node image that the engine has or can pull; None if it has to be made."""
    if engine.has_image(reference()):
        return reference()
    if not engine.private and published.pull(pins.NODE_IMAGE_PULLED, engine):
        return pins.NODE_IMAGE_PULLED
    return None


def prepare_debian(progress: Progress) -> None:
    """The part that waits for the network, so it can run while Go compiles."""
    if not _debian_archive().exists():
        with progress.step(STEP_DEBIAN):
            debian.root_file_system(PACKAGES, _debian_archive())


def make(engine: Engine, progress: Progress) -> str:
    """Make the node image of binaries that are there already; returns its reference."""
    prepare_debian(progress)
    context = paths.cache_root() / "node-context"
    with progress.step(STEP_IMAGES):
        base = f"localhost/dtj-node-debian:{_debian_archive().stem}"
        if not engine.has_image(base):
            engine.output("import", _debian_archive(), base, timeout=300)
        _fill(context)
        images = [_build_image(engine, image, base, context) for image in _control_plane_images()]
        engine.output("save", "--output", context / "images.tar", *images, timeout=300)
    with progress.step(STEP_NODE):
        _build(engine, pins.PACKAGE_FOLDER / "node" / "node.Dockerfile", "node", base, reference(), context)
    shutil.rmtree(context)
    return reference()


def build_program_image(engine: Engine, program: str, stage: str, tag: str) -> None:
    """An image with just one of our binaries, for what runs beside the nodes."""
    context = paths.made(paths.cache_root() / f"context-{program}")
    link(binaries.need(program), context / "bin" / program)
    _build_image(engine, ProgramImage(tag, program, stage), "scratch", context)
    shutil.rmtree(context)


def link(source: Path, target: Path) -> None:
    """A hard link where possible, else a copy."""
    paths.made(target.parent)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _debian_archive() -> Path:
    return paths.cache_root() / "debian" / f"{pins.digest([pins.DEBIAN_SUITE, *PACKAGES])}.tar"


def _fill(context: Path) -> None:
    """Everything both Dockerfiles copy."""
    shutil.rmtree(context, ignore_errors=True)
    for name in {name for batch in (*binaries.NODE, binaries.API) for name in batch}:
        link(binaries.need(name), context / "bin" / name)
    recipe = pins.PACKAGE_FOLDER / "node"
    shutil.copytree(recipe / "manifests", context / "manifests")
    files = binaries.source_folder("sigs.k8s.io/kind") / "images" / "base" / "files"
    shutil.copytree(files, context / "files")
    (context / "version").write_text(pins.KUBERNETES)


def _build_image(engine: Engine, image: ProgramImage, base: str, context: Path) -> str:
    recipe = pins.PACKAGE_FOLDER / "node" / "images.Dockerfile"
    arguments = [f"--build-arg=PROGRAM={image.program}"]
    _build(engine, recipe, image.stage, base, image.reference, context, arguments)
    return image.reference


def _build(
    engine: Engine, recipe: Path, stage: str, base: str, tag: str, context: Path,
    arguments: Iterable[str] = (),
) -> None:  # fmt: skip
    engine.logged(
        paths.logs_folder() / "node-image.log",
        "build", "--file", recipe, "--target", stage, "--tag", tag, f"--build-arg=DEBIAN={base}",
        *engine.build_arguments(), *arguments, context,
    )  # fmt: skip
