"""The cache keys, and that what pins.py says is what the Go modules build."""

from __future__ import annotations

from pathlib import Path

import pytest
from dtj_testbed import pins

PINNED_IN_TOOLS = {
    "sigs.k8s.io/kind": pins.KIND,
    "helm.sh/helm/v4": pins.HELM,
    "sigs.k8s.io/kwok": pins.KWOK,
    "github.com/coredns/coredns": pins.COREDNS,
}
PINNED_IN_KUBERNETES = {"k8s.io/kubernetes": pins.KUBERNETES, "go.etcd.io/etcd/server/v3": pins.ETCD}
PINNED_IN = {
    "tools": PINNED_IN_TOOLS,
    "kubernetes": PINNED_IN_KUBERNETES,
    "jobset": {"sigs.k8s.io/jobset": pins.JOBSET},
    "training-operator": {"github.com/kubeflow/training-operator": pins.TRAINING_OPERATOR},
}


@pytest.mark.parametrize(("module", "versions"), PINNED_IN.items())
def test_go_modules_require_the_pinned_versions(module: str, versions: dict[str, str]) -> None:
    required = (pins.go_module_folder(module) / "go.mod").read_text()
    for name, version in versions.items():
        assert f"{name} {version}" in required


def test_etcd_image_tag_names_the_pinned_etcd() -> None:
    assert pins.ETCD_IMAGE_TAG.split("-")[0] == pins.ETCD.lstrip("v")


def test_key_changes_with_a_file_and_with_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module a")
    before = pins.digest_of_files(tmp_path)
    (tmp_path / "go.mod").write_text("module b")
    assert pins.digest_of_files(tmp_path) != before
    assert pins.go_module_key("tools", "go1.26.8") != pins.go_module_key("tools", "go1.26.9")


def test_key_ignores_what_python_leaves_behind(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    before = pins.digest_of_files(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "a.pyc").write_text("2")
    assert pins.digest_of_files(tmp_path) == before


def test_digest_keeps_parts_apart() -> None:
    assert pins.digest(["ab", "c"]) != pins.digest(["a", "bc"])
