"""Checks that connections do not share sessions: a pooler may be between gateway and server.

LISTEN, prepared statements, settings and advisory locks belong to a session.  A pooler that is not
in session mode gives each transaction of a client any of its server connections. So the check has
one connection change a setting, and another one then hold a transaction open. For that transaction
such a pooler takes the server connection that has just become free. If the first connection no
longer finds its setting, it has no session of its own.  The check writes nothing into a table.
"""

from typing import Final
from uuid import uuid4

import psycopg

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.postgres.session import Connection
from tidegate_coordination.logs.postgres.url import Address

# Other clients of a pooler may take the connection that was just freed.
_ROUNDS: Final = 2
_SETTING: Final = "tidegate.session"
# A pooler in statement mode answers this to BEGIN.
_PROTOCOL_VIOLATION: Final = "08P01"


def see_own_sessions(first: Connection, second: Connection, address: Address) -> None:
    """Check two connections to the same address.

    Raises:
        LogMisconfigured: a pooler shares server connections between them.
        psycopg.Error: to be translated.
    """
    for _ in range(_ROUNDS):
        for one, other in ((first, second), (second, first)):
            if not _keeps_its_session(one, other):
                raise LogMisconfigured(
                    f"{address.shown} is a pooler that is not in session mode, so LISTEN, prepared"
                    " statements and locks are lost: set pool_mode=session for this database, or"
                    " name PostgreSQL itself"
                )


def _keeps_its_session(one: Connection, other: Connection) -> bool:
    mark = uuid4().hex
    one.execute("SELECT set_config(%s, %s, false)", (_SETTING, mark))
    try:
        with other.transaction():
            other.execute("SELECT 1")
            row = one.execute("SELECT current_setting(%s, true)", (_SETTING,)).fetchone()
    except psycopg.errors.ProtocolViolation:
        return False
    return row == (mark,)
