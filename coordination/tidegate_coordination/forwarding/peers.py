"""How gateways reach each other."""

from __future__ import annotations

from typing import Protocol

from ..state.writers.gateways import Gateway
from .messages import Ask, Told


class PeerUnavailable(Exception):
    """A gateway gave no usable answer; its proposals may still be committed."""


class Peers(Protocol):
    """Sends questions to other gateways."""

    async def ask(self, gateway: Gateway, question: Ask, timeout_seconds: float) -> Told:
        """Ask a gateway to decide proposals.

        Raises:
          PeerUnavailable: see there.
        """
        ...
