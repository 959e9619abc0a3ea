"""A dockerd of our own from Debian's packages, unpacked into the cache: nothing of the host is installed or changed.

Own socket, data and runtime folders, own cgroup parent, no iptables, no forwarding, no default bridge.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from dtj_testbed import debian, host_traces, paths, pins, shell
from dtj_testbed.errors import TestbedError

PACKAGES = (
    "docker.io", "containerd", "runc", "tini", "libdevmapper1.02.1", "libseccomp2",
    # dockerd writes the rules of its name server into each container's own network namespace
    "iptables", "libxtables12", "libnftnl11", "libmnl0", "libip4tc2", "libip6tc2",
    "libnetfilter-conntrack3", "libnfnetlink0",
    "zstd",  # compresses the layers that we push
)  # fmt: skip
_CAP_SYS_RESOURCE = 24
_START_SECONDS = 60
# Layers of older builds go by themselves; the last torch layer (6 GB) has to stay.
_CONFIGURATION = '{"builder": {"gc": {"enabled": true, "defaultKeepStorage": "16GB"}}}'


def socket_path() -> Path:
    return paths.runtime_root() / "docker.sock"


def log_path() -> Path:
    return paths.logs_folder() / "dockerd.log"


def environment() -> dict[str, str]:
    return {"DOCKER_HOST": f"unix://{socket_path()}", "DOCKER_BUILDKIT": "1"}


def docker_program() -> str | None:
    """A docker client: ours if it has been unpacked, else the machine's."""
    ours = _root() / "usr/bin/docker"
    return str(ours) if ours.exists() else shutil.which("docker")


def program(name: str) -> Path:
    """One of the programs unpacked with the engine."""
    return _root() / "usr/bin" / name


def install() -> None:
    """Unpack the engine into the cache; nothing is done if it is there."""
    if _root().exists():
        return
    new = _root().with_suffix(".new")
    shutil.rmtree(new, ignore_errors=True)
    debian.unpack(PACKAGES, new)
    (new / "usr/sbin/iptables").symlink_to("xtables-nft-multi")
    (new / "usr/sbin/ip6tables").symlink_to("xtables-nft-multi")
    new.rename(_root())


def start() -> None:
    """Start dockerd, over whatever an earlier one left behind, and wait until it answers.

    Raises:
        TestbedError: it cannot be had here, or did not come up.
    """
    if not debian.is_root_on_debian():
        raise TestbedError(
            "No container engine answers. Start Docker or podman; "
            "or run as root on Debian, where the testbed brings its own engine."
        )
    install()
    _end_leftovers()
    host_traces.remember()
    (paths.made(paths.runtime_root()) / "daemon.json").write_text(_CONFIGURATION)
    with log_path().open("ab") as log:
        daemon = subprocess.Popen(
            _command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            env={**os.environ, **library_path(), "PATH": f"{_tool_path()}:{os.environ['PATH']}"},
        )  # fmt: skip
    deadline = time.monotonic() + _START_SECONDS
    docker = docker_program() or "docker"
    while not shell.succeeds([docker, "version"], env=environment()):
        if daemon.poll() is not None or time.monotonic() > deadline:
            raise TestbedError(f"dockerd did not start:\n{shell.tail(log_path())}\nlog: {log_path()}")
        time.sleep(0.1)


def stop() -> None:
    """End dockerd and what it started, and remove its traces from /run and the cgroups."""
    if process := _running():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGTERM)
        _wait_for_end(process, 30)
    _end_leftovers()
    shutil.rmtree(paths.runtime_root(), ignore_errors=True)
    _remove_cgroups()
    host_traces.put_back()


def data_folder() -> Path:
    return paths.cache_root() / "engine-data"


def _root() -> Path:
    key = pins.digest([pins.DEBIAN_SUITE, *PACKAGES])
    return paths.cache_root() / f"engine-{key}"


def _tool_path() -> str:
    return f"{_root()}/usr/bin:{_root()}/usr/sbin"


def library_path() -> dict[str, str]:
    """Where unpacked programs find their libraries, and iptables its extensions."""
    folders = [f for part in ("usr/lib", "lib") for f in (_root() / part).glob("*-linux-gnu")]
    extensions = [folder / "xtables" for folder in folders if (folder / "xtables").is_dir()]
    return {
        "LD_LIBRARY_PATH": ":".join(map(str, folders)),
        "XTABLES_LIBDIR": ":".join(map(str, extensions)),
    }


