"""The list of authentications, as data: what a client sends, frame by frame.  Pure.

Every case runs on a connection of its own.  A step makes the next frame from the answers so far.
After each step the client waits for one answer.  `seen.py` says which parts of an answer are
compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from authentications.scram import NONCE, USERS, Scram

from .frames import (
    LOGIN,
    Case,
    Send,
    after,
    bare,
    headed,
    module_of,
    raw,
    request,
    shake,
    token,
    versions,
)
from .tokens import TOKENS, token_cases, token_settings

AGAIN: Final = "AGAIN"
OPEN: Final = "PLAINTEXT"
LISTENERS: Final = (LOGIN, AGAIN, TOKENS, OPEN)
"""Listeners with SASL; with SASL and sessions that end; with OAUTHBEARER; without logins."""

MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SESSION_MS: Final = 3000
DELAY_MS: Final = 400
PLAIN_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"


def settings(keys_url: str) -> dict[str, str]:
    """Return the settings of a broker for the cases, without its listeners' addresses.

    keys_url: serves tokens.published_keys().
    """
    users = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    found = {"connection.failed.authentication.delay.ms": str(DELAY_MS)}
    for listener in ("login", "again"):
        prefix = f"listener.name.{listener}"
        found[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        found[f"{prefix}.plain.sasl.jaas.config"] = f"{PLAIN_MODULE} required {users};"
        for name in ("scram-sha-256", "scram-sha-512"):
            found[f"{prefix}.{name}.sasl.jaas.config"] = f"{SCRAM_MODULE} required;"
    found["listener.name.again.connections.max.reauth.ms"] = str(SESSION_MS)
    return found | token_settings(keys_url)


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    """Return PLAIN's token."""
    return f"{authorization_id}\0{user}\0{password}".encode()


# -- SCRAM ----------------------------------------------------------------------------------------


# -- the list -------------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Return the whole list."""
    return [
        *_first_frames(),
        *_greetings(),
        *_between(),
        *_handshakes(),
        *_plain(),
        *_scram(),
        *_bare(),
        *_again(),
        *_open(),
        *token_cases(),
    ]


_GOOD: Final = token(plain("alice", "secret"))
_METADATA: Final = request("Metadata", 12, module_of("Metadata").MetadataRequest([]))


def _first_frames() -> Iterator[Case]:
    find = module_of("FindCoordinator").FindCoordinatorRequest(coordinator_keys=["g"])
    fetch = module_of("Fetch").FetchRequest()
    first = {
        "metadata": _METADATA,
        "find-coordinator": request("FindCoordinator", 4, find),
        "fetch": request("Fetch", 12, fetch),
        "authenticate": _GOOD,
        "unknown-api": headed(999, 0),
        "negative-api": headed(-1, 0),
        "api-4-that-was-removed": headed(4, 0),
        "consumer-group-heartbeat": headed(68, 0, flexible=True),
        "broker-heartbeat": headed(63, 0, flexible=True),
        "handshake-9": headed(17, 9),
        "metadata-99": headed(3, 99, flexible=True),
        "empty-frame": raw(b""),
        "one-byte": raw(b"\0"),
        "half-a-header": raw(b"\0\x12\0\3"),
        "http": Send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        "tls-hello": Send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
        "negative-length": Send(b"\xff\xff\xff\xff"),
        "too-long": Send(b"\0\x08\0\1" + bytes(100)),
        "kerberos": raw(
            b"\x60\x82\x02\x6e\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02" + bytes(50)
        ),
        "handshake-cut-short": headed(17, 1, b"\0\x20PLA"),
        "handshake-of-null": headed(17, 1, b"\xff\xff"),
    }
    for name, send in first.items():
        yield Case(f"first {name}", (send,))
        if name != "authenticate":
            yield Case(f"after versions {name}", (versions(), send))
    yield Case("after versions authenticate", (versions(), _GOOD))


