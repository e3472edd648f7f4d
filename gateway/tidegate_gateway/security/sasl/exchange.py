"""One client's way from a new connection to a principal.  Pure: frames in, verdicts out.

The order is Kafka's (SaslServerAuthenticator; KIP-43, KIP-152): ApiVersions if the client likes,
once; SaslHandshake, which names the mechanism; then its tokens.  After SaslHandshake version 0,
each token is a frame without a header; after version 1, tokens come in SaslAuthenticate requests.
Any other frame ends the connection.

A session may have an end (KIP-368).  The client then authenticates again on the same connection, as
the same user by the same mechanism, at any time after its first success, but at most once a second.

A failure that the client should read is answered after a delay, so that guessing takes time.  Like
Kafka, the gateway does not answer frames that no proper client sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import inf
from typing import Final

from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import frame as framed
from tidegate_protocol.headers import RequestHeader, decode_request_header
from tidegate_protocol.messages import api_versions, sasl_authenticate, sasl_handshake

from ...network.client_software import is_well_told
from .answers import authenticate_answer, handshake_answer, too_early_answer
from .mechanism import Conversation, InvalidCredentials, Mechanism, Refused

REAUTHENTICATION_SECONDS: Final = 1.0
ILLEGAL_USERS: Final = frozenset({"", "*"})
"""These names get no principal: in ACLs, User:* stands for all users."""

# The APIs that Kafka 4.3 knows, even if not served here: after a request of these, Kafka delays the
# close.
KAFKAS_KEYS: Final = frozenset(range(93)) - frozenset({4, 5, 6, 7})


class End(Enum):
    """When a connection ends: at once after its answer, or after the delay for failures."""

    NOW = auto()
    LATE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision about a frame.

    answer: a whole frame to send; None for none.  is_served: the dispatcher answers the frame.
    end: when the answer is sent and the connection ends; None if the connection continues. why: the
    reason of a failure, for the log.
    """

    answer: bytes | None = None
    is_served: bool = False
    end: End | None = None
    why: str = ""


class _State(Enum):
    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKENS = auto()
    OTHER_MECHANISM = auto()
    DONE = auto()
    FAILED = auto()