def _command() -> list[str]:
    run = paths.runtime_root()
    command = [
        f"{_root()}/usr/sbin/dockerd",
        f"--host=unix://{socket_path()}",
        f"--data-root={paths.made(data_folder())}",
        f"--exec-root={run}/exec",
        f"--pidfile={run}/dockerd.pid",
        f"--config-file={run}/daemon.json",  # the host's own, if any, is not ours to read
        "--storage-driver=overlay2",
        "--exec-opt=native.cgroupdriver=cgroupfs",
        f"--cgroup-parent=/{run.name}",
        f"--init-path={_root()}/usr/bin/tini",
        f"--userland-proxy-path={_root()}/usr/sbin/docker-proxy",
        "--oom-score-adjust=0",
        # The host's network stays as it is: published ports work by docker-proxy alone.
        "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false",
    ]  # fmt: skip
    if _lacks_sys_resource():
        runtime = pins.PACKAGE_FOLDER / "config" / "runc-without-sys-resource.sh"
        launcher = run / "runc"
        paths.made(run)
        launcher.write_text(f'#!/bin/sh\nRUNC="{_root()}/usr/sbin/runc" exec bash {runtime} "$@"\n')
        launcher.chmod(0o755)
        command += [f"--add-runtime=reduced={launcher}", "--default-runtime=reduced"]
    return command


def _lacks_sys_resource() -> bool:
    """Some containers and small machines forbid this capability, and then no privileged container starts."""
    bounding = re.search(r"CapBnd:\s*(\w+)", Path("/proc/self/status").read_text())
    return bounding is not None and not int(bounding[1], 16) >> _CAP_SYS_RESOURCE & 1


def _running() -> int | None:
    """The process id of our daemon, if that process is it and not a later one with the same number."""
    try:
        process = int((paths.runtime_root() / "dockerd.pid").read_text())
        command = Path(f"/proc/{process}/cmdline").read_text()
    except (OSError, ValueError):
        return None
    return process if str(paths.runtime_root()) in command else None


def _end_leftovers() -> None:
    """Kill what a dockerd that died by kill -9 left: itself, containerd, shims, port proxies of ours."""
    tokens = (str(paths.runtime_root()), f"{paths.cache_root()}/engine-")
    for process in _processes_mentioning(tokens):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    (paths.runtime_root() / "dockerd.pid").unlink(missing_ok=True)
    (paths.runtime_root() / "exec/containerd/containerd.pid").unlink(missing_ok=True)
    for process in _processes_in_cgroups():
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    _unmount_leftovers()


def _processes_mentioning(tokens: tuple[str, ...]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace")
            program = os.readlink(entry / "exe")
            if program.startswith(tokens[1]) and any(token in words for token in tokens):
                found.append(int(entry.name))
    return found


def _cgroup_folders() -> list[Path]:
    """Our folders in every cgroup hierarchy, innermost first."""
    ours = paths.runtime_root().name
    roots = [Path("/sys/fs/cgroup") / ours]
    roots += [p / ours for p in Path("/sys/fs/cgroup").glob("*") if p.is_dir()]
    inside = [Path(f) for root in roots if root.exists() for f, _, _ in os.walk(root)]
    return sorted(inside, key=lambda p: len(p.parts), reverse=True)


def _processes_in_cgroups() -> set[int]:
    found: set[int] = set()
    for folder in _cgroup_folders():
        with contextlib.suppress(OSError):
            found.update(map(int, (folder / "cgroup.procs").read_text().split()))
    return found


def _remove_cgroups() -> None:
    for folder in _cgroup_folders():
        with contextlib.suppress(OSError):
            folder.rmdir()


def _unmount_leftovers() -> None:
    """Container file systems of dead containers stay mounted and would keep their folders busy."""
    ours = (str(paths.runtime_root()), str(data_folder()))
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for mount in reversed([m for m in mounts if m.startswith(ours)]):
        shell.succeeds(["umount", "--lazy", mount])


def _wait_for_end(process: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while _alive(process) and time.monotonic() < deadline:
        time.sleep(0.05)


def _alive(process: int) -> bool:
    """A zombie is not: where nobody collects orphans it would stay for ever."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
