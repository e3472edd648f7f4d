"""Which gateway decides a proposal: this one (`DecidesHere`), or a leader (`forwarding`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from .decider import Decider
from .waiting import Waiting


class Route(Protocol):
    """The way of a coordinator's proposals to the gateway that decides them."""

    @property
    def unheard_since(self) -> float | None:
        """Since when another gateway owes an answer, on Trio's clock; None if no gateway does."""
        ...

    def take(self, waiting: Waiting[Any]) -> None:
        """Have a proposal of this gateway decided; answers come in the order of these calls."""
        ...

    def take_here(self, waiting: Waiting[Any]) -> None:
        """Have a proposal of another gateway decided by this gateway."""
        ...

    def withdraw(self, waiting: Waiting[Any]) -> None:
        """Let a proposal fail if its caller no longer waits, unless it is decided already.

        The caller may never learn the outcome, so no answer is owed.
        """
        ...

    async def run(self, decide: Callable[[], Awaitable[None]]) -> None:
        """Run `decide`, the loop of the decider, and the route's own work; forever."""
        ...


class DecidesHere:
    """The route of a gateway that decides all its proposals itself."""

    def __init__(self, decider: Decider) -> None:
        self.unheard_since: Final[float | None] = None
        self._queue = decider.queue

    def take(self, waiting: Waiting[Any]) -> None:
        """See Route."""
        self._queue.add(waiting)

    def take_here(self, waiting: Waiting[Any]) -> None:
        """See Route."""
        self._queue.add(waiting)

    def withdraw(self, waiting: Waiting[Any]) -> None:
        """See Route."""
        self._queue.withdraw(waiting)

    async def run(self, decide: Callable[[], Awaitable[None]]) -> None:
        """See Route."""
        await decide()
