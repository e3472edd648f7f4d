"""Errors of the client of classic clusters, by the action that they ask of the caller.

Each text is one sentence for a person; it names the broker and holds no secret.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from tidegate_protocol.error_codes import ErrorCode, error_text, is_retriable


class Kind(Enum):
    """The action that an error asks for."""

    RETRIABLE = "retriable"  # try again later; nothing needs to change
    AUTHENTICATION = "authentication"  # an operator must change credentials or certificates
    NOT_ALLOWED = "not allowed"  # an operator must give the link's principal a right
    UNSUPPORTED = "unsupported"  # the broker is too old or too new
    OTHER = "other"  # the request itself is wrong


_AUTHENTICATION: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ErrorCode.ILLEGAL_SASL_STATE,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
_NOT_ALLOWED: Final = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)
_UNSUPPORTED: Final = frozenset(
    {
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    }
)
_KINDS: Final = {
    **dict.fromkeys(_AUTHENTICATION, Kind.AUTHENTICATION),
    **dict.fromkeys(_NOT_ALLOWED, Kind.NOT_ALLOWED),
    **dict.fromkeys(_UNSUPPORTED, Kind.UNSUPPORTED),
}


def kind_of_code(code: int) -> Kind:
    """Return the action that an error code asks for; retriable means as in the Java client."""
    if is_retriable(code):
        return Kind.RETRIABLE
    return next((kind for known, kind in _KINDS.items() if known == code), Kind.OTHER)


class ClassicError(Exception):
    """Base of the errors below; never raised itself."""

    kind = Kind.OTHER
    # Whether the broker certainly did not act on the request.
    is_without_effect = True


class BadProperties(ClassicError):
    """The client properties are wrong or not supported.  Show the text; do not connect."""


class BrokerUnreachable(ClassicError):
    """There was no connection in time; the request was not sent.  Try again later."""

    kind = Kind.RETRIABLE


class TokenUnavailable(BrokerUnreachable):
    """There is no token to log in with now; no broker was asked.  Try again later."""


class Disconnected(ClassicError):
    """The connection closed before the answer; the outcome of the request is unknown.

    Repeat the request only if it may take effect twice.
    """

    kind = Kind.RETRIABLE
    is_without_effect = False


class AuthenticationFailed(ClassicError):
    """The broker refuses the credentials, or cannot prove that it knows them.

    Do not repeat before an operator changed them: brokers may lock accounts.
    """

    kind = Kind.AUTHENTICATION


class TokenRefused(AuthenticationFailed):
    """The broker refuses the token that it was sent, or breaks the token protocol."""


class Unsupported(ClassicError):
    """The broker and this client have no version of the API in common.  Do not repeat."""

    kind = Kind.UNSUPPORTED


class AnotherCluster(ClassicError):
    """The addresses lead to another cluster than before.  Stop: do not mix two clusters' data."""


class Refused(ClassicError):
    """The cluster answered with an error code.  `kind` says what to do."""

    def __init__(self, about: str, code: int) -> None:
        """about: what was asked for, such as "topic orders"."""
        super().__init__(f"{about}: {_text_of(code)}")
        self.code = code
        self.kind = kind_of_code(code)


def _text_of(code: int) -> str:
    """Return the text of a code; a newer broker may send one that has no name here."""
    try:
        return f"{ErrorCode(code).name} ({code}). {error_text(code)}"
    except ValueError:
        return f"error code {code}"
