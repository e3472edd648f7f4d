"""ACLs, SCRAM credentials, quotas and delegation tokens."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.rules.configs import Change, Operation, ResourceChange, SetConfigs
from tidegate_coordination.rules.security.acls import (
    AclRefusal,
    CreateAcls,
    DeleteAcls,
    RemovedAcls,
)
from tidegate_coordination.rules.security.permitted import Permitted
from tidegate_coordination.rules.security.quotas import AlterClientQuotas
from tidegate_coordination.rules.security.scram import (
    AlterScramCredentials,
    Resealing,
    ScramDeletion,
    SealScramCredentials,
)
from tidegate_coordination.rules.security.tokens import (
    CreateToken,
    ExpireToken,
    RemoveExpiredTokens,
    RenewToken,
    TokenRefusal,
)
from tidegate_coordination.security.acls import Acl, AclFilter
from tidegate_coordination.security.quotas import DEFAULT, QuotaChange, QuotaEntity, QuotaKey
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_coordination.state.security.scram import (
    ScramCredential,
    SealedCredential,
    fingerprint,
)

from ..decider import Decider
from .known import Caller, Known

USERS: Final = ("ann", "ben", "cleo")
_PRINCIPALS: Final = tuple(f"User:{each}" for each in USERS)
_BROKER: Final = 4
_KEPT_TOKENS: Final = 6


class SecurityCallers(Caller):
    """See the module's head."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._tokens: list[str] = []
        self.operations = (
            (self.add_acls, 2),
            (self.delete_acls, 1),
            (self.configure_if_permitted, 2),
            (self.set_password, 2),
            (self.remove_password, 1),
            (self.seal, 2),
            (self.set_quota, 2),
            (self.create_token, 2),
            (self.renew_token, 2),
            (self.expire_token, 1),
            (self.remove_expired, 1),
        )

    def _acl(self) -> Acl:
        user = self._rng.choice(_PRINCIPALS)
        return Acl(2, 3, self._rng.choice("abc"), user, "*", self._rng.randint(3, 5), 3)

    def add_acls(self, decider: Decider) -> None:
        """Add ACLs, of which some may be there."""
        rows = [self._acl() for _ in range(self._rng.randint(1, 3))]
        self._world.ask(
            decider, CreateAcls(rows), lambda answer, _: self._world.rights.added(rows, answer)
        )

    def delete_acls(self, decider: Decider) -> None:
        """Remove ACLs of a name, or one."""
        wanted = AclFilter.of_one(self._acl())
        if self._rng.random() < 0.5:
            wanted = AclFilter(name=self._rng.choice("abc"))

        def judged(answer: RemovedAcls | AclRefusal, is_told: bool) -> None:
            if isinstance(answer, RemovedAcls):
                self._world.rights.removed(wanted, answer.acls)

        self._world.ask(decider, DeleteAcls([wanted]), judged)

    def configure_if_permitted(self, decider: Decider) -> None:
        """Set a config of a client whose rights were looked up some time ago."""
        as_of = max(decider.state.position - self._rng.randint(0, 5), 1)
        value = str(self._rng.randint(1, 1 << 20))
        change = Change("log.retention.ms", Operation.SET, value)
        proposal = SetConfigs([ResourceChange(_BROKER, "", [change])])

        def judged(answers: list[object], is_told: bool) -> None:
            self._world.rights.used(as_of)
            if answers[0] is None:
                self._world.configs.set(_BROKER, "", {change.name: value})

        self._world.ask(decider, Permitted(proposal, as_of), judged, may_fail=True)

    def set_password(self, decider: Decider) -> None:
        """Set a password."""
        user, mechanism = self._rng.choice(USERS), self._rng.randint(1, 2)
        keys = (self._rng.randbytes(4), b"s", b"k")
        new = ScramCredential(user, mechanism, *keys, 4096)

        def judged(answers: list[object], is_told: bool) -> None:
            if answers[0] is None:
                self._world.rights.has_password(new)

        self._world.ask(decider, AlterScramCredentials([new]), judged)

    def remove_password(self, decider: Decider) -> None:
        """Remove a password, at times only if it has not changed."""
        user, mechanism = self._rng.choice(USERS), self._rng.randint(1, 2)
        present = decider.state.scram.get(user, mechanism)
        is_careful = present is not None and self._rng.random() < 0.5
        before = fingerprint(present) if present is not None and is_careful else b""
        deletion = ScramDeletion(user, mechanism, before)

        def judged(answers: list[object], is_told: bool) -> None:
            is_done = answers[0] is None
            self._world.rights.lost_password(deletion, is_done=is_done)

        self._world.ask(decider, AlterScramCredentials([], [deletion]), judged)

    def seal(self, decider: Decider) -> None:
        """Seal a credential of this gateway's replica, which may be stale."""
        present = decider.state.scram.get(self._rng.choice(USERS), self._rng.randint(1, 2))
        if present is None:
            return
        about = present.user, present.mechanism, present.iterations
        after = SealedCredential(*about, b"k" * 8, self._rng.randbytes(12), b"sealed")
        change = Resealing(fingerprint(present), after)

        def judged(count: int, is_told: bool) -> None:
            self._world.rights.sealed(change, is_done=bool(count))

        self._world.ask(decider, SealScramCredentials([change]), judged)

    def set_quota(self, decider: Decider) -> None:
        """Set or remove quotas of a client."""
        user = self._rng.choice((*USERS, DEFAULT, None))
        client_id = self._rng.choice(("app", DEFAULT)) if user is None else None
        entity = QuotaEntity(user, client_id)
        value = float(self._rng.randint(1, 9)) if self._rng.random() < 0.7 else None
        keys = self._rng.sample((QuotaKey.PRODUCE, QuotaKey.FETCH), self._rng.randint(1, 2))
        changes = [QuotaChange(entity, str(key), value) for key in keys]
        is_trial = self._rng.random() < 0.1

        def judged(refusal: object, is_told: bool) -> None:
            if refusal is None and not is_trial:
                self._world.rights.has_quotas(changes)

        self._world.ask(decider, AlterClientQuotas(changes, only_checks=is_trial), judged)

    # -- tokens -------------------------------------------------------------------------------

    def create_token(self, decider: Decider) -> None:
        """Create a token."""
        token_id = self._rng.randbytes(6).hex()
        owner, renewer = self._rng.sample(_PRINCIPALS, 2)
        age_ms, period_ms = self._rng.randint(1, 200_000), self._rng.randint(1, 100_000)
        proposal = CreateToken(token_id, owner, owner, (renewer,), age_ms, period_ms)

        def judged(answer: DelegationToken | TokenRefusal, is_told: bool) -> None:
            if isinstance(answer, DelegationToken):
                self._world.tokens.created(proposal, answer)
                self._tokens = [*self._tokens, token_id][-_KEPT_TOKENS:]
            else:
                self._world.complain_at_newest(f"no token is created: {answer}")

        self._world.ask(decider, proposal, judged)

    def renew_token(self, decider: Decider) -> None:
        """Renew a token, which may have expired, for any principal, which may lack the right."""
        if not self._tokens:
            return
        token_id, principal = self._rng.choice(self._tokens), self._rng.choice(_PRINCIPALS)
        period_ms = self._rng.randint(1, 100_000)

        def judged(answer: int | TokenRefusal, is_told: bool) -> None:
            self._world.tokens.renewed(token_id, principal, answer)

        self._world.ask(decider, RenewToken(token_id, principal, period_ms), judged)

    def expire_token(self, decider: Decider) -> None:
        """Let a token expire soon, or remove it."""
        if not self._tokens:
            return
        token_id, principal = self._rng.choice(self._tokens), self._rng.choice(_PRINCIPALS)
        period_ms = self._rng.choice((-1, 5_000))

        def judged(answer: int | TokenRefusal, is_told: bool) -> None:
            if period_ms < 0:
                self._world.tokens.removed(token_id, principal, answer)
            else:
                self._world.tokens.renewed(token_id, principal, answer)

        if period_ms < 0:
            self._world.tokens.ask_removal(token_id)
        self._world.ask(decider, ExpireToken(token_id, principal, period_ms), judged)

    def remove_expired(self, decider: Decider) -> None:
        """Remove tokens that have expired."""
        self._world.ask(decider, RemoveExpiredTokens())
