"""A client that logs in, works, logs in again, and sometimes lets its session end.

The client counts the lifetime of its session from the moment when it gets the answer, and the
gateway ends the session no later.  So a gateway must not answer a request that is sent after that
end.  If no fault strikes the gateways, they answer every earlier request, however many strangers
connect.
"""

from __future__ import annotations

from typing import Final

import trio

from tidegate_protocol.messages import alter_user_scram_credentials as alter

from ..clients.client import Client, ClientConnection, Disconnected
from ..clients.workload import Workload
from ..plans.security.login_plan import MOST_PIECES, STEADY, password_of
from . import scram
from .login import PLAIN, Answer, Secret, is_served, log_in, open_connection

# A gateway lets a client log in again once a second.
_AGAIN_SECONDS: Final = 1.5
_AGAIN_SHARE: Final = 0.5
_LEAVES_SHARE: Final = 0.1
_ENDS_SHARE: Final = 0.25


class SessionClient:
    """See the module's head.  mechanism: PLAIN or SCRAM."""

    def __init__(self, workload: Workload, name: str, mechanism: str) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._secret = Secret(mechanism, STEADY, password_of(STEADY))
        self._ends_at = 0.0
        self._logged_in_at = 0.0
        self._lets_it_end = False

    async def run(self) -> None:
        """Live one session after the other until no operation is left."""
        if self._secret.mechanism != PLAIN:
            await self._set_password()
        while self._workload.take():
            node_id = self.client.rng.choice(sorted(self.client.world.nodes))
            try:
                connection = await open_connection(self.client.world, self.client.name, node_id)
                await self._log_in(connection, node_id)
            except Disconnected:
                await self.client.pause(1.0)
                continue
            await self._live(connection, node_id)
            connection.close()

    async def _set_password(self) -> None:
        """Set the password of SCRAM, by the listener without logins; it never changes."""
        salt = self.client.rng.randbytes(16)
        key = scram.salted(self._secret.password, salt, scram.ITERATIONS)
        row = alter.ScramCredentialUpsertion(STEADY, scram.NUMBER, scram.ITERATIONS, salt, key)
        request = alter.AlterUserScramCredentialsRequest([], [row])
        while True:
            try:
                await self.client.call("AlterUserScramCredentials", alter, 0, request)
                break
            except Disconnected:
                await self.client.pause(1.0)
        self.client.close()

    async def _log_in(self, connection: ClientConnection, node_id: int) -> None:
        """Log in, for the first time or again.

        Raises:
          Disconnected: it failed.
        """
        world, plan = self.client.world, self.client.world.plan.logins
        is_known = self._is_known(node_id)
        answer = await log_in(connection, self._secret, self.client.rng)
        if answer.code:
            if is_known:
                world.complain("a right password was refused", f"{answer}")
            raise Disconnected
        self._judge(answer, plan.session_ms)
        world.strikes.count("logins.done")
        self._logged_in_at = answer.at
        self._ends_at = answer.at + answer.lifetime_ms / 1000
        self._lets_it_end = self.client.rng.random() < _ENDS_SHARE

    def _is_known(self, node_id: int) -> bool:
        """Return whether the gateway has the user's password, which a stale gateway may lack."""
        gateway = self.client.world.nodes[node_id].gateway
        is_plain = self._secret.mechanism == PLAIN
        return gateway is not None and (
            is_plain or gateway.coordinator.state.scram.get(STEADY, scram.NUMBER) is not None
        )

    def _judge(self, answer: Answer, session_ms: int) -> None:
        if answer.lifetime_ms != session_ms:
            self.client.world.complain("another lifetime", f"{answer.lifetime_ms} ms")
        if not answer.is_proved:
            self.client.world.complain("a gateway did not prove itself", f"{self._secret}")

    async def _live(self, connection: ClientConnection, node_id: int) -> None:
        rng = self.client.rng
        while self._workload.take():
            await trio.sleep(rng.uniform(0.0, 2.0))
            now = trio.current_time()
            if now > self._ends_at:
                return await self._ask_after_the_end(connection)
            if self._begins_again(now):
                try:
                    await self._log_in(connection, node_id)
                except Disconnected:
                    return self._note_unserved("to log in again")
            elif not await is_served(connection):
                # The request may have arrived after the end of the session.
                if now + MOST_PIECES * self.client.world.plan.latency_seconds < self._ends_at:
                    self._note_unserved("Metadata")
                return None
            if rng.random() < _LEAVES_SHARE:
                return None
        return None

    def _begins_again(self, now: float) -> bool:
        may_begin = not self._lets_it_end and now - self._logged_in_at > _AGAIN_SECONDS
        return may_begin and self.client.rng.random() < _AGAIN_SHARE

    async def _ask_after_the_end(self, connection: ClientConnection) -> None:
        if await is_served(connection):
            self.client.world.complain("a session outlived its end", self.client.name)
        self.client.world.strikes.count("logins.ended")

    def _note_unserved(self, what: str) -> None:
        world = self.client.world
        if world.plan.logins.is_calm:
            world.complain("a client with a login was not served", what)
