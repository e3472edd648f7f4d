"""Events of a move of the metadata log to another log (decision 13).

The entry that holds LogMoved is the last of its log.  The next position is in the new log, which by
then holds, or is given by whoever comes first, every entry of the old one since its snapshot.
"""

from __future__ import annotations

from .cluster import Event


class LogMoveBegun(Event, frozen=True, tag=60):
    """An incarnation copies the log; a move that was under way before ends here.

    From here on nobody takes snapshots of this log or trims it, so that it can be copied.
    """

    move_id: str
    incarnation: int


class LogMoveOffered(Event, frozen=True, tag=61):
    """The copy can be looked at: every gateway is to say whether it can use it.

    url: of the new log, as it was given to the command, less what is secret.  copy: id of the move
    that wrote the snapshot which the copy begins with; no other log of the cluster has that one.
    """

    move_id: str
    url: str
    copy: str = ""


class LogMoveAnswered(Event, frozen=True, tag=62):
    """A gateway has looked at the copy; complaint: why it cannot use it, "" if it can."""

    move_id: str
    incarnation: int
    complaint: str


class LogMoved(Event, frozen=True, tag=63):
    """Nothing follows this entry in this log."""

    move_id: str


class LogMoveCancelled(Event, frozen=True, tag=64):
    """The log stays where it is; the copy is of no use to anybody but a later move."""

    move_id: str
