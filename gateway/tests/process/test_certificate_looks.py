"""A SIGHUP makes a process look for new certificates, and never ends it."""

from __future__ import annotations

import os
import signal

import trio
import trio.testing

from tidegate_gateway.app import CertificateLooks
from tidegate_gateway.tls.tls_listeners import TlsListeners


class Looking(TlsListeners):
    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def look(self) -> None:
        self.looks += 1
        raise ZeroDivisionError


async def test_an_error_of_a_look_ends_nothing() -> None:
    looks, tls = CertificateLooks(), Looking()
    async with trio.open_nursery() as nursery:
        await nursery.start(looks.run)
        os.kill(os.getpid(), signal.SIGHUP)  # before the listeners are there
        await trio.testing.wait_all_tasks_blocked()
        looks.tls = tls
        for count in (1, 2):
            os.kill(os.getpid(), signal.SIGHUP)
            while tls.looks < count:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
