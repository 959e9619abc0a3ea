"""The Debian with Python that product images stand on: pulled, or made here where no registry answers."""

from __future__ import annotations

from dtj_testbed import debian, paths, pins, published
from dtj_testbed.engine import Engine

PACKAGES = ("python3", "python3-venv", "ca-certificates")


def reference() -> str:
    """What the locally made base is called."""
    return f"localhost/dtj-base:{pins.digest([pins.DEBIAN_SUITE, *PACKAGES])}"


def ready(engine: Engine) -> str:
    """The reference of a base image that the engine has; made or pulled if need be."""
    if engine.has_image(reference()):
        return reference()
    if not engine.private and published.pull(pins.PRODUCT_BASE_PULLED, engine):
        return pins.PRODUCT_BASE_PULLED
    archive = paths.cache_root() / "debian" / f"product-{reference().rpartition(':')[2]}.tar"
    debian.install_missing_programs()
    debian.root_file_system(PACKAGES, archive)
    engine.output("import", archive, reference(), timeout=300)
    archive.unlink()
    return reference()