class Exchange:
    """The exchange of one connection; see the module's docstring.

    principal: "User:NAME" once the client is authenticated, until then None. ends_at: when the
    session ends, in seconds on the caller's clock; no request is served after it.  mechanism: its
    name, or "".  token_id: the delegation token of the last login, or of the login in progress;
    None without a token.

    Args:
      mechanisms: what the listener offers, in the order that clients get.
    """

    def __init__(self, mechanisms: Sequence[Mechanism]) -> None:
        self.principal: str | None = None
        self.ends_at = inf
        self.token_id: str | None = None
        self.mechanism = ""
        self._mechanisms: Mapping[str, Mechanism] = {each.name: each for each in mechanisms}
        self._state = _State.VERSIONS_OR_HANDSHAKE
        self._conversation: Conversation | None = None
        self._has_headers = False
        self._began_again_at = -inf

    @property
    def is_done(self) -> bool:
        """Whether the client is authenticated, and is not authenticating again at the moment."""
        return self._state is _State.DONE

    @property
    def is_again(self) -> bool:
        """Whether this is not the connection's first authentication."""
        return self.principal is not None

    def begin_again(self, now: float) -> bool:
        """Return whether a SaslHandshake of an authenticated client begins a new authentication.

        If False, the caller handles it as an ordinary request, which is answered with an error.
        """
        if self.ends_at == inf or now - self._began_again_at < REAUTHENTICATION_SECONDS:
            return False
        self._began_again_at = now
        self.token_id = None
        self._state = _State.HANDSHAKE
        return True

    def receive(self, frame: memoryview, now: float) -> Verdict:
        """Take a frame of a client that is not authenticated.

        now: seconds of a clock that never goes back.

        Raises:
          NotYet: give the same frame again after the wait.
        """
        try:
            verdict = self._receive(frame, now)
        except RemoteProtocolError as error:
            verdict = Verdict(end=End.NOW, why=str(error))
        if verdict.end is not None:
            self._state = _State.FAILED
        return verdict

    def _receive(self, frame: memoryview, now: float) -> Verdict:
        if self._state is _State.OTHER_MECHANISM:
            return Verdict(end=End.LATE, why="it came back with another mechanism")
        if self._state is _State.TOKENS and not self._has_headers:
            return self._bare_token(bytes(frame), now)
        header = decode_request_header(frame)
        if self._state is not _State.TOKENS:
            return self._before_tokens(header, frame[header.body_position :])
        if header.api_key == ApiKey.SASL_AUTHENTICATE:
            return self._token(header, frame[header.body_position :], now)
        if header.api_key not in KAFKAS_KEYS:
            raise RemoteProtocolError(f"unknown API key {header.api_key}")
        answer = too_early_answer(header, frame[header.body_position :])
        return Verdict(answer, end=End.LATE, why=f"{_name(header.api_key)} instead of a token")

    # -- before the first token -------------------------------------------------------------------

    def _before_tokens(self, header: RequestHeader, body: memoryview) -> Verdict:
        match header.api_key:
            case ApiKey.API_VERSIONS:
                return self._versions(header.api_version, body)
            case ApiKey.SASL_HANDSHAKE:
                return self._handshake(header, body)
            case key:
                return Verdict(end=End.NOW, why=f"{_name(key)} before authentication")

    def _versions(self, version: int, body: memoryview) -> Verdict:
        if self._state is not _State.VERSIONS_OR_HANDSHAKE:
            return Verdict(end=End.NOW, why="a second ApiVersions before authentication")
        facts = APIS[ApiKey.API_VERSIONS]
        if version <= facts.max_version:
            request = api_versions.decode_request(body, version)
            if is_well_told(request, version):
                self._state = _State.HANDSHAKE
        return Verdict(is_served=True)

    def _handshake(self, header: RequestHeader, body: memoryview) -> Verdict:
        wanted = sasl_handshake.decode_request(body, header.api_version).mechanism
        self._has_headers = header.api_version > 0
        offered = list(self._mechanisms)
        mechanism = self._mechanisms.get(wanted)
        if mechanism is None and self.is_again:
            return Verdict(end=End.NOW, why=f"it comes back with mechanism {wanted[:50]!r}")
        if mechanism is None:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            answer = handshake_answer(header, code, offered)
            return Verdict(answer, end=End.LATE, why=f"it wants mechanism {wanted[:50]!r}")
        if self.is_again and wanted != self.mechanism:
            self._state = _State.OTHER_MECHANISM
        else:
            self.mechanism = wanted
            self._conversation = mechanism.begin()
            self._state = _State.TOKENS
        return Verdict(handshake_answer(header, ErrorCode.NONE, offered))

    # -- tokens -----------------------------------------------------------------------------------

    def _bare_token(self, token: bytes, now: float) -> Verdict:
        try:
            challenge, _ = self._step(token, now)
        except Refused as error:
            return Verdict(end=End.LATE, why=error.why)
        except InvalidCredentials as error:
            return Verdict(end=End.NOW, why=str(error))
        return Verdict(framed(challenge), why=self._why_refused())

    def _token(self, header: RequestHeader, body: memoryview, now: float) -> Verdict:
        token = sasl_authenticate.decode_request(body, header.api_version).auth_bytes
        try:
            challenge, lifetime_ms = self._step(token, now)
        except Refused as error:
            return self._failed(header, str(error), error.why)
        except InvalidCredentials as error:
            during = "re-authentication" if self.is_again else "authentication"
            text = (
                f"Authentication failed during {during} due to invalid credentials with SASL"
                f" mechanism {self.mechanism}"
            )
            return self._failed(header, text, str(error))
        answer = authenticate_answer(header, ErrorCode.NONE, "", challenge, lifetime_ms)
        return Verdict(answer, why=self._why_refused())

    def _why_refused(self) -> str:
        return self._conversation.why_refused if self._conversation is not None else ""

    def _failed(self, header: RequestHeader, text: str, why: str) -> Verdict:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return Verdict(authenticate_answer(header, code, text), end=End.LATE, why=why)

    def _step(self, token: bytes, now: float) -> tuple[bytes, int]:
        """Return the challenge, and how many ms the session lasts from now on; 0: no end."""
        assert self._conversation is not None
        try:
            challenge = self._conversation.step(token)
        finally:
            self.token_id = self._conversation.token_id
        user = self._conversation.user
        if user is None:
            return challenge, 0
        self._take(user)
        most_ms = self._mechanisms[self.mechanism].max_session_ms
        lifetime = min(most_ms / 1000 if most_ms > 0 else inf, self._conversation.lasts_seconds)
        self.ends_at = now + lifetime
        self._conversation = None
        self._state = _State.DONE
        return challenge, 0 if lifetime == inf else max(1, int(lifetime * 1000))

    def _take(self, user: str) -> None:
        if user in ILLEGAL_USERS:
            raise InvalidCredentials(f"a user cannot be called {user!r}")
        principal = f"User:{user}"
        if self.principal not in (None, principal):
            before = str(self.principal).replace(":", ".", 1)
            after = principal.replace(":", ".", 1)
            raise Refused(
                f"Cannot change principals during re-authentication from {before}: {after}"
            )
        self.principal = principal


def _name(key: int) -> str:
    return APIS[key].name if key in APIS else f"API key {key}"
