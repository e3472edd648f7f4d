"""The parsed URL of an `http:` log. No error here shows text that may be part of a token."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_runtime.secret import Secret

_FORM: Final = "write http://HOST:PORT/PREFIX or https://HOST:PORT/PREFIX"
TLS_PARAMETERS: Final = ("ca-file", "key-file")
_PARAMETERS: Final = ("token-file", *TLS_PARAMETERS)
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpPlace:
    """A log's address and token. `prefix` is "" or begins, and does not end, with /."""

    host: str
    port: int
    prefix: str
    token: Secret | None
    tls: ssl.SSLContext | None = field(repr=False)

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def shown(self) -> str:
        """The URL without its token, for messages."""
        return f"{'http' if self.tls is None else 'https'}://{self.authority}{self.prefix}"


def parse_url(url: str) -> HttpPlace:
    """Parse a URL, and read the files that it names: this blocks.

    Raises:
        LogMisconfigured: the text says what to write instead.
    """
    scheme, host, port, prefix = _located(url)
    parts = urlsplit(url)
    parameters = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in parameters:
        if name not in _PARAMETERS:
            known = ", ".join(_PARAMETERS)
            raise LogMisconfigured(f"an HTTP log has no parameter {name!r}; there are {known}")
    if parts.username:
        raise LogMisconfigured(
            "an HTTP log has no user: write its token after a colon, as in http://:TOKEN@HOST,"
            " or better ?token-file=FILE"
        )
    token = unquote(parts.password) if parts.password else None
    if "token-file" in parameters:
        token = _token(Path(parameters["token-file"]))
    files = [parameters.get(each) for each in TLS_PARAMETERS]
    if scheme == "http" and any(files):
        raise LogMisconfigured(f"{' and '.join(TLS_PARAMETERS)} are for https://")
    tls = _tls(*files) if scheme == "https" else None
    return HttpPlace(host, port, prefix, _checked(token), tls)


def _located(url: str) -> tuple[str, str, int, str]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise LogMisconfigured(f"the URL is not understood: {_FORM}") from None
    if parts.scheme not in _PORTS or not parts.hostname or parts.fragment:
        raise LogMisconfigured(_FORM)
    prefix = parts.path.rstrip("/")
    if not prefix.isascii() or " " in prefix:
        raise LogMisconfigured("the path of an HTTP log is percent-encoded ASCII")
    return parts.scheme, parts.hostname, port or _PORTS[parts.scheme], prefix


def _token(file: Path) -> str:
    try:
        return file.read_text("ascii").strip()
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise LogMisconfigured(f"the token in {file} cannot be read: {reason}") from None


def read_token(file: Path) -> Secret:
    """Return the token that a file holds. Raises LogMisconfigured."""
    token = _checked(_token(file))
    if token is None:
        raise LogMisconfigured(f"{file} is empty: write the token into it")
    return token


def _checked(token: str | None) -> Secret | None:
    if token and not all("!" <= each <= "~" for each in token):
        raise LogMisconfigured("the token has a character that HTTP cannot carry: use ASCII")
    return Secret(token) if token else None


def _tls(ca_file: str | None, key_file: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError too
        raise LogMisconfigured(f"the certificates in {ca_file} cannot be read: {error}") from None
    if key_file is not None:
        try:
            # Without a password callback OpenSSL would ask on the terminal.
            context.load_cert_chain(key_file, password=lambda: "")
        except OSError as error:
            raise LogMisconfigured(
                f"{key_file} is no key with its certificate, in PEM and without a password: {error}"
            ) from None
    return context
