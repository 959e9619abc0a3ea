"""The programs the testbed needs: found on PATH, taken from published images, or compiled from pinned Go modules."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dtj_testbed import paths, pins, published, shell
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError
from dtj_testbed.progress import Progress


@dataclass(frozen=True)
class Binary:
    """One program: the Go module of ours that pins it, its package, and how to ask its version."""

    name: str
    module: str
    package: str
    version_command: Sequence[str] = ()
    version: str = ""


_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
_TRAINING_OPERATOR = "github.com/kubeflow/training-operator"
_ALL = (
    Binary("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    Binary("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary(
        "kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"
    ),
    Binary(
        "kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl",
        ("version", "--client"), pins.KUBERNETES.rpartition(".")[0] + ".",
    ),
    Binary("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary("kube-proxy", "kubernetes", "k8s.io/kubernetes/cmd/kube-proxy"),
    Binary("kubeadm", "kubernetes", "k8s.io/kubernetes/cmd/kubeadm"),
    Binary("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet"),
    Binary("minicni", "node", "./minicni"),
    Binary("pause", "node", "./pause"),
    Binary("kind", "tools", "sigs.k8s.io/kind", ("version",), pins.KIND),
    Binary("helm", "tools", "helm.sh/helm/v4/cmd/helm", ("version", "--short"), "v4."),
    Binary("kwok", "tools", "sigs.k8s.io/kwok/cmd/kwok", ("--version",), pins.KWOK),
    Binary("registry", "tools", "github.com/distribution/distribution/v3/cmd/registry"),
    Binary("containerd", "tools", f"{_CONTAINERD}/containerd"),
    Binary("containerd-shim-runc-v2", "tools", f"{_CONTAINERD}/containerd-shim-runc-v2"),
    Binary("ctr", "tools", f"{_CONTAINERD}/ctr"),
    Binary("crictl", "tools", "sigs.k8s.io/cri-tools/cmd/crictl"),
    Binary("host-local", "tools", f"{_CNI}/ipam/host-local"),
    Binary("loopback", "tools", f"{_CNI}/main/loopback"),
    Binary("ptp", "tools", f"{_CNI}/main/ptp"),
    Binary("portmap", "tools", f"{_CNI}/meta/portmap"),
    Binary("coredns", "tools", "github.com/coredns/coredns"),
    Binary("local-path-provisioner", "localpath", "github.com/rancher/local-path-provisioner"),
    Binary("jobset", "jobset", "sigs.k8s.io/jobset"),
    Binary("training-operator", "training-operator", f"{_TRAINING_OPERATOR}/cmd/training-operator.v1"),
)  # fmt: skip
BINARIES: Mapping[str, Binary] = {binary.name: binary for binary in _ALL}

# Compiled together, in this order: what the fastest level needs comes first.
API = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
KWOK = ("kube-scheduler", "kwok")
PEERS = (("jobset",), ("training-operator",))  # other training operators, for benchmarks; dependencies of their own
CLIENTS = ("kind", "helm", "kubectl")
NODE = (
    ("kube-scheduler", "kubelet", "kubeadm", "kube-proxy", "minicni", "pause"),
    ("containerd", "containerd-shim-runc-v2", "ctr", "host-local", "loopback", "ptp", "portmap"),
    ("crictl", "coredns", "local-path-provisioner"),
)


def locate(name: str) -> Path | None:
    """Where a program of the pinned version already is, or None."""
    cached = cached_path(name)
    if cached.exists():
        return cached
    binary = BINARIES[name]
    on_path = shutil.which(name) if binary.version_command else None
    if on_path and binary.version in _version_of(on_path, tuple(binary.version_command)):
        return Path(on_path)
    return None


def need(name: str) -> Path:
    """Like `locate`, for callers after the build.

    Raises:
        TestbedError: it has not been built yet.
    """
    if found := locate(name):
        return found
    raise TestbedError(
        f"{name} is not built yet: run `PYTHONPATH=testbed/src python3 -m dtj_testbed build --level api` "
        "(or kwok, peers, kind)"
    )


def cached_path(name: str) -> Path:
    return bin_folder(BINARIES[name].module) / name


def bin_folder(module: str) -> Path:
    return paths.cache_root() / "bin" / f"{module}-{pins.go_module_key(module, go_version())}"


def missing(names: Iterable[str]) -> list[str]:
    return [name for name in names if locate(name) is None]


def step_name(names: Sequence[str]) -> str:
    """What progress calls getting these programs; stable, so that durations are remembered."""
    return f"compile {', '.join(names)}"


def get(names: Sequence[str], progress: Progress, engine: Engine | None = None) -> None:
    """Make sure each program is there: out of a published image if `engine` can pull it, else compiled."""
    absent = missing(names)
    if not absent:
        return
    with progress.step(step_name(names)):
        for name in absent:
            published.take_out(name, cached_path(name), engine)
        for module in pins.GO_MODULES:
            compile_module(module, [n for n in missing(absent) if BINARIES[n].module == module])


def compile_module(module: str, names: Sequence[str]) -> None:
    """Compile programs of one module; Go's own cache makes an interrupted build resume."""
    if not names:
        return
    target = paths.made(bin_folder(module))
    scratch = paths.made(target / ".building")
    packages = [BINARIES[name].package for name in names]
    shell.logged(
        ["go", "build", "-trimpath", "-ldflags", _linker_flags(), "-o", f"{scratch}/", *packages],
        paths.logs_folder() / f"go-{module}.log",
        env=go_environment(),
        cwd=pins.go_module_folder(module),
    )
    for name, package in zip(names, packages, strict=True):
        (scratch / _output_name(package)).replace(target / name)


def go_environment() -> dict[str, str]:
    """Our own Go caches (so that `clean` can remove them) and static binaries (for scratch images)."""
    root = paths.cache_root() / "go"
    return {
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
        "GOCACHE": str(root / "build"),
        "GOMODCACHE": str(root / "mod"),
        "GOWORK": "off",
    }


@cache
def go_version() -> str:
    """The compiler's version, or `none`: a machine that pulls everything needs no Go."""
    try:
        return shell.output(["go", "env", "GOVERSION"])
    except TestbedError:
        return "none"


def source_folder(go_module: str, pinned_by: str = "tools") -> Path:
    """The unpacked sources of a module that one of ours pins; some carry files we need besides programs."""
    folder, environment = pins.go_module_folder(pinned_by), go_environment()
    shell.output(["go", "mod", "download", go_module], env=environment, cwd=folder)
    where = ["go", "list", "-m", "-f", "{{.Dir}}", go_module]
    return Path(shell.output(where, env=environment, cwd=folder))


@cache
def _version_of(program: str, command: tuple[str, ...]) -> str:
    try:
        return shell.output([program, *command], timeout=10)
    except TestbedError:
        return ""


def _output_name(package: str) -> str:
    """The file `go build -o folder/` makes: the last part of the path that is no major version."""
    parts = [part for part in package.split("/") if not re.fullmatch(r"v\d+", part)]
    return os.path.basename(parts[-1])


def _linker_flags() -> str:
    major, minor, _ = pins.KUBERNETES.lstrip("v").split(".")
    facts = {
        "gitVersion": pins.KUBERNETES, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean",
    }  # fmt: skip
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    stamps = [f"-X {package}.{key}={value}" for package in packages for key, value in facts.items()]
    return " ".join(["-s", "-w", *stamps])
