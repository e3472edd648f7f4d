"""The knowledge of a run's clients about its delegation tokens, over time.

Times of tokens are ms since 1970, by clocks that are wrong by SLACK_MS at most; all other times are
seconds of the run.  If a change of a token gets no answer, the network may deliver the request at
any time.  From then on the token may end at any time that its maximum age allows.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final, NamedTuple

SLACK_MS: Final = 2_500
NEVER_MS: Final = 0
"""The end of a token that was removed."""


class Ends(NamedTuple):
    """The earliest and the latest end that a token may have."""

    earliest_ms: int
    latest_ms: int


@dataclass(slots=True)
class KnownToken:
    """A token whose creation was acknowledged.

    principals may see it; changers may renew and expire it.  All are `User:NAME`.  max_ms: the
    latest end that a renewal can set.
    """

    token_id: str
    secret: bytes
    owner: str
    principals: frozenset[str]
    changers: frozenset[str]
    max_ms: int
    ends: list[tuple[float, Ends]] = field(default_factory=list[tuple[float, Ends]])
    is_sure: bool = True

    @property
    def password(self) -> str:
        """Return the password with which a client logs in."""
        return b64encode(self.secret).decode()

    @property
    def user(self) -> str:
        """Return the owner without the type of principals."""
        return self.owner.partition(":")[2]

    @property
    def at_any_time(self) -> Ends:
        """Return the ends that a change with an unknown outcome may cause."""
        return Ends(NEVER_MS, self.max_ms)

    def note(self, time: float, ends: Ends) -> None:
        """Note the known ends of the token from a time on."""
        self.ends.append((time, ends if self.is_sure else self.at_any_time))

    def lose_sight(self, time: float) -> None:
        """Note that a change of the token got no answer, so that its end is unknown."""
        self.is_sure = False
        self.note(time, self.at_any_time)

    def now(self) -> Ends:
        """Return the ends that the token may have now."""
        return self.ends[-1][1]

    def since(self, time: float) -> Ends:
        """Return the earliest and the latest expiry that the token may have had since a time."""
        before = [each for at, each in self.ends if at <= time][-1:]
        found = before + [each for at, each in self.ends if at > time]
        # Before its creation gateways may refuse the token.
        earliest = min(each.earliest_ms for each in found) if before else NEVER_MS
        return Ends(earliest, max(each.latest_ms for each in found))


@dataclass(slots=True)
class KnownTokens:
    """All tokens of a run.  has_unknown: a creation got no answer, so that there may be more."""

    tokens: list[KnownToken] = field(default_factory=list[KnownToken])
    has_unknown: bool = False

    def by_id(self, token_id: str) -> KnownToken | None:
        """Return a token."""
        return next((each for each in self.tokens if each.token_id == token_id), None)


def wrongly_in(ends: Ends, sent_ms: float) -> bool:
    """Return whether a login by the token, or its renewal, must have failed.

    sent_ms: when the client sent the request.
    """
    return ends.latest_ms < sent_ms - SLACK_MS


def wrongly_out(ends: Ends, answered_ms: float) -> bool:
    """Return whether no gateway may have refused the token as expired.

    answered_ms: when the answer came.
    """
    return ends.earliest_ms > answered_ms + SLACK_MS