def _greetings() -> Iterator[Case]:
    yield Case("versions twice", (versions(), versions()))
    yield Case(
        "versions 99 twice",
        (headed(18, 99, flexible=True), headed(18, 99, flexible=True), versions(), shake("PLAIN")),
    )
    yield Case("versions of a bad name", (versions(3, "a b"), versions(), shake("PLAIN"), _GOOD))
    yield Case("versions of no release", (versions(3, "a", ""), versions(3, "", "1")))
    for version in range(5):
        yield Case(f"versions {version}", (versions(version), shake("PLAIN"), _GOOD))


def _between() -> Iterator[Case]:
    named = module_of("Metadata").MetadataRequest(
        [module_of("Metadata").MetadataRequestTopic(name="t")]
    )
    for name, send in {
        "metadata": _METADATA,
        "metadata of a topic": request("Metadata", 12, named),
        "versions": versions(),
        "versions 0": versions(0),
        "versions 99": headed(18, 99, flexible=True),
        "handshake": shake("PLAIN"),
        "handshake 0": shake("PLAIN", 0),
        "unknown-api": headed(999, 0),
        "authenticate-9": headed(36, 9, flexible=True),
        "authenticate-cut-short": headed(36, 1, b"\0\0\1\0"),
        "authenticate-null": headed(36, 1, b"\xff\xff\xff\xff"),
        "empty-frame": raw(b""),
        "bare-token": raw(plain("alice", "secret")),
        "too-long": Send(b"\0\x08\0\1" + bytes(100)),
    }.items():
        yield Case(f"between {name}", (shake("PLAIN"), send))
    yield Case("twice handshake 0", (shake("PLAIN", 0), shake("PLAIN", 0)))
    yield Case("at its end authenticate", (shake("PLAIN"), _GOOD, _GOOD, _METADATA))
    yield Case("at its end handshake", (shake("PLAIN"), _GOOD, shake("PLAIN"), _METADATA))
    yield Case("at its end versions", (versions(), shake("PLAIN"), _GOOD, versions(), versions()))


def _handshakes() -> Iterator[Case]:
    for name in _NOT_OFFERED:
        for version in (0, 1):
            steps = shake(name, version), shake("PLAIN")
            yield Case(f"mechanism {name[:20]!r} v{version}", steps)


_NOT_OFFERED: Final = (
    "",
    "GSSAPI",
    "plain",
    "PLAIN ",
    "SCRAM-SHA-1",
    "SCRAM-SHA-256-PLUS",
    "OAUTHBEARER",
    "EXTERNAL",
    "ANONYMOUS",
    "x" * 300,
)


def _plain() -> Iterator[Case]:
    tokens = {
        "good": plain("alice", "secret"),
        "good with its id": plain("alice", "secret", "alice"),
        "wrong password": plain("alice", "Secret"),
        "unknown user": plain("carol", "secret"),
        "user in capitals": plain("Alice", "secret"),
        "password of another": plain("alice", "hunter2"),
        "no user": plain("", "secret"),
        "no password": plain("alice", ""),
        "neither": plain("", ""),
        "another id": plain("alice", "secret", "bob"),
        "another id and wrong password": plain("alice", "wrong", "bob"),
        "empty": b"",
        "one part": b"alice",
        "two parts": b"alice\0secret",
        "four parts": plain("alice", "secret") + b"\0",
        "many parts": b"a\0b\0c\0d\0e\0f",
        "no utf-8": b"\0alice\0secre\xff",
        "user of no utf-8": b"\0\xfe\xff\0secret",
        "space before": plain(" alice", "secret"),
        "newline": plain("alice", "secret\n"),
        "long password": plain("alice", "x" * 100_000),
        "long user": plain("x" * 100_000, "secret"),
    }
    for name, data in tokens.items():
        yield Case(f"plain {name}", (shake("PLAIN"), token(data)))
    for version in (0, 1):
        yield Case(
            f"plain good v{version}", (shake("PLAIN"), token(plain("alice", "secret"), version))
        )
        yield Case(f"plain wrong v{version}", (shake("PLAIN"), token(plain("alice", "x"), version)))
    yield Case("plain of scram", (shake("PLAIN"), token(f"n,,n=alice,r={NONCE}".encode())))


