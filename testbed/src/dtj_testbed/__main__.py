"""The command line: `python3 -m dtj_testbed up|down|clean|status|env|build|images|tool`."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path

from dtj_testbed import binaries, bringup, cluster, images, lock, paths, registry, teardown
from dtj_testbed import engine as engines
from dtj_testbed.errors import TestbedError
from dtj_testbed.progress import Progress

_TOOLS = ("kubectl", "helm", "kind")


def main() -> int:
    arguments = _parser().parse_args()
    try:
        arguments.run(arguments)
    except TestbedError as error:
        print(f"testbed: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ntestbed: interrupted; run the same command again to go on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dtj_testbed", description="Kubernetes to test against.")
    commands = parser.add_subparsers(required=True, metavar="command")

    up = commands.add_parser("up", help="bring up engine, registry and a two-node cluster")
    up.add_argument("--images", action="store_true", help="also build and push the product's images")
    up.set_defaults(run=_up)
    commands.add_parser("down", help="take cluster and engine down, keep caches").set_defaults(run=_down)
    commands.add_parser("clean", help="down, and remove all caches").set_defaults(run=_clean)
    status = commands.add_parser("status", help="what runs, and what the caches hold")
    status.set_defaults(run=_status)
    commands.add_parser("env", help='shell exports, for eval "$(…)"').set_defaults(run=_env)
    build = commands.add_parser("build", help="build without starting anything")
    build.add_argument("--level", choices=("api", "kwok", "peers", "kind"), default="kind")
    build.add_argument("--images", action="store_true", help="also build the product's images")
    build.set_defaults(run=_build)
    push = commands.add_parser("images", help="build and push images of the product")
    push.add_argument("targets", nargs="*", metavar="target", help="operator, trainer (default: both)")
    push.set_defaults(run=_images)
    ready = commands.add_parser("prerequisites", help="check this machine, and install what can be installed")
    ready.set_defaults(run=lambda _: bringup.check_machine())
    tool = commands.add_parser("tool", help="print the path of a tool of the pinned version")
    tool.add_argument("name", choices=_TOOLS)
    tool.set_defaults(run=lambda arguments: print(binaries.need(arguments.name)))
    return parser


def _up(arguments: argparse.Namespace) -> None:
    with lock.exclusive():
        bringup.up(tuple(images.TARGETS) if arguments.images else ())
    print(f"Cluster {paths.CLUSTER_NAME!r} is up: {', '.join(cluster.NODES)}; registry {registry.host()}")
    print(f"  export KUBECONFIG={paths.kubeconfig()}")
    print('  or, with kubectl, helm and kind on PATH:  eval "$(make env)"')
    for target, name in images.image_references().items():
        print(f"  {target} image: {name}")


def _down(_: argparse.Namespace) -> None:
    with lock.exclusive():
        teardown.down()


def _clean(_: argparse.Namespace) -> None:
    with lock.exclusive():
        teardown.clean()


def _build(arguments: argparse.Namespace) -> None:
    with lock.exclusive():
        if arguments.level == "kind":
            bringup.build(tuple(images.TARGETS) if arguments.images else ())
        else:
            bringup.build_without_containers(arguments.level)


def _images(arguments: argparse.Namespace) -> None:
    targets = tuple(arguments.targets) or tuple(images.TARGETS)
    if unknown := set(targets) - set(images.TARGETS):
        raise TestbedError(f"no such image: {', '.join(sorted(unknown))}; there are {', '.join(images.TARGETS)}")
    with lock.exclusive():
        engine, _ = bringup.build()
        steps = [images.build_step(t) for t in targets] + [images.push_step(t) for t in targets]
        with Progress([steps]) as progress:
            references = images.build_and_publish(engine, targets, progress)
    for name in references.values():
        print(name)


def _status(_: argparse.Namespace) -> None:
    engine = engines.answering()
    if engine is None:
        print("engine      none answers")
    else:
        print(f"engine      {engine.program}{' (private)' if engine.private else ''}")
        for node in cluster.NODES:
            state = engine.container_state(node)
            ready = "ready" if state == "running" and node in cluster.ready_nodes() else "not ready"
            print(f"node        {node}: {state}, {ready}")
    print(f"registry    {registry.host()}: {'answers' if registry.answers() else 'does not answer'}")
    print(f"kubeconfig  {paths.kubeconfig() if paths.kubeconfig().exists() else 'none'}")
    for target, name in images.image_references().items():
        print(f"image       {target}: {name}")
    for part, size in teardown.cache_sizes().items():
        print(f"cache       {size / 1e9:5.1f} GB  {paths.cache_root() / part}")


def _env(_: argparse.Namespace) -> None:
    engine = engines.answering()
    folder = paths.made(paths.state_folder() / "bin")
    programs = {name: binaries.locate(name) for name in _TOOLS}
    if engine and engine.private:
        programs["docker"] = Path(engine.program)  # another version's client may not build with ours
    for name, program in programs.items():
        (folder / name).unlink(missing_ok=True)
        if program:
            (folder / name).symlink_to(program)
    print(f"export KUBECONFIG={shlex.quote(str(paths.kubeconfig()))}")
    for name, value in (engine.environment if engine else {}).items():
        print(f"export {name}={shlex.quote(value)}")
    for target, reference in images.image_references().items():
        print(f"export DTJ_{target.upper()}_IMAGE={shlex.quote(reference)}")
    path = f"{folder}:{os.environ['PATH']}"
    print(f"export PATH={shlex.quote(path)}")


if __name__ == "__main__":
    sys.exit(main())
