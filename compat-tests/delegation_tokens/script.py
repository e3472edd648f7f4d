"""The questions about tokens, in order.  A question may change the answers to later ones."""

from __future__ import annotations

from typing import Final

import trio

from .broker import DAY_MS
from .player import Player, Token

HOUR_MS: Final = 3_600_000
LONG_MAX: Final = (1 << 63) - 1
ALICE: Final = ("User", "alice")
BOB: Final = ("User", "bob")
CAROL: Final = ("User", "carol")


async def play(player: Player) -> None:
    """Ask the questions for a broker with a secret key."""
    await player.prepare()
    await _create_for_oneself(player)
    await _create_for_others(player)
    await _renew(player)
    await _expire(player)
    await _describe(player)
    await _log_in(player)
    await _after_expiry(player)
    await player.refused_everywhere("without a login")


async def play_without_key(player: Player) -> None:
    """Ask the questions for a broker without a secret key."""
    await player.prepare()
    none = Token("none")
    await player.create("no key: create", "alice")
    await player.create("no key: for another without the right", "ivan", owner=ALICE)
    await player.create("no key: a renewer that is no user", "alice", renewers=[("Group", "g")])
    await player.renew("no key: renew", "alice", none, -1)
    await player.expire("no key: expire", "alice", none, -1)
    await player.describe("no key: describe", "alice", None)
    await player.describe("no key: describe none", "alice", [])
    await player.login("no key: log in", "some-id", "eA==")
    await player.refused_everywhere("no key: without a login")


async def _create_for_oneself(player: Player) -> None:
    lifetimes = {
        "as long as may be": -1,
        "0": 0,
        "-5": -5,
        "the least": -LONG_MAX - 1,
        "1 s": 1_000,
        "1 h": HOUR_MS,
        "2 d": 2 * DAY_MS,
        "the greatest": LONG_MAX,
    }
    for label, lifetime_ms in lifetimes.items():
        await player.create(f"create: lifetime {label}", "gina", lifetime_ms=lifetime_ms)
    for version in (1, 2, 3):
        await player.create(f"create: v{version}", "gina", version=version, lifetime_ms=HOUR_MS)
    several: dict[str, list[tuple[str | None, str | None]]] = {
        "one": [BOB],
        "two": [BOB, CAROL],
        "the same twice": [BOB, BOB],
        "the owner": [("User", "gina")],
        "no name": [("User", "")],
        "of type Group": [("Group", "bob")],
        "the second of type Group": [BOB, ("Group", "bob")],
        "of type user": [("user", "bob")],
        "without a type": [("", "bob")],
    }
    for label, renewers in several.items():
        await player.create(f"create: renewers {label}", "gina", renewers=renewers)


async def _create_for_others(player: Player) -> None:
    bad_renewer: list[tuple[str | None, str | None]] = [("Group", "g")]
    for user in ("alice", "bob", "erin", "admin", "carol", "dave", "frank", "gina", "ivan"):
        await player.create(f"create: for alice by {user}", user, owner=ALICE)
    await player.create("create: for bob by frank", "frank", owner=BOB)
    await player.create("create: for bob by gina", "gina", owner=BOB)
    await player.create("create: right before renewers", "ivan", owner=ALICE, renewers=bad_renewer)
    await player.create("create: renewers for alice", "bob", owner=ALICE, renewers=bad_renewer)
    await player.create("create: for nobody", "admin", owner=("User", ""))
    await player.create("create: for no name", "admin", owner=("User", None))
    await player.create("create: for a group", "admin", owner=("Group", "alice"))
    await player.create("create: for a group, no right", "ivan", owner=("Group", "ivan"))
    await player.create("create: for null", "gina", owner=(None, None))
    await player.create("create: for no type", "admin", owner=("", "alice"))
    await player.create("create: for a null type", "admin", owner=(None, "alice"))


async def _renew(player: Player) -> None:
    token = await player.create("renew: a token", "bob", owner=ALICE, renewers=[CAROL])
    other = await player.create("renew: another token", "dave", renewers=[BOB])
    periods = {
        "-1": -1,
        "0": 0,
        "1 h": HOUR_MS,
        "the least": -LONG_MAX - 1,
        "3 d": 3 * DAY_MS,
        "the greatest": LONG_MAX,
    }
    for label, period_ms in periods.items():
        await player.renew(f"renew: period {label}", "alice", token, period_ms)
    await player.renew("renew: v1", "alice", token, HOUR_MS, version=1)
    await player.renew("renew: by the renewer", "carol", token, 2 * HOUR_MS)
    await player.renew("renew: by the requester", "bob", token, HOUR_MS)
    await player.renew("renew: by a stranger", "ivan", token, HOUR_MS)
    await player.renew("renew: by the super user", "admin", token, HOUR_MS)
    await player.renew("renew: by the renewer of another token", "carol", other, HOUR_MS)
    short = await player.create("renew: a short token", "alice", lifetime_ms=2 * HOUR_MS)
    await player.renew("renew: beyond the greatest age", "alice", short, -1)
    await player.renew("renew: a short one for less", "alice", short, HOUR_MS)
    secrets = {
        "none": b"",
        "wrong": bytes(64),
        "cut": token.hmac[:-1],
        "with more": token.hmac + b"\0",
        "the id": token.token_id.encode(),
    }
    for label, secret in secrets.items():
        await player.renew(f"renew: secret {label}", "alice", Token("", hmac=secret), -1)


