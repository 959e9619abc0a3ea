"""Pushes an image of our own engine straight from its layer folders: zstd on all cores, only layers the registry lacks.

`docker push` compresses gigabytes by gzip on one core, and skopeo first writes the whole image out.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import stat
import subprocess
import tarfile
import threading
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from dtj_testbed import paths, private_engine, registry
from dtj_testbed.engine import Engine
from dtj_testbed.errors import TestbedError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+zstd"
_CHUNK = 1 << 20


def push(engine: Engine, image: str, repository: str, tag: str) -> int:
    """Put the image into the registry; returns how many bytes had to be sent."""
    facts = json.loads(engine.output("image", "inspect", image))[0]
    known = _read_known()
    layers, sent = [], 0
    for name, folder in zip(facts["RootFS"]["Layers"], _folders(facts), strict=True):
        layer = known.get(name)
        if layer is None or not _has_blob(repository, layer["digest"]):
            layer = known[name] = _send_layer(repository, folder)
            sent += layer["size"]
            _write_known(known)
        layers.append(layer)
    configuration = json.dumps(
        {
            "architecture": facts["Architecture"],
            "os": facts["Os"],
            "config": {key: value for key, value in facts["Config"].items() if value},
            "rootfs": {"type": "layers", "diff_ids": [layer["plain"] for layer in layers]},
        }
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": {"mediaType": _CONFIG, **_send_bytes(repository, configuration)},
        "layers": [{"mediaType": _LAYER, "digest": layer["digest"], "size": layer["size"]} for layer in layers],
    }
    body = json.dumps(manifest).encode()
    _call("PUT", f"/v2/{repository}/manifests/{tag}", body, {"Content-Type": _MANIFEST}, expect=201)
    return sent


def _folders(facts: dict[str, Any]) -> list[Path]:
    """The overlay folders of an image's layers, lowest first."""
    data = facts["GraphDriver"]["Data"]
    lower = [folder for folder in data.get("LowerDir", "").split(":") if folder]
    return [Path(folder) for folder in (*reversed(lower), data["UpperDir"])]


def _send_layer(repository: str, folder: Path) -> dict[str, Any]:
    """Tar, compress and upload at the same time; returns both digests and the size sent."""
    environment = {**os.environ, **private_engine.library_path()}
    program = private_engine.program("zstd")
    with subprocess.Popen(
        [program, "-1", "-T0", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as zstd:
        assert zstd.stdin is not None
        assert zstd.stdout is not None
        plain = _HashingWriter(zstd.stdin)
        writer = threading.Thread(target=_write_tar, args=(folder, plain), daemon=True)
        writer.start()
        digest, size = _upload(repository, iter(lambda: zstd.stdout.read(_CHUNK), b""))  # type: ignore[union-attr]
        writer.join()
    if zstd.returncode or plain.failure:
        raise TestbedError(f"compressing {folder} failed: {plain.failure or zstd.returncode}")
    return {"digest": digest, "size": size, "plain": f"sha256:{plain.hash.hexdigest()}"}


class _HashingWriter:
    """A file to write into that remembers the digest of what went through."""

    def __init__(self, sink: IO[bytes]) -> None:
        self.sink = sink
        self.hash = hashlib.sha256()
        self.failure: Exception | None = None

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self.sink.write(data)


def _write_tar(folder: Path, sink: _HashingWriter) -> None:
    try:
        with tarfile.open(fileobj=sink, mode="w|", bufsize=_CHUNK, format=tarfile.PAX_FORMAT) as tar:  # type: ignore[call-overload]
            for entry in sorted(folder.rglob("*")):
                _add(tar, folder, entry)
    except Exception as error:  # noqa: BLE001  (a thread: handed to whoever joins it)
        sink.failure = error
    finally:
        sink.sink.close()


def _add(tar: tarfile.TarFile, folder: Path, entry: Path) -> None:
    """One file; what overlay marks as deleted becomes a whiteout, as image layers write it."""
    name = str(entry.relative_to(folder))
    status = entry.lstat()
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        tar.addfile(tarfile.TarInfo(str(Path(name).parent / f".wh.{entry.name}")))
        return
    tar.add(entry, name, recursive=False)
    if entry.is_dir() and not entry.is_symlink() and _is_opaque(entry):
        tar.addfile(tarfile.TarInfo(f"{name}/.wh..wh..opq"))


def _is_opaque(folder: Path) -> bool:
    try:
        return os.getxattr(folder, "trusted.overlay.opaque") == b"y"
    except OSError:
        return False


def _upload(repository: str, chunks: Iterator[bytes]) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            digest.update(chunk)
            size += len(chunk)
            yield chunk

    location = _call("POST", f"/v2/{repository}/blobs/uploads/", b"", expect=202)
    kind = {"Content-Type": "application/octet-stream"}
    location = _call("PATCH", location, counted(), kind, expect=202)
    name = f"sha256:{digest.hexdigest()}"
    separator = "&" if "?" in location else "?"
    _call("PUT", f"{location}{separator}digest={urllib.parse.quote(name)}", b"", expect=201)
    return name, size


def _send_bytes(repository: str, data: bytes) -> dict[str, Any]:
    name = f"sha256:{hashlib.sha256(data).hexdigest()}"
    if not _has_blob(repository, name):
        _upload(repository, iter([data]))
    return {"digest": name, "size": len(data)}


def _has_blob(repository: str, digest: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", registry.PORT, timeout=30)
    connection.request("HEAD", f"/v2/{repository}/blobs/{digest}")
    return connection.getresponse().status == 200


def _call(
    method: str, url: str, body: bytes | Iterator[bytes], headers: dict[str, str] | None = None, *, expect: int
) -> str:
    """One request to the registry; returns the location it names for the next.

    Raises:
        TestbedError: the registry answered something else than `expect`.
    """
    connection = http.client.HTTPConnection("127.0.0.1", registry.PORT, timeout=600)
    parts = urllib.parse.urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    connection.request(method, target, body, headers or {}, encode_chunked=not isinstance(body, bytes))
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    if answer.status != expect:
        raise TestbedError(f"registry: {method} {parts.path} answered {answer.status}: {text[:300]}")
    return answer.headers.get("Location") or ""


def _known_file() -> Path:
    return paths.made(paths.cache_root() / "registry") / "layers.json"


def _read_known() -> dict[str, dict[str, Any]]:
    try:
        known: dict[str, dict[str, Any]] = json.loads(_known_file().read_text())
    except (OSError, ValueError):
        return {}
    return known


def _write_known(known: dict[str, dict[str, Any]]) -> None:
    temporary = _known_file().with_suffix(".new")
    temporary.write_text(json.dumps(known, indent=1))
    temporary.replace(_known_file())
