"""DescribeUserScramCredentials and AlterUserScramCredentials: version 0 (KIP-554).

The client computes the salted password.  The gateway computes two HMACs of it, and keeps only their
results.  A request may name a user only once.  Texts are Kafka's (ScramControlManager, ScramImage).

With metadata.secret.key, credentials are sealed in the log; see ../../security/sealing.py.

Differs from Kafka: a user cannot be called `*`, since User:* stands for all users in ACLs.  There
is a limit on the length of keys and salts.  An empty salted password gets UNACCEPTABLE_CREDENTIAL,
while Kafka answers UNKNOWN_SERVER_ERROR.  A long request changes credentials by several log
entries.  If it fails in between, some credentials have changed, and the client can repeat it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final, NamedTuple

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.metadata_versions import SEALS
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    ScramChange,
    ScramDeletion,
    ScramRefusal,
    size_bytes,
)
from tidegate_coordination.state.security.scram import (
    ScramCredential,
    ScramMechanism,
    SealedCredential,
)
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_user_scram_credentials as alter
from tidegate_protocol.messages import describe_user_scram_credentials as describe

from ...network.call import Call
from ...network.turns import Turns, in_order
from ...security.sasl.exchange import ILLEGAL_USERS
from ...security.sasl.scram import MIN_ITERATIONS
from ...security.sasl.scram_keys import MAX_ITERATIONS, credential_of
from ...security.sealing import SEALS_NOT_YET, Sealing

_KNOWN: Final = frozenset(ScramMechanism)

Change = ScramChange
Row = alter.ScramCredentialDeletion | alter.ScramCredentialUpsertion


class Problem(NamedTuple):
    """The reason why nothing changes for a user."""

    code: ErrorCode
    text: str


_TWICE: Final = Problem(
    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
)
_NO_NAME: Final = Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
_ALL_USERS: Final = Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "A user cannot be called *")
_NO_MECHANISM: Final = Problem(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
_NO_SEALS_YET: Final = Problem(ErrorCode.UNSUPPORTED_VERSION, SEALS_NOT_YET)
_TOO_FEW: Final = Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
_TOO_MANY: Final = Problem(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
_NO_PASSWORD: Final = Problem(
    ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty"
)
_OF_REFUSALS: Final = {
    ScramRefusal.NOT_YET: Problem(
        ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
    ),
    ScramRefusal.NOT_FOUND: Problem(
        ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"
    ),
    ScramRefusal.IMPOSSIBLE: Problem(
        ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salt or the salted password is too long"
    ),
    ScramRefusal.TOO_LARGE: Problem(ErrorCode.POLICY_VIOLATION, "Too many changes at once"),
}


def credential_from(row: alter.ScramCredentialUpsertion) -> ScramCredential:
    """Return the credential that an upsertion of a known mechanism sets."""
    mechanism = ScramMechanism(row.mechanism)
    return credential_of(row.name, mechanism, row.salt, row.salted_password, row.iterations)


def _problem_of(row: Row) -> Problem | None:
    if not row.name:
        return _NO_NAME
    if row.mechanism not in _KNOWN:
        return _NO_MECHANISM
    if isinstance(row, alter.ScramCredentialDeletion):
        return None
    if row.name in ILLEGAL_USERS:
        return _ALL_USERS
    if row.iterations < MIN_ITERATIONS:
        return _TOO_FEW
    if row.iterations > MAX_ITERATIONS:
        return _TOO_MANY
    return None if row.salted_password else _NO_PASSWORD


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials:
    """Answers AlterUserScramCredentials requests."""

    coordinator: Coordinator
    sealing: Sealing
    api_key: ClassVar[int] = ApiKey.ALTER_USER_SCRAM_CREDENTIALS
    messages: ClassVar[ModuleType] = alter

    async def handle(
        self, call: Call, request: alter.AlterUserScramCredentialsRequest
    ) -> alter.AlterUserScramCredentialsResponse:
        """Answer for each user."""
        problems: dict[str, Problem | None] = {}
        wanted: dict[str, Change] = {}
        rows: list[Row] = [*request.deletions, *request.upsertions]
        for row in rows:
            is_again = row.name in problems
            if is_again and problems[row.name] is not None:
                continue
            problems[row.name] = found = _TWICE if is_again else self._problem(row)
            if found is not None:
                wanted.pop(row.name, None)
            elif isinstance(row, alter.ScramCredentialUpsertion):
                wanted[row.name] = self._kept(credential_from(row))
            else:
                wanted[row.name] = ScramDeletion(row.name, row.mechanism)
        for part in parts(list(wanted.values()), size_bytes):
            problems |= await self._propose(part)
        return alter.AlterUserScramCredentialsResponse(
            results=[_result(user, each) for user, each in problems.items()]
        )

    def _problem(self, row: Row) -> Problem | None:
        # The operator wants no plain secrets in the log.
        is_early = self.coordinator.state.metadata_version < SEALS and self.sealing.seals
        if is_early and isinstance(row, alter.ScramCredentialUpsertion):
            return _NO_SEALS_YET
        return _problem_of(row)

    def _kept(self, credential: ScramCredential) -> ScramCredential | SealedCredential:
        return self.sealing.sealed(credential) if self.sealing.seals else credential

    async def _propose(self, part: Sequence[Change]) -> dict[str, Problem | None]:
        new = [each for each in part if isinstance(each, ScramCredential)]
        old = [each for each in part if isinstance(each, ScramDeletion)]
        sealed = [each for each in part if isinstance(each, SealedCredential)]
        refusals = await self.coordinator.propose(AlterScramCredentials(new, old, sealed))
        users = [
            *(each.user for each in old),
            *(each.user for each in new),
            *(each.user for each in sealed),
        ]
        return {
            user: None if refusal is None else _OF_REFUSALS[refusal]
            for user, refusal in zip(users, refusals, strict=True)
        }


def _result(user: str, problem: Problem | None) -> alter.AlterUserScramCredentialsResult:
    if problem is None:
        return alter.AlterUserScramCredentialsResult(user, ErrorCode.NONE, None)
    return alter.AlterUserScramCredentialsResult(user, problem.code, problem.text)


@dataclass(frozen=True, slots=True)
class DescribeUserScramCredentials:
    """Shows mechanisms and iterations; neither salts nor keys."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS
    messages: ClassVar[ModuleType] = describe

    async def handle(
        self, call: Call, request: describe.DescribeUserScramCredentialsRequest
    ) -> describe.DescribeUserScramCredentialsResponse:
        """Answer for each named user; without names, for all users."""
        await self.coordinator.catch_up()
        answer = describe.DescribeUserScramCredentialsResponse(error_message="")
        turns = Turns()
        if not request.users:
            for name in await in_order(self.coordinator.state.scram.copied_users(), turns):
                if self.coordinator.state.scram.of_user(name):
                    answer.results.append(self._result(name, 1))
                await turns.count()
            return answer
        counts = Counter[str]()
        for each in request.users:
            counts[each.name] += 1
            await turns.count()
        for name, count in counts.items():
            answer.results.append(self._result(name, count))
            await turns.count()
        return answer

    def _result(self, user: str, count: int) -> describe.DescribeUserScramCredentialsResult:
        found = self.coordinator.state.scram.of_user(user)
        if count > 1:
            code = ErrorCode.DUPLICATE_RESOURCE
            text = (
                "Cannot describe SCRAM credentials for the same user twice in a single request:"
                f" {user}"
            )
        elif not found:
            code = ErrorCode.RESOURCE_NOT_FOUND
            text = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            infos = [describe.CredentialInfo(each.mechanism, each.iterations) for each in found]
            return describe.DescribeUserScramCredentialsResult(user, ErrorCode.NONE, "", infos)
        return describe.DescribeUserScramCredentialsResult(user, code, text[:1000])
