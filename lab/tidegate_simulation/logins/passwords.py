"""A keeper sets and changes passwords of SCRAM, and a guesser tries passwords that are right, old
or wrong.

A password that a gateway has acknowledged is valid at all gateways once the log has answered them.
A gateway without answers of the log is judged by the credentials that it knows itself.  If a change
gets no answer, the network may deliver it at any time, so the keeper continues with another user.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from tidegate_gateway.builder import AWAY_SECONDS
from tidegate_gateway.gateway import Gateway
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_user_scram_credentials as alter

from ..clients.client import Client, Disconnected
from ..clients.workload import Workload
from ..invariants.sealed import opened
from ..plans.security.login_plan import STEADY
from . import scram
from .login import PLAIN, Answer, Secret, is_refusal, is_served, log_in, open_connection

_MOMENT_SECONDS: Final = AWAY_SECONDS + 1.0
_NOBODY: Final = "nobody"
_PAUSE: Final = 20.0
_SEALED_PAUSE: Final = 3.0  # many changes while credentials are sealed again


class Passwords:
    """The present user of SCRAM, and the passwords that it may have had over time."""

    def __init__(self) -> None:
        self.user = ""
        self.number = 0
        self._changes: list[tuple[float, frozenset[str]]] = []

    def begin_user(self) -> None:
        """Continue with a user who has no password yet."""
        self.number += 1
        self.user = f"user-{self.number}"
        self._changes = [(0.0, frozenset({""}))]

    def begin_change(self, password: str) -> None:
        """Note that a password may be valid from now on, and the former one may still be."""
        self._note(self._changes[-1][1] | {password})

    def end_change(self, password: str) -> None:
        """Note that a gateway has acknowledged the password."""
        self._note(frozenset({password}))

    def _note(self, passwords: frozenset[str]) -> None:
        self._changes.append((trio.current_time(), passwords))

    def possible_since(self, since: float) -> frozenset[str]:
        """Return the passwords that may have been valid since a time; "" stands for no password."""
        before = [each for time, each in self._changes if time <= since][-1:]
        after = [each for time, each in self._changes if time > since]
        return frozenset[str]().union(*before, *after)

    @property
    def ever(self) -> list[str]:
        """All passwords that the user ever had, sorted."""
        return sorted(frozenset[str]().union(*(each for _, each in self._changes)) - {""})


class PasswordKeeper:
    """Sets and changes SCRAM passwords.  It connects to the listener that asks for no login."""

    def __init__(self, workload: Workload, name: str, passwords: Passwords) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._passwords = passwords
        self._count = 0

    async def run(self) -> None:
        """Change passwords until no operation is left."""
        self._passwords.begin_user()
        sealing = self.client.world.plan.logins.sealing
        while self._workload.take():
            await self._change()
            await self.client.pause(_SEALED_PAUSE if sealing.is_on else _PAUSE)
        self.client.close()

    async def _change(self) -> None:
        self._count += 1
        passwords, password = self._passwords, f"password {self._count}"
        salt = self.client.rng.randbytes(16)
        key = scram.salted(password, salt, scram.ITERATIONS)
        row = alter.ScramCredentialUpsertion(
            passwords.user, scram.NUMBER, scram.ITERATIONS, salt, key
        )
        request = alter.AlterUserScramCredentialsRequest([], [row])
        passwords.begin_change(password)
        try:
            answer = await self.client.call("AlterUserScramCredentials", alter, 0, request)
        except Disconnected:
            passwords.begin_user()
            return
        code = answer.results[0].error_code
        if code:
            text = f"AlterUserScramCredentials: {ErrorCode(code).name}"
            self.client.world.complain("false error", text)
        passwords.end_change(password)
        self.client.world.strikes.count("logins.password_changed")


@dataclass(frozen=True, slots=True)
class _Known:
    """The knowledge of a gateway at a moment.

    row: the user's credential, if there is one.  is_stale, stale_seconds: see Liveness.
    """

    gateway: Gateway
    row: object
    is_stale: bool
    stale_seconds: float


class Guesser:
    """Tries passwords at all gateways, each on a connection of its own."""

    def __init__(self, workload: Workload, name: str, passwords: Passwords) -> None:
        self.client = Client(workload.world, name)
        self._workload = workload
        self._passwords = passwords

    async def run(self) -> None:
        """Guess until no operation is left."""
        while self._workload.take():
            node_id = self.client.rng.choice(sorted(self.client.world.nodes))
            try:
                await self.client.rng.choice((self._guess, self._guess_old, self._ask))(node_id)
            except Disconnected:
                await self.client.pause(1.0)
            await self.client.pause(3.0)

    async def _ask(self, node_id: int) -> None:
        """Ask without a login."""
        connection = await open_connection(self.client.world, self.client.name, node_id)
        if await is_served(connection):
            self.client.world.complain("a stranger was served", f"at gateway {node_id}")
        connection.close()

    async def _guess(self, node_id: int) -> None:
        """Log in with a password that no user ever had."""
        rng = self.client.rng
        mechanism = rng.choice((PLAIN, scram.NAME))
        known = STEADY if mechanism == PLAIN else self._passwords.user or _NOBODY
        secret = Secret(mechanism, rng.choice((known, _NOBODY)), "guessed")
        answer = await self._try(node_id, secret)
        if not answer.code:
            self.client.world.complain("a wrong password got in", f"{secret} at {node_id}")
            return
        self._expect_refusal(answer, mechanism)
        self.client.world.strikes.count("logins.refused")

    async def _guess_old(self, node_id: int) -> None:
        """Log in with a password that the user has, or had."""
        passwords, user, ever = self._passwords, self._passwords.user, self._passwords.ever
        if not ever:
            return
        # Only the last ones: older passwords tell less.
        secret = Secret(scram.NAME, user, self.client.rng.choice(ever[-3:]))
        since, before = trio.current_time(), self._known(node_id, user)
        answer = await self._try(node_id, secret)
        if answer.code:
            self._expect_refusal(answer, scram.NAME)
        elif not answer.is_proved:
            self.client.world.complain("a gateway did not prove itself", f"{secret}")
        after = self._known(node_id, user)
        if before is None or after is None or before.gateway is not after.gateway:
            return
        self._judge_by_own(secret, answer, before, after)
        if passwords.user == user and not (before.is_stale or after.is_stale):
            since -= before.stale_seconds + _MOMENT_SECONDS
            self._judge(secret, answer, passwords.possible_since(since))

    async def _try(self, node_id: int, secret: Secret) -> Answer:
        world, rng = self.client.world, self.client.rng
        connection = await open_connection(world, self.client.name, node_id)
        answer = await log_in(connection, secret, rng)
        served = await is_served(connection) if answer.code else False
        connection.close()
        if served:
            world.complain("a stranger was served", f"{secret} at gateway {node_id}")
        return answer

    def _expect_refusal(self, answer: Answer, mechanism: str) -> None:
        if not is_refusal(answer, mechanism):
            self.client.world.complain("a failed login got another answer", f"{answer}")

    def _judge(self, secret: Secret, answer: Answer, possible: frozenset[str]) -> None:
        complain = self.client.world.complain
        if not answer.code and secret.password not in possible:
            complain("an old password got in", f"{secret}")
        if answer.code and possible == frozenset({secret.password}):
            complain("a right password was refused", f"{secret}")

    def _judge_by_own(self, secret: Secret, answer: Answer, before: _Known, after: _Known) -> None:
        """Judge by the gateway's own credential, if it has not changed during the login."""
        if before.row is not after.row:
            return
        kept = before.gateway.coordinator.state.scram.get(secret.user, scram.NUMBER)
        credential = opened(kept)
        is_right = credential is not None and credential.stored_key == scram.stored_key(
            secret.password, credential.salt, credential.iterations
        )
        self._judge(secret, answer, frozenset({secret.password} if is_right else {""}))

    def _known(self, node_id: int, user: str) -> _Known | None:
        gateway = self.client.world.nodes[node_id].gateway
        if gateway is None:
            return None
        row = gateway.coordinator.state.scram.get(user, scram.NUMBER)
        coordinator = gateway.coordinator
        return _Known(gateway, row, coordinator.is_stale, coordinator.stale_seconds)
