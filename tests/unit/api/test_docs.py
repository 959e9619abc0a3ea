"""The reference pages name everything that the contract has."""

import re
from pathlib import Path

from dtj_api.environment import GLOO_INTERFACE, NCCL_INTERFACE, RESERVED
from dtj_api.exit_codes import ExitCode

DOCS = Path(__file__).parents[3] / "docs" / "reference"
# Finding("Running", "False", "Starting", ...)
FINDING = r'Finding\("\w+", "\w+", "(\w+)"'
PAGE = (DOCS / "environment.md").read_text()


def test_every_variable_is_documented() -> None:
    assert set(re.findall(r"`([A-Z_]{4,})`", PAGE)) == RESERVED | {NCCL_INTERFACE, GLOO_INTERFACE}


def test_every_exit_code_is_documented() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| (\w+) \|", PAGE, re.MULTILINE))
    assert rows == {str(int(code)): code.reason for code in ExitCode}


def test_every_reason_of_a_condition_is_documented() -> None:
    page = (DOCS / "status.md").read_text()
    sources = (Path(__file__).parents[3] / "operator/src/dtj_operator/policy").glob("*.py")
    found = {reason for path in sources for reason in re.findall(FINDING, path.read_text())}
    assert len(found) > 10
    assert {reason for reason in found if reason not in page} == set()
