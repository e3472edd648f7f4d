"""The meaning for an operator of an object store's answer, or of a failed connection to it.

The table covers both. obstore's error has the store's answer in its text, and the cause of a failed
connection only in the dump of obstore's own state that follows the text. A row of the table names a
sign that is in one of these. If an operator must act, the error is StoreMisconfigured, so that a
start ends with the sentence at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from .object_store import StoreMisconfigured, StoreUnavailable

MAX_MESSAGE_CHARACTERS: Final = 600
_DUMP: Final = "\n\nDebug source"


class _Row(NamedTuple):
    sign: str
    sentence: str
    is_passing: bool = False
    """Whether the error may pass without an operator, so that the caller tries again."""


_WRONG_KEY: Final = (
    "the store does not know this key, or the secret is not its: check AWS_ACCESS_KEY_ID and"
    " AWS_SECRET_ACCESS_KEY"
)
_NO_BUCKET: Final = "create the bucket or container, or correct its name in the URL"
_REGION: Final = "add ?region= with the bucket's region to the URL"
_CLOCK: Final = "this machine's clock differs from the store's: set it, and keep it set by NTP"
_NO_ROOM: Final = "the store has no room, or the account's quota is used up: raise it, or free room"
_NO_STORE: Final = (
    "a web page answers there, and no object store: correct the endpoint in the URL, or reach it"
    " without the proxy or login page"
)
_RIGHTS: Final = (
    "give Tidegate credentials that may read, write, list and delete here, or correct the bucket's"
    " name"
)
_NO_CREDENTIALS: Final = (
    "no credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give this"
    " machine a role"
)
_NO_CONDITIONS: Final = (
    "the store does not know conditional writes (If-None-Match: *), by which Tidegate never"
    " overwrites an object: use a store, or a release of it, that has them"
)

_BUCKET_SIGNS: Final = ("NoSuchBucket", "The specified bucket does not exist", "ContainerNotFound")

ANSWERS: Final = (
    # Paths of the AWS metadata server, which obstore asks for the machine's role last.  The
    # metadata server of a machine that has a role may fail for a moment.
    _Row("/latest/api/token", _NO_CREDENTIALS, is_passing=True),
    _Row("/latest/meta-data/iam/", _NO_CREDENTIALS, is_passing=True),
    *(_Row(each, _NO_BUCKET) for each in _BUCKET_SIGNS),
    _Row("incorrectly configured region", _REGION),
    _Row("AuthorizationHeaderMalformed", _REGION),
    _Row("ExpiredToken", "give Tidegate fresh credentials"),
    _Row("InvalidAccessKeyId", _WRONG_KEY),
    _Row("SignatureDoesNotMatch", _WRONG_KEY),
    _Row("RequestTimeTooSkewed", _CLOCK),
    _Row("RequestExpired", _CLOCK),
    _Row("QuotaExceeded", _NO_ROOM, is_passing=True),
    _Row("StorageFull", _NO_ROOM, is_passing=True),
    _Row("507 Insufficient Storage", _NO_ROOM, is_passing=True),
    _Row("Error performing PUT", _NO_CONDITIONS),  # with 501: see _row_of
    _Row("invalid list response", _NO_STORE),
    _Row("403 Forbidden", _RIGHTS),
    _Row("401 Unauthorized", _RIGHTS),
)

_NOBODY_THERE: Final = "error sending request"
# obstore's text for an http:// URL if the settings do not allow plain HTTP.
_NOT_ALLOWED: Final = "builder error"

CONNECTIONS: Final = (
    _Row(
        "UnknownIssuer",
        "the authority that signed the store's certificate is not trusted here: name the file of"
        " its certificate in SSL_CERT_FILE (AWS_CA_BUNDLE is not read)",
    ),
    _Row("NotValidForName", "the store's certificate names another host: correct the endpoint"),
    _Row("Expired", "the store's certificate is expired, or this machine's clock is wrong"),
    _Row("InvalidCertificate", "the store's certificate cannot be trusted"),
    _Row("InvalidContentType", "the server there speaks no TLS: write http:// in the endpoint"),
    _Row(
        "dns error",
        "its host's name has no address; correct the URL, or check the name server",
        is_passing=True,
    ),
    _Row(
        "",
        "no server answers there; check the network, or correct the URL, also http or https in its"
        " endpoint",
        is_passing=True,
    ),
)

_PROXIES: Final = {
    "http": ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"),
    "https": ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"),
}


def translated(
    what: str, error: Exception, environ: Mapping[str, str]
) -> StoreMisconfigured | StoreUnavailable:
    """Return the error for an operator.

    Args:
      what: which call failed.  environ: where obstore reads the names of proxies.
    """
    text = text_of(error)
    row = _row_of(text, error)
    if row is not None:
        return _error(row, f"{row.sentence} ({what}: {text})")
    if _NOT_ALLOWED in text and "http://" in text:
        sentence = "add endpoint=http://HOST:PORT to the URL: plain HTTP needs it"
        return StoreMisconfigured(f"{sentence} ({what}: {text})")
    if _NOBODY_THERE in text:
        dump = str(error).partition(_DUMP)[2]
        row = next(each for each in CONNECTIONS if each.sign in dump)
        return _error(row, f"{what}: {row.sentence}{_by_proxy(text, environ)} ({text})")
    return StoreUnavailable(f"{what}: {text}")


def misconfigures(text: str) -> bool:
    """Return whether this text of a "not found" is not about an object."""
    return any(each in text for each in _BUCKET_SIGNS)


def text_of(error: Exception) -> str:
    """Return the store's message, without obstore's dump of its own state."""
    return str(error).partition(_DUMP)[0][:MAX_MESSAGE_CHARACTERS]


def web_page(body: bytes) -> StoreMisconfigured | None:
    """Return an error if the body of an object is a web page; else None."""
    begins = body[:200].lstrip().lower()
    if begins.startswith((b"<!doctype html", b"<html")):
        return StoreMisconfigured(_NO_STORE)
    return None


def _row_of(text: str, error: Exception) -> _Row | None:
    for each in ANSWERS:
        if each.sign in text and (each.sentence != _NO_CONDITIONS or "501 Not Impl" in text):
            return each
    is_refused = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
    return _Row("", _RIGHTS) if is_refused else None


def _error(row: _Row, text: str) -> StoreMisconfigured | StoreUnavailable:
    return StoreUnavailable(text) if row.is_passing else StoreMisconfigured(text)


def _by_proxy(text: str, environ: Mapping[str, str]) -> str:
    """Name the variable of the proxy through which the request went; not its value, which may hold
    a password.
    """
    scheme = "https" if "https://" in text else "http"
    found = next((each for each in _PROXIES[scheme] if environ.get(each)), None)
    if found is None:
        return ""
    return f"; requests go through the proxy in {found}, unless NO_PROXY names the host"