async def _expire(player: Player) -> None:
    token = await player.create("expire: a token", "bob", owner=ALICE, renewers=[CAROL])
    await player.expire("expire: in 1 h", "alice", token, HOUR_MS)
    await player.expire("expire: v1", "alice", token, 2 * HOUR_MS, version=1)
    await player.expire("expire: in 9 d", "alice", token, 9 * DAY_MS)
    await player.expire("expire: at the end of time", "alice", token, LONG_MAX)
    await player.expire("expire: by the renewer", "carol", token, HOUR_MS)
    await player.expire("expire: by the requester", "bob", token, HOUR_MS)
    await player.expire("expire: by a stranger", "ivan", token, -1)
    await player.expire("expire: by the super user", "admin", token, -1)
    await player.expire("expire: wrong secret", "alice", Token("", hmac=bytes(64)), -1)
    await player.expire("expire: now", "alice", token, -1)
    await player.expire("expire: what is removed", "alice", token, -1)
    await player.renew("expire: renew what is removed", "alice", token, -1)
    least = await player.create("expire: a second token", "alice", renewers=[CAROL])
    await player.expire("expire: now, by the renewer", "carol", least, -LONG_MAX - 1)
    over = await player.create("expire: a third token", "alice")
    await player.expire("expire: in 0 ms", "alice", over, 0)
    await player.renew("expire: renew what is over", "alice", over, -1)
    await player.renew("expire: a stranger renews what is over", "ivan", over, -1)
    await player.expire("expire: once more in 0 ms", "alice", over, 0)
    await player.expire("expire: a stranger expires what is over", "ivan", over, 0)
    await player.describe("expire: what is over is shown", "alice", [ALICE])
    await player.expire("expire: remove what is over", "alice", over, -1)
    await player.expire("expire: it is gone", "alice", over, -1)


async def _describe(player: Player) -> None:
    for user in ("alice", "bob", "carol", "dave", "erin", "gina", "henry", "ivan", "admin"):
        await player.describe(f"describe: all, by {user}", user, None)
        await player.describe(f"describe: alice's, by {user}", user, [ALICE])
    await player.describe("describe: v1", "carol", None, version=1)
    await player.describe("describe: v2", "carol", None, version=2)
    await player.describe("describe: of no owner", "admin", [])
    await player.describe("describe: of a renewer", "admin", [CAROL])
    await player.describe("describe: of two", "admin", [ALICE, ("User", "dave")])
    await player.describe("describe: the same twice", "carol", [ALICE, ALICE])
    await player.describe("describe: of a stranger", "admin", [("User", "zoe")])
    await player.describe("describe: of a group", "admin", [("Group", "alice")])
    await player.describe("describe: of no type", "admin", [("", "alice")])


async def _log_in(player: Player) -> None:
    token = await player.create("login: a token", "bob", owner=ALICE, lifetime_ms=2 * HOUR_MS)
    name, password = token.token_id, token.password
    line = await player.login("login: good", name, password)
    await player.refused_everywhere("login: by a token", line)
    await player.login("login: SHA-512", name, password, mechanism="SCRAM-SHA-512")
    await player.login("login: wrong secret", name, "d3Jvbmc=")
    await player.login("login: a token of another", name, Token("", hmac=bytes(64)).password)
    await player.login("login: unknown id", "unknown-id", password)
    await player.login("login: the secret as it is", name, token.hmac.hex())
    await player.login("login: without tokenauth", name, password, extension="")
    for word in ("TRUE", "True", "false", "1", "yes"):
        extension = f",tokenauth={word}"
        await player.login(f"login: tokenauth={word}", name, password, extension=extension)
    await player.login("login: more extensions", name, password, extension=",a=b,tokenauth=true")
    await player.login("login: TokenAuth", name, password, extension=",TokenAuth=true")
    await player.login("login: as its owner", name, password, authorization_id="alice")
    await player.login("login: as its id", name, password, authorization_id=name)
    await player.login("login: a user's name with tokenauth", "alice", "alice")
    await player.login("login: the owner's password", "alice", password, extension="")
    await player.login("login: a user", "alice", "alice", extension="")
    await _log_in_again(player, token)


async def _log_in_again(player: Player, token: Token) -> None:
    name, password = token.token_id, token.password
    line = await player.login("again: first", name, password)
    await player.login("again: by the same token", name, password, line=line)
    await player.refused_everywhere("again: by the same token", line)
    await trio.sleep(1.5)
    await player.login("again: by the owner's password", "alice", "alice", extension="", line=line)
    await player.create("again: a token of a user", "", line=line)
    other = await player.create("again: of another owner", "bob")
    line = await player.login("again: first by alice's", name, password)
    await player.login("again: by bob's", other.token_id, other.password, line=line)
    line = await player.login("again: a user first", "alice", "alice", extension="")
    await player.login("again: a user then by a token", name, password, line=line)


async def _after_expiry(player: Player) -> None:
    token = await player.create("over: a token", "alice")
    await player.expire("over: in 2 s", "alice", token, 2_000)
    line = await player.login("over: in time", token.token_id, token.password)
    await trio.sleep(3)
    await player.create("over: the session has ended", "", line=line)
    await player.login("over: too late", token.token_id, token.password)
    await player.renew("over: renew", "alice", token, -1)
    await player.expire("over: remove", "alice", token, -1)
    await player.login("over: removed", token.token_id, token.password)
