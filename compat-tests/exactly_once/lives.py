"""The lives of a client program; each life is one process.  No I/O here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Life:
    """One process of a client, from its start to its end.

    ended_ms, code: None while it runs.  was_ended: the test ended it.
    """

    began_ms: int
    ended_ms: int | None = None
    code: int | None = None
    was_ended: bool = False

    @property
    def failed(self) -> bool:
        """Whether it ended by itself with an error."""
        return self.code not in (0, None) and not self.was_ended

    def take(self, now_ms: int, line: str) -> None:
        """Note a line of its output."""
        raise NotImplementedError
