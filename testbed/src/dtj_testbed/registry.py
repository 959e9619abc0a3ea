"""The local image registry beside the nodes: moves only the layers that changed. Its blobs outlive the cluster."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable

from dtj_testbed import binaries, node_image, paths, pins, published
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError

NAME = "dtj-registry"
PORT = 5001
NETWORK = "kind"
STEP = "registry"


def host() -> str:
    """The host part of image references; the machine and the nodes both understand it."""
    return f"localhost:{PORT}"


def start(engine: Engine) -> None:
    """Run the registry on kind's network; an old container of it is replaced.

    Raises:
        TestbedError: its port is taken by something else.
    """
    ensure_network(engine)
    if engine.container_state(NAME) == "running" and answers():
        return
    engine.succeeds("rm", "--force", NAME)
    blobs = paths.made(paths.cache_root() / "registry")
    configuration = pins.PACKAGE_FOLDER / "config" / "registry.yaml"
    try:
        engine.output(
            "run", "--detach", "--name", NAME, "--restart", "unless-stopped", "--network", NETWORK,
            "--publish", f"127.0.0.1:{PORT}:5000", "--volume", f"{blobs}:/var/lib/registry",
            "--volume", f"{configuration}:/etc/distribution/config.yml:ro",
            _image(engine), "serve", "/etc/distribution/config.yml",
        )  # fmt: skip
    except TestbedError as error:
        engine.succeeds("rm", "--force", NAME)
        raise TestbedError(f"The image registry could not start on port {PORT}: {error}") from error


def stop(engine: Engine) -> None:
    engine.succeeds("rm", "--force", NAME)


def answers() -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/v2/", timeout=2):
            return True
    except OSError:
        return False


def has(repository: str, tag: str) -> bool:
    """Whether the registry holds this image."""
    kinds = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
    url = f"http://127.0.0.1:{PORT}/v2/{repository}/manifests/{tag}"
    call = urllib.request.Request(url, headers={"Accept": kinds}, method="HEAD")
    try:
        with urllib.request.urlopen(call, timeout=5):
            return True
    except (urllib.error.HTTPError, OSError):
        return False


def tell_nodes(engine: Engine, nodes: Iterable[str]) -> None:
    """Let containerd on the nodes find `localhost:PORT` at the registry's container."""
    folder = f"/etc/containerd/certs.d/{host()}"
    text = f"[host.{json.dumps(f'http://{NAME}:5000')}]\n"
    for node in nodes:
        command = f"mkdir -p '{folder}' && printf '%s' '{text}' > '{folder}/hosts.toml'"
        engine.output("exec", node, "sh", "-c", command)


def ensure_network(engine: Engine) -> None:
    """kind takes a network of this name as it finds it, so the registry can be there first."""
    if not engine.succeeds("network", "inspect", NETWORK):
        engine.output("network", "create", "--driver", "bridge", NETWORK)


def _image(engine: Engine) -> str:
    if not engine.private and published.pull(pins.REGISTRY_IMAGE_PULLED, engine):
        return pins.REGISTRY_IMAGE_PULLED
    key = pins.go_module_key("tools", binaries.go_version())
    tag = f"localhost/dtj-registry:{key}"
    if not engine.has_image(tag):
        node_image.build_program_image(engine, "registry", "registry", tag)
    return tag