def _scram() -> Iterator[Case]:
    good = f"n=alice,r={NONCE}"
    firsts = {
        "empty": "",
        "of plain": "\0alice\0secret",
        "channel binding y": f"y,,{good}",
        "channel binding p": f"p=tls-unique,,{good}",
        "no gs2 header": good,
        "empty name": f"n,,n=,r={NONCE}",
        "no name": f"n,,r={NONCE}",
        "no nonce": "n,,n=alice",
        "empty nonce": "n,,n=alice,r=",
        "nonce with a space": "n,,n=alice,r=a b",
        "name with =": f"n,,n=al=ice,r={NONCE}",
        "name with =2c": f"n,,n=al=2cice,r={NONCE}",
        "another id": f"n,a=bob,{good}",
        "empty id": f"n,a=,{good}",
        "not ascii": f"n,,n=\u00e4lice,r={NONCE}",
        "order": f"n,,r={NONCE},n=alice",
        "zero byte": f"n,,n=ali\0ce,r={NONCE}",
        "trailing comma": f"n,,{good},",
        "bad extension": f"n,,{good},=x",
    }
    for mechanism in MECHANISMS[1:]:
        short = mechanism.removeprefix("SCRAM-SHA-")
        yield Case(f"scram {short} good", Scram(mechanism).steps())
        for name, first in firsts.items():
            yield Case(f"scram {short} first {name}", Scram(mechanism, first).steps()[:2])
        for name, first in {
            "its id": f"n,a=alice,{good}",
            "extension": f"n,,{good},ext=1",
            "reserved": f"n,,m=x,{good}",
        }.items():
            yield Case(f"scram {short} with {name}", Scram(mechanism, first).steps())
        yield Case(f"scram {short} wrong password", Scram(mechanism, password="wrong").steps())
        yield Case(f"scram {short} empty password", Scram(mechanism, password="").steps())
        for name, last in _LASTS.items():
            yield Case(f"scram {short} last {name}", Scram(mechanism, last=last).steps())
        yield Case(
            f"scram {short} first twice",
            (shake(mechanism), token(f"n,,{good}".encode()), token(f"n,,{good}".encode())),
        )
        yield Case(f"scram {short} again after good", (*Scram(mechanism).steps(), token(b"x")))
        other = request("Metadata", 12, module_of("Metadata").MetadataRequest([]))
        yield Case(f"scram {short} metadata after first", (*Scram(mechanism).steps()[:2], other))
        other = shake(mechanism)
        yield Case(f"scram {short} handshake after first", (*Scram(mechanism).steps()[:2], other))


_LASTS: Final[dict[str, Callable[[str, str, str], str]]] = {
    "empty": lambda nonce, unproved, proof: "",
    "client nonce only": lambda nonce, unproved, proof: f"c=biws,r={NONCE},p={proof}",
    "server nonce only": lambda nonce, unproved, proof: (
        f"c=biws,r={nonce.removeprefix(NONCE)},p={proof}"
    ),
    "longer nonce": lambda nonce, unproved, proof: f"c=biws,r=x{nonce},p={proof}",
    "nonce and more": lambda nonce, unproved, proof: f"c=biws,r={nonce}x,p={proof}",
    "no proof": lambda nonce, unproved, proof: unproved,
    "empty proof": lambda nonce, unproved, proof: f"{unproved},p=",
    "short proof": lambda nonce, unproved, proof: f"{unproved},p=AAAA",
    "long proof": lambda nonce, unproved, proof: f"{unproved},p={'A' * 400}",
    "proof of no base64": lambda nonce, unproved, proof: f"{unproved},p=*{proof[1:]}",
    "proof with its order wrong": lambda nonce, unproved, proof: f"p={proof},{unproved}",
    "other channel": lambda nonce, unproved, proof: f"c=eSws,r={nonce},p={proof}",
    "channel of no base64": lambda nonce, unproved, proof: f"c=biw,r={nonce},p={proof}",
    "more behind": lambda nonce, unproved, proof: f"{unproved},p={proof},x=y",
}


