"""The whole table, and specs made from it."""

from typing import Any

from tests.api.fields import checkpoint, gang, run, training
from tests.api.fields.rows import Row, merged, nest
from tests.api.harness import Object

ROWS: list[Row] = [*training.ROWS, *gang.ROWS, *checkpoint.ROWS, *run.ROWS]
BY_ID = {row.id: row for row in ROWS}


def spec_with(path: str, value: Any) -> Object:
    """A valid spec in which the field at `path` has this value."""
    row = next(row for row in ROWS if row.path.partition("[]")[0] == path)
    return merged(row.changed, nest(path, value))
