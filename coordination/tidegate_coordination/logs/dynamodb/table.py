"""The items of one log in a table of DynamoDB: each method is one operation of DynamoDB."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import trio

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable
from tidegate_coordination.logs.dynamodb.client import (
    CALL_SECONDS,
    Client,
    ConditionFailed,
    NoTable,
)
from tidegate_coordination.logs.dynamodb.errors import item_met
from tidegate_coordination.logs.dynamodb.items import Page
from tidegate_coordination.logs.dynamodb.layout import (
    END,
    Attributes,
    End,
    Item,
    end_of,
    entry_name,
)
from tidegate_coordination.logs.dynamodb.notation import COLLECTION, NAME, key, read_item, written

_DELETED_AT_ONCE: Final = 25  # as many as one BatchWriteItem takes
_DELETE_PAUSE_SECONDS: Final = 0.05
# `next` and other names are reserved words of DynamoDB.
_NAMES: Final = {"#next": "next", "#boundary": "boundary"}
_ABSENT: Final = f"attribute_not_exists({NAME})"


class Table:
    """Items of the log that the client's address names.  See `items.Items`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._table = client.address.table
        self._log = client.address.name
        self._pieces = f"{client.address.name}/pieces"

    async def get(self, name: str) -> Attributes | None:
        return await self._get(name, consistent=True)

    async def _get(self, name: str, *, consistent: bool) -> Attributes | None:
        found = await self._call(
            "read", "get_item", Key=key(self._log, name), ConsistentRead=consistent
        )
        return read_item(found["Item"]).attributes if "Item" in found else None

    async def end(self, *, consistent: bool = True) -> End:
        attributes = await self._get(END, consistent=consistent)
        if attributes is None and not consistent:
            # A lagging server may not have this item yet.
            attributes = await self.get(END)
        return self._end_of(attributes)

    def _end_of(self, attributes: Attributes | None) -> End:
        if attributes is None:
            raise LogCorrupt(f"{self._client.address.shown} has lost its item {END!r}")
        return end_of(attributes)

    async def page(
        self, after: str, before: str, *, pieces: bool = False, limit: int | None = None
    ) -> Page:
        # BETWEEN includes both ends, so an item with one of these names is left out here.
        found = await self._call(
            "read",
            "query",
            ConsistentRead=True,
            KeyConditionExpression=f"#log = :log AND {NAME} BETWEEN :after AND :before",
            ExpressionAttributeNames={"#log": COLLECTION},
            ExpressionAttributeValues=written(
                {":log": self._collection(pieces), ":after": after, ":before": before}
            ),
            **({} if limit is None else {"Limit": limit + 1}),
        )
        items = [read_item(each) for each in found.get("Items", [])]
        within = [each for each in items if after < each.name < before]
        is_last = "LastEvaluatedKey" not in found and len(within) <= (limit or len(within))
        return Page(within[:limit], is_last)

    async def put(self, item: Item) -> bool:
        try:
            await self._put(self._log, item, ConditionExpression=_ABSENT)
        except ConditionFailed:
            return False
        return True

    async def put_piece(self, item: Item) -> None:
        await self._put(self._pieces, item)

    async def _put(self, collection: str, item: Item, **condition: str) -> None:
        stored = key(collection, item.name) | written(item.attributes)
        await self._call("write", "put_item", Item=stored, **condition)

    async def append(self, position: int, head: Item) -> End | None:
        step = {
            "TableName": self._table,
            "Key": key(self._log, END),
            "UpdateExpression": "SET #next = :next",
            "ConditionExpression": "#next = :position",
            "ExpressionAttributeNames": {"#next": "next"},
            "ExpressionAttributeValues": written({":position": position, ":next": position + 1}),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        creation = {
            "TableName": self._table,
            "Item": key(self._log, head.name) | written(head.attributes),
            "ConditionExpression": _ABSENT,
        }
        try:
            await self._ask(
                "append",
                "transact_write_items",
                TransactItems=[{"Update": step}, {"Put": creation}],
            )
        except ConditionFailed as failed:
            met = item_met(failed.__cause__) if isinstance(failed.__cause__, Exception) else None
            if met is not None:
                return end_of(read_item(met).attributes)
            return (await self.settled(position))[0]
        return None

    async def settled(self, position: int) -> tuple[End, Attributes | None]:
        gets = [
            {"Get": {"TableName": self._table, "Key": key(self._log, name)}}
            for name in (END, entry_name(position))
        ]
        answer = await self._ask("read", "transact_get_items", TransactItems=gets)
        end, head = (
            read_item(each["Item"]).attributes if each.get("Item") else None
            for each in answer["Responses"]
        )
        return self._end_of(end), head

    async def raise_boundary(self, position: int) -> bool:
        return await self._move_end(
            "SET #boundary = :to", "#boundary < :to AND #next >= :to", {":to": position}
        )

    async def begin_at(self, position: int) -> bool:
        return await self._move_end(
            "SET #boundary = :to, #next = :to",
            "#boundary = :first AND #next = :first",
            {":to": position, ":first": 1},
        )

    async def _move_end(self, update: str, condition: str, values: Attributes) -> bool:
        try:
            await self._call(
                "trim",
                "update_item",
                Key=key(self._log, END),
                UpdateExpression=update,
                ConditionExpression=condition,
                ExpressionAttributeNames=_NAMES,
                ExpressionAttributeValues=written(values),
            )
        except ConditionFailed:
            return False
        return True

    async def delete(self, names: Sequence[str], *, pieces: bool = False) -> None:
        collection = self._collection(pieces)
        wanted = [{"DeleteRequest": {"Key": key(collection, each)}} for each in names]
        for start in range(0, len(wanted), _DELETED_AT_ONCE):
            await self._delete_batch(wanted[start : start + _DELETED_AT_ONCE])

    async def _delete_batch(self, wanted: list[dict[str, Any]]) -> None:
        with trio.move_on_after(CALL_SECONDS):
            while wanted:
                done = await self._ask(
                    "delete", "batch_write_item", RequestItems={self._table: wanted}
                )
                # The items for which DynamoDB had no throughput.
                wanted = done.get("UnprocessedItems", {}).get(self._table, [])
                if wanted:
                    await trio.sleep(_DELETE_PAUSE_SECONDS)
            return
        raise LogUnavailable(f"{self._client.address.shown} did not delete in {CALL_SECONDS:g} s")

    async def aclose(self) -> None:
        await self._client.aclose()

    def _collection(self, pieces: bool) -> str:
        return self._pieces if pieces else self._log

    async def _call(self, doing: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        return await self._ask(doing, operation, TableName=self._table, **arguments)

    async def _ask(self, doing: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        try:
            return await self._client.call(doing, operation, **arguments)
        except NoTable as error:
            raise self._client.lost_table() from error