def _bare() -> Iterator[Case]:
    for name, data in {
        "good": plain("alice", "secret"),
        "wrong password": plain("alice", "x"),
        "two parts": b"alice\0secret",
        "empty": b"",
    }.items():
        metadata = request("Metadata", 0, module_of("Metadata").MetadataRequest([]))
        yield Case(f"bare plain {name}", (shake("PLAIN", 0), bare(data), metadata))
    for mechanism in MECHANISMS[1:]:
        short = mechanism.removeprefix("SCRAM-SHA-")
        yield Case(f"bare {short} good", Scram(mechanism).bare_steps())
        wrong = Scram(mechanism, password="wrong").bare_steps()
        yield Case(f"bare {short} wrong password", wrong)
        yield Case(f"bare {short} no message", (shake(mechanism, 0), bare(b"x")))
    framed = token(plain("alice", "secret"))
    yield Case("bare but framed", (shake("PLAIN", 0), framed))


def _again() -> Iterator[Case]:
    metadata = request("Metadata", 12, module_of("Metadata").MetadataRequest([]))
    good, shaken = token(plain("alice", "secret")), shake("PLAIN")
    once = (shaken, good)
    for name, steps in {
        "at once": (*once, metadata, *once, metadata),
        "twice at once": (*once, *once, shaken, metadata),
        "after a second": (*once, *once, after(1100, shaken), good, metadata),
        "wrong password": (*once, shaken, token(plain("alice", "x"))),
        "another user": (*once, shaken, token(plain("bob", "hunter2"))),
        "another mechanism": (*once, shake("SCRAM-SHA-256"), good),
        "unknown mechanism": (*once, shake("GSSAPI"), good),
        "no handshake": (*once, good, metadata),
        "metadata in between": (*once, shaken, metadata),
        "versions in between": (*once, shaken, versions()),
        "expired": (*once, after(SESSION_MS + 300, metadata)),
        "expired versions": (*once, after(SESSION_MS + 300, versions())),
        "expired authenticate": (*once, after(SESSION_MS + 300, good)),
        "expired but again": (*once, after(SESSION_MS + 300, shaken), good, metadata),
        "expired again without end": (*once, *once, after(SESSION_MS + 300, metadata)),
        "version 0 expired": (
            shaken,
            token(plain("alice", "secret"), 0),
            after(SESSION_MS + 300, metadata),
        ),
        "version 1": (shaken, token(plain("alice", "secret"), 1), metadata),
        "bare expired": (
            shake("PLAIN", 0),
            bare(plain("alice", "secret")),
            after(SESSION_MS + 300, metadata),
        ),
        "bare again": (
            shake("PLAIN", 0),
            bare(plain("alice", "secret")),
            shake("PLAIN", 0),
            bare(plain("alice", "secret")),
            metadata,
        ),
        "bare again wrong": (
            shake("PLAIN", 0),
            bare(plain("alice", "secret")),
            shake("PLAIN", 0),
            bare(plain("alice", "x")),
        ),
        "bare then framed": (shake("PLAIN", 0), bare(plain("alice", "secret")), shaken, good),
        "framed then bare": (*once, shake("PLAIN", 0), bare(plain("alice", "secret")), metadata),
        "scram": (*Scram("SCRAM-SHA-256").steps(), *Scram("SCRAM-SHA-256").steps(), metadata),
        "scram wrong": (
            *Scram("SCRAM-SHA-256").steps(),
            *Scram("SCRAM-SHA-256", password="x").steps(),
        ),
        "scram other hash": (
            *Scram("SCRAM-SHA-256").steps(),
            *Scram("SCRAM-SHA-512").steps()[:2],
        ),
    }.items():
        yield Case(f"again {name}", steps, AGAIN)


def _open() -> Iterator[Case]:
    metadata = request("Metadata", 12, module_of("Metadata").MetadataRequest([]))
    for version in (0, 1):
        yield Case(f"open handshake {version}", (shake("PLAIN", version), metadata), OPEN)
    for version in (0, 1, 2):
        tried = token(plain("alice", "secret"), version)
        yield Case(f"open authenticate {version}", (tried, metadata), OPEN)
    yield Case("open bare token", (shake("PLAIN", 0), bare(plain("alice", "secret"))), OPEN)
