"""One message names everything that is missing and how to get it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dtj_testbed import debian, prerequisites
from dtj_testbed.errors import TestbedError


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No programs at all, and nobody who could install any."""
    monkeypatch.setenv("DTJ_CACHE", str(tmp_path / "not" / "yet"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "is_root_on_debian", lambda: False)


@pytest.mark.usefixtures("bare_machine")
def test_everything_missing_is_named_at_once() -> None:
    with pytest.raises(TestbedError) as error:
        prerequisites.check(compiles=True, brings_engine=True, gigabytes=1e9)
    for thing in ("disk space", "DTJ_CACHE", "openssl", "go: install Go", "container engine"):
        assert thing in str(error.value)


@pytest.mark.usefixtures("bare_machine")
def test_api_level_asks_for_no_engine() -> None:
    missing = prerequisites.find(compiles=False, brings_engine=False, gigabytes=0)
    assert [one.what for one in missing] == ["openssl"]


def test_root_on_debian_has_packages_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[str] = []
    there = {"go": "/usr/bin/go", "openssl": "/usr/bin/openssl"}
    monkeypatch.setattr(shutil, "which", lambda name: there.get(name) or ("/usr/bin/x" if name in installed else None))
    monkeypatch.setattr(debian, "is_root_on_debian", lambda: True)
    monkeypatch.setattr(debian, "install", installed.extend)
    prerequisites.check(compiles=False, brings_engine=True, gigabytes=0)
    assert installed == ["mmdebstrap"]
