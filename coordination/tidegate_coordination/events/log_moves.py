"""Events of a move of the metadata log to another log (decision 13).

The entry that holds LogMoved is the last of its log.  The next position is in the new log.  When
LogMoved is appended, the new log may lack the last entries of the old one: the first gateway that
moves to the new log copies them.
"""

from __future__ import annotations

from .cluster import Event


class LogMoveBegun(Event, frozen=True, tag=60):
    """An incarnation copies the log; a move that was under way before ends here.

    From here on no gateway takes snapshots of this log or trims it, so that it can be copied.
    """

    move_id: str
    incarnation: int


class LogMoveOffered(Event, frozen=True, tag=61):
    """The copy is ready for a check: every gateway answers whether it can use the copy.

    url: the new log's URL, as given to the command, without secrets. copy: the id of the move that
    wrote the snapshot with which the copy begins; no other log of the cluster has that snapshot.
    """

    move_id: str
    url: str
    copy: str = ""


class LogMoveAnswered(Event, frozen=True, tag=62):
    """A gateway has checked the copy; complaint: why it cannot use it, "" if it can."""

    move_id: str
    incarnation: int
    complaint: str


class LogMoved(Event, frozen=True, tag=63):
    """The last entry of this log."""

    move_id: str


class LogMoveCancelled(Event, frozen=True, tag=64):
    """The log stays where it is; only a later move can use the copy."""

    move_id: str
