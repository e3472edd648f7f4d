"""How gateways reach each other."""

from __future__ import annotations

from typing import Protocol

from ..state.gateways import Gateway
from .messages import Ask, Told


class PeerUnavailable(Exception):
    """A gateway gave no answer, or none that can be used; what was asked may come true yet."""


class Peers(Protocol):
    """How other gateways are asked."""

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        """Ask a gateway to decide proposals.

        Raises:
          PeerUnavailable: see there.
        """
        ...
