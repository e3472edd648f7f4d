"""Rows of one binary column in Arrow.  Only this module uses pyarrow, which has no type hints."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeAlias

_pa: Any = import_module("pyarrow")

Batch: TypeAlias = Any
"""A pyarrow.RecordBatch."""


def table_of(column: str, cells: Sequence[bytes]) -> Any:
    """Return a table of one column."""
    return _pa.table({column: _pa.array(cells, _pa.binary())})


def batch_of(column: str, cells: Sequence[bytes]) -> Batch:
    """Return a batch of one column."""
    return _pa.RecordBatch.from_arrays([_pa.array(cells, _pa.binary())], [column])


def cells_of(column: str, rows: Any) -> list[bytes]:
    """Return the cells of a table or a batch."""
    return list(rows.column(column).to_pylist())
