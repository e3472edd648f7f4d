"""Makes the table and the first item of a log, or finds them."""

from typing import Final

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.dynamodb.client import Client, NoTable
from tidegate_coordination.logs.dynamodb.layout import (
    END,
    ENTRIES,
    FIRST_END,
    LAST,
    Item,
    end_attributes,
)
from tidegate_coordination.logs.dynamodb.notation import COLLECTION, NAME, key
from tidegate_coordination.logs.dynamodb.table import Table

_MAKING_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.5
_KEY: Final = ((COLLECTION, "HASH"), (NAME, "RANGE"))
_BY_HAND: Final = (
    "aws dynamodb create-table --table-name {table} --billing-mode PAY_PER_REQUEST"
    " --attribute-definitions AttributeName=log,AttributeType=S"
    " AttributeName=item_name,AttributeType=S"
    " --key-schema AttributeName=log,KeyType=HASH AttributeName=item_name,KeyType=RANGE"
)


async def make_log(client: Client) -> None:
    """Make the table if it is absent, and `end` if the log is new.

    Raises:
        LogMisconfigured: the table is not fit for it, or may not be made or used.
        LogUnavailable: DynamoDB does not answer now, or is still making the table.
    """
    try:
        found = await client.call(
            "open its table",
            "get_item",
            TableName=client.address.table,
            Key=key(client.address.name, END),
            ConsistentRead=True,
        )
    except NoTable:
        await _make_table(client)
        found = {}
    try:
        await _begin(Table(client), is_new="Item" not in found)
    except LogCorrupt as error:  # of a newer release, or of another program
        raise LogMisconfigured(f"{client.address.shown} cannot be used: {error}") from error


async def _begin(table: Table, *, is_new: bool) -> None:
    """Put `end` into a new log; see that this release can read it."""
    if is_new:
        items, _ = await table.page(ENTRIES, ENTRIES + LAST, limit=1)
        if not items:
            await table.put(Item(END, end_attributes(FIRST_END)))
        elif await table.get(END) is None:  # else another gateway began the log meanwhile
            raise LogCorrupt(f"it has entries, but its item {END!r} is gone")
    await table.end()


async def _make_table(client: Client) -> None:
    name = client.address.table
    try:
        await client.call(
            "make its table",
            "create_table",
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": each, "AttributeType": "S"} for each, _ in _KEY
            ],
            KeySchema=[{"AttributeName": each, "KeyType": kind} for each, kind in _KEY],
        )
    except LogMisconfigured as error:
        by_hand = _BY_HAND.format(table=name)
        raise LogMisconfigured(f"{error}; or make the table by hand: {by_hand}") from error
    except LogUnavailable as error:
        # Several gateways may make the table at once; others then get the answer that it is being
        # made.
        await _wait_for_table(client, error)
        return
    await _wait_for_table(client, None)


async def _wait_for_table(client: Client, unmade: LogUnavailable | None) -> None:
    with trio.move_on_after(_MAKING_SECONDS):
        while True:
            if await _status(client, unmade) == "ACTIVE":
                return
            await trio.sleep(_LOOK_SECONDS)
    raise LogUnavailable(f"{client.address.shown}: the table is still being made")


async def _status(client: Client, unmade: LogUnavailable | None) -> str:
    try:
        found = await client.call(
            "look at its table", "describe_table", TableName=client.address.table
        )
    except NoTable:
        if unmade is not None:
            raise unmade from None
        return ""
    return str(found["Table"]["TableStatus"])
