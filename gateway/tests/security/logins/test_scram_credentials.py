"""AlterUserScramCredentials and DescribeUserScramCredentials, with Kafka's codes and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.worlds.wire_client import WireClient, wire_world
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_protocol.messages import describe_user_scram_credentials as dsc

TWICE = "A user credential cannot be altered twice in the same request"


def set_(user: str, mechanism: int = 1, iterations: int = 4096) -> asc.ScramCredentialUpsertion:
    return asc.ScramCredentialUpsertion(user, mechanism, iterations, b"salt", b"salted")


def drop(user: str, mechanism: int = 1) -> asc.ScramCredentialDeletion:
    return asc.ScramCredentialDeletion(user, mechanism)


async def alter(client: WireClient, *rows: Any) -> dict[str, tuple[int, str | None]]:
    """Return code and text by user."""
    deletions = [each for each in rows if isinstance(each, asc.ScramCredentialDeletion)]
    upsertions = [each for each in rows if isinstance(each, asc.ScramCredentialUpsertion)]
    request = asc.AlterUserScramCredentialsRequest(deletions, upsertions)
    answer = await client.call("AlterUserScramCredentials", 0, request)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


async def describe(client: WireClient, users: Sequence[str] | None = None) -> dict[str, Any]:
    """Return (code, text, [(mechanism, iterations)]) by user."""
    names = None if users is None else [dsc.UserName(each) for each in users]
    request = dsc.DescribeUserScramCredentialsRequest(names)
    answer = await client.call("DescribeUserScramCredentials", 0, request)
    assert (answer.error_code, answer.error_message) == (0, "")
    return {
        each.user: (
            each.error_code,
            each.error_message,
            [(info.mechanism, info.iterations) for info in each.credential_infos],
        )
        for each in answer.results
    }


async def test_credentials_are_set_replaced_and_removed() -> None:
    async with wire_world() as world:
        client = world.connect()
        assert await alter(client, set_("alice"), set_("bob", 2, 16384)) == {
            "alice": (0, None),
            "bob": (0, None),
        }
        assert await alter(client, set_("alice", 2, 8192)) == {"alice": (0, None)}
        assert await alter(client, set_("alice", 1, 5000)) == {"alice": (0, None)}
        both = {"alice": (0, "", [(1, 5000), (2, 8192)]), "bob": (0, "", [(2, 16384)])}
        assert await describe(client) == both
        assert await describe(client, []) == both
        assert await alter(client, drop("alice")) == {"alice": (0, None)}
        assert await describe(client, ["alice"]) == {"alice": (0, "", [(2, 8192)])}


async def test_refusals_have_kafkas_codes_and_texts() -> None:
    async with wire_world() as world:
        client = world.connect()
        found = await alter(
            client,
            set_("few", 1, 4095),
            set_("many", 1, 16385),
            set_("other", 3),
            set_("none", 0),
            set_(""),
            set_("*"),
            asc.ScramCredentialUpsertion("blank", 1, 4096, b"salt", b""),
            set_("good"),
            drop("missing"),
        )
        assert found == {
            "few": (93, "Too few iterations"),
            "many": (93, "Too many iterations"),
            "other": (33, "Unknown SCRAM mechanism"),
            "none": (33, "Unknown SCRAM mechanism"),
            "": (93, "Username must not be empty"),
            "*": (93, "A user cannot be called *"),
            "blank": (93, "The salted password must not be empty"),
            "good": (0, None),
            "missing": (91, "Attempt to delete a user credential that does not exist"),
        }
        assert list(await describe(client)) == ["good"]


async def test_a_user_that_is_named_twice_stays_as_it_is() -> None:
    async with wire_world() as world:
        client = world.connect()
        await alter(client, set_("alice"))
        for rows in (
            (set_("alice", 1, 5000), set_("alice", 2)),
            (drop("alice"), set_("alice", 2)),
            (drop("alice"), drop("alice", 2)),
            (drop("alice"), set_("alice"), set_("alice", 2)),
        ):
            assert await alter(client, *rows, set_("bob")) == {
                "alice": (92, TWICE),
                "bob": (0, None),
            }
        assert (await describe(client, ["alice"]))["alice"] == (0, "", [(1, 4096)])


async def test_descriptions_of_nobody_and_of_the_same_user_twice() -> None:
    async with wire_world() as world:
        client = world.connect()
        await alter(client, set_("alice"))
        assert await describe(client, ["alice", "carol", "alice"]) == {
            "alice": (
                92,
                "Cannot describe SCRAM credentials for the same user twice in a single request:"
                " alice",
                [],
            ),
            "carol": (
                91,
                "Attempt to describe a user credential that does not exist: carol",
                [],
            ),
        }


async def test_a_cluster_of_an_earlier_level_keeps_no_credentials() -> None:
    async with wire_world(highest_version=SECURITY - 1) as world:
        code, text = (await alter(world.connect(), set_("alice")))["alice"]
        assert (code, text) == (35, "The current metadata.version does not support SCRAM")


async def test_many_users_are_set_at_once() -> None:
    async with wire_world() as world:
        client = world.connect()
        found = await alter(client, *(set_(f"user-{number:05}") for number in range(20_000)))
        assert set(found.values()) == {(0, None)}
        assert len(await describe(client)) == 20_000
