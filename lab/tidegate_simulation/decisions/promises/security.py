"""The promises of answers about ACLs, passwords, quotas and tokens: what they said must hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tidegate_coordination.events.entries import Entry
from tidegate_coordination.events.security import AclsChanged, DelegationTokensRemoved
from tidegate_coordination.rules.security.scram import Resealing, ScramDeletion
from tidegate_coordination.rules.security.tokens import CreateToken, TokenRefusal
from tidegate_coordination.security.acls import Acl, AclFilter
from tidegate_coordination.security.quotas import QuotaChange, QuotaEntity
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.security.scram import KeptCredential, fingerprint

from .moment import Moment

_LATE_MS: Final = 60_000
"""The clocks of most gateways may be so late, as the log knows them."""


class RightPromises:
    """ACLs, passwords and quotas."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._acls: Final[set[Acl]] = set()
        self._passwords: Final[dict[tuple[str, int], KeptCredential]] = {}
        self._quotas: Final[dict[tuple[QuotaEntity, str], float]] = {}
        self._changed_at = 0

    def entry(self) -> None:
        """Record the position at which ACLs change."""
        if any(self._moment.of_kind(AclsChanged)):
            self._changed_at = self._moment.truth.position

    def added(self, rows: Iterable[Acl], refusal: object) -> None:
        """Record an answer to CreateAcls."""
        if refusal is None:
            self._acls.update(rows)

    def removed(self, wanted: AclFilter, rows: Sequence[Acl]) -> None:
        """Judge an answer to DeleteAcls with a filter of one name."""
        expected = {
            each for each in self._acls if each.name == wanted.name and wanted.one in (None, each)
        }
        if set(rows) != expected or len(rows) != len(expected):
            self._moment.complain(f"{rows} are removed instead of {expected}")
        self._acls.difference_update(rows)

    def used(self, as_of: int) -> None:
        """Judge a change whose client's rights were looked up at a position."""
        if as_of < self._changed_at < self._moment.truth.position:
            text = f"rights of {as_of} were used, and changed at {self._changed_at}"
            self._moment.complain(text)

    def has_password(self, new: KeptCredential) -> None:
        """Record a password."""
        self._passwords[new.user, new.mechanism] = new

    def lost_password(self, deletion: ScramDeletion, *, is_done: bool) -> None:
        """Judge the answer to a deletion."""
        known = self._passwords.get((deletion.user, deletion.mechanism))
        is_it = known is not None and deletion.before in (b"", fingerprint(known))
        if is_it != is_done:
            self._moment.complain(f"{deletion} of {known} was done: {is_done}")
        if is_done:
            self._passwords.pop((deletion.user, deletion.mechanism), None)

    def sealed(self, change: Resealing, *, is_done: bool) -> None:
        """Judge the answer to a sealing, which must not replace a password that has changed."""
        key = change.after.user, change.after.mechanism
        known = self._passwords.get(key)
        if is_done and (known is None or fingerprint(known) != change.before):
            self._moment.complain(f"{key} is sealed, and was {known}")
        if is_done:
            self._passwords[key] = change.after

    def has_quotas(self, changes: Iterable[QuotaChange]) -> None:
        """Record quotas."""
        for each in changes:
            if each.value is None:
                self._quotas.pop((each.entity, each.key), None)
            else:
                self._quotas[each.entity, each.key] = each.value

    def check(self) -> None:
        """Compare all."""
        state = self._moment.truth
        if set(state.acls) != self._acls or len(state.acls) != len(self._acls):
            self._moment.complain("other ACLs are set than were promised")
        if {(each.user, each.mechanism): each for each in state.scram} != self._passwords:
            self._moment.complain("other passwords are set than were promised")
        quotas = {
            (entity, key): value for entity, own in state.quotas for key, value in own.items()
        }
        if quotas != self._quotas:
            self._moment.complain("other quotas are set than were promised")


class TokenPromises:
    """A token lasts as the answers about it say, and only its owner and renewers change it."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._tokens: Final[dict[str, DelegationToken]] = {}
        self._gone: Final[dict[str, DelegationToken | None]] = {}
        self._asked: Final[set[str]] = set()

    def created(self, asked: CreateToken, token: DelegationToken) -> None:
        """Judge a new token."""
        age_ms = asked.lifetime_ms
        if (token.owner, token.renewers) != (asked.owner, asked.renewers):
            self._moment.complain(f"{token} is not what was asked for: {asked}")
        is_sound = token.expires_ms <= token.max_ms <= token.issued_ms + age_ms
        if not is_sound or token.issued_ms > self._moment.log_time_ms:
            self._moment.complain(f"{token} lasts too long")
        self._tokens[token.token_id] = token

    def renewed(self, token_id: str, principal: str, answer: int | TokenRefusal) -> None:
        """Judge an answer about when a token expires now."""
        token = self._known(token_id, principal, answer)
        if token is None or isinstance(answer, TokenRefusal):
            return
        if token.expires_ms < self._moment.log_time_ms - _LATE_MS:
            self._moment.complain(f"{token} has ended, and is renewed")
        if answer > token.max_ms:
            self._moment.complain(f"{token} is renewed until {answer}")
        fields = token.owner, token.requester, token.renewers, token.issued_ms, token.max_ms
        self._tokens[token_id] = DelegationToken(token_id, *fields, answer)

    def removed(self, token_id: str, principal: str, answer: int | TokenRefusal) -> None:
        """Judge the answer to a removal."""
        if isinstance(answer, TokenRefusal):
            self._known(token_id, principal, answer)
            return
        token = self._gone.get(token_id)
        if token is None or not _may_renew(token, principal):
            self._moment.complain(f"{principal} removes {token}")

    def _known(
        self, token_id: str, principal: str, answer: int | TokenRefusal
    ) -> DelegationToken | None:
        token = self._tokens.get(token_id)
        may = token is not None and _may_renew(token, principal)
        if not may and not isinstance(answer, TokenRefusal):
            self._moment.complain(f"{principal} changes {token}")
        if token is not None and answer is TokenRefusal.NOT_FOUND:
            self._moment.complain(f"{token} is not found")
        if may and answer is TokenRefusal.NOT_ALLOWED:
            self._moment.complain(f"{principal} may not change {token}")
        return token

    def before(self, entry: Entry) -> None:
        """Judge removals: the token has expired, or a client has asked for the removal."""
        for event in entry.events:
            for token_id in event.token_ids if isinstance(event, DelegationTokensRemoved) else ():
                token = self._tokens.pop(token_id, None)
                self._gone[token_id] = token
                time_ms = self._moment.truth.log_time_after(entry.writer, entry.clock_ms)
                is_due = token is not None and token.expires_ms < time_ms
                if token_id not in self._asked and not is_due:
                    self._moment.complain(f"{token_id} is removed at {time_ms}, and was {token}")

    def ask_removal(self, token_id: str) -> None:
        """Record that a client asks to remove a token."""
        self._asked.add(token_id)

    def check(self) -> None:
        """Compare all."""
        if {each.token_id: each for each in self._moment.truth.tokens} != self._tokens:
            self._moment.complain("other tokens are there than were promised")


def _may_renew(token: DelegationToken, principal: str) -> bool:
    return principal in (token.owner, *token.renewers)
