"""The SQLSTATE of a refused connection: libpq reports only the server's sentence.

The sentence is in the server's language. So the connection is tried once more with libpq's own
trace, which shows the received fields of the protocol. The trace may hold a password, so it is kept
in memory only, and only the SQLSTATE is read from it.
"""

import os
import re
import select
import sys
import time
from typing import Final

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from tidegate_coordination.logs.postgres.url import Address

_ERROR: Final = re.compile(rb'\tErrorResponse\t[^\n]*? C "([0-9A-Z]{5})"')


def state_of_refusal(address: Address, deadline_seconds: float) -> str:
    """Connect once more; return the SQLSTATE of the server's refusal, "" if it is unknown."""
    if sys.platform != "linux":  # psycopg can trace on no other system
        return ""
    with os.fdopen(os.memfd_create("tidegate-trace"), "rb") as trace:
        conninfo = make_conninfo(**address.parameters).encode()
        connection = pq.PGconn.connect_start(conninfo)
        try:
            connection.trace(trace.fileno())
            _connect(connection, time.monotonic() + deadline_seconds)
            connection.untrace()
        except psycopg.Error:  # there is no trace, or no connection
            return ""
        finally:
            connection.finish()
        trace.seek(0)
        found = _ERROR.findall(trace.read())
    return found[-1].decode() if found else ""


def _connect(connection: pq.abc.PGconn, deadline: float) -> None:
    events = select.POLLOUT
    while (left_seconds := deadline - time.monotonic()) > 0:
        if connection.status == pq.ConnStatus.BAD:
            return
        poll = select.poll()
        poll.register(connection.socket, events)
        if not poll.poll(left_seconds * 1000):
            return
        state = connection.connect_poll()
        if state in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            return
        events = select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT
