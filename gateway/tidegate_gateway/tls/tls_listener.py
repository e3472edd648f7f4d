"""One listener that speaks TLS: its context, and the check whether a new context may replace it.

New connections use a replacement; open connections keep what they negotiated.  As in Kafka, the new
certificate must have the same subject and at least the same alternative names, so that a wrong file
does not lock clients out. ssl.allow.dn.changes and ssl.allow.san.changes lift this.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from tidegate_runtime.tls.bad_store import BadStore
from tidegate_runtime.tls.certificate import Certificate
from tidegate_runtime.tls.der import BadDer
from tidegate_runtime.tls.distinguished_names import java_name
from tidegate_runtime.tls.stores import chain_problem

from .server_context import ServerContext, make_server_context
from .tls_settings import TlsSettings

Stamp: TypeAlias = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A context made from changed files.  stamp: the stamp of the files that were read."""

    current: ServerContext
    stamp: Stamp


class TlsListener:
    """See the module's head.

    name: the name of the listener.  dials: see make_server_context().  failed_handshakes,
    failed_reloads: counts since the start.

    Raises:
      BadStore: its stores cannot be used.
    """

    def __init__(self, name: str, settings: TlsSettings, *, dials: bool = False) -> None:
        self.name = name
        self.settings = settings
        self._dials = dials
        self.failed_handshakes = 0
        self.failed_reloads = 0
        self._stamp = _stamp(settings)
        self.current = make_server_context(settings, dials=dials)

    def problems(self, now: float) -> Iterator[str]:
        """Yield problems of the certificates, as texts; the listener serves all the same.

        Args:
          now: seconds since 1970.
        """
        if self.settings.is_auth_ignored:
            yield (
                "ssl.client.auth has no effect on a listener with SASL; set"
                f" listener.name.{self.name.lower()}.ssl.client.auth to ask for certificates"
            )
        if problem := _validity_problem(self.current, now) or chain_problem(self.current.chain):
            yield problem

    def look(self, now: float) -> Replacement | None:
        """Return a replacement of the context; None if no file changed.  It reads files, so it
        blocks.

        Raises:
          BadStore: the files cannot replace it.
        """
        stamp = _stamp(self.settings)
        if stamp == self._stamp:
            return None
        found = make_server_context(self.settings, dials=self._dials)
        problem = (
            _validity_problem(found, now)
            or chain_problem(found.chain)
            or self._change_problem(found.chain[0])
        )
        if problem:
            raise BadStore(problem)
        return Replacement(found, stamp)

    def replace(self, replacement: Replacement) -> None:
        """Use the replacement's certificates and truststore from now on."""
        self.current, self._stamp = replacement.current, replacement.stamp

    def _change_problem(self, new: Certificate) -> str:
        old = self.current.chain[0]
        if not self.settings.may_change_name and _name(new) != _name(old):
            return (
                f"the new certificate has the subject {_name(new)!r}, not {_name(old)!r}; allow it"
                " with ssl.allow.dn.changes"
            )
        if not self.settings.may_change_alt_names and old.alt_names - new.alt_names:
            return (
                "the new certificate lacks a subject alternative name of the old one; allow it with"
                " ssl.allow.san.changes"
            )
        return ""


def _name(certificate: Certificate) -> str:
    try:
        return java_name(certificate.subject).lower()
    except BadDer:
        return certificate.subject.hex()


def _validity_problem(found: ServerContext, now: float) -> str:
    if now >= found.expires_at:
        return f"a certificate expired on {day_of(found.expires_at)}"
    if now < (begins := max(each.not_before for each in found.chain)):
        return f"a certificate is valid only from {day_of(begins)}"
    return ""


def day_of(seconds: float) -> str:
    """Return a day in ISO notation."""
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _stamp(settings: TlsSettings) -> Stamp:
    """Return a value that changes when a file of a store changes."""
    paths = [settings.keystore.path]
    if settings.truststore is not None:
        paths.append(settings.truststore.path)
    return tuple(_file_stamp(each) for each in paths if each is not None)


def _file_stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None  # reading the file reports the reason
    return found.st_mtime_ns, found.st_size, found.st_ino
