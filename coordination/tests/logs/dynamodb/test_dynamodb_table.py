"""The requests of a log in DynamoDB: conditions, consistency, and a repeat of unfinished work.

Emulators are always consistent, so only the requests show whether consistent reads are asked for.
"""

from typing import Any

import pytest
from botocore.exceptions import ClientError
from trio.testing import MockClock

from tidegate_coordination.log.metadata_log import LogCorrupt, LogMisconfigured, LogUnavailable
from tidegate_coordination.logs.dynamodb.client import Client
from tidegate_coordination.logs.dynamodb.layout import (
    END,
    FIRST_END,
    End,
    Item,
    end_attributes,
    entry_name,
)
from tidegate_coordination.logs.dynamodb.making import make_log
from tidegate_coordination.logs.dynamodb.notation import key, written
from tidegate_coordination.logs.dynamodb.table import Table
from tidegate_coordination.logs.dynamodb.url import Address

HEAD = Item(entry_name(7), {"nonce": "n", "body": b"x"})


def stored(name: str, **attributes: str | int | bytes) -> dict[str, Any]:
    return key("name", name) | written(attributes)


STORED_END = stored(END, **dict(end_attributes(End(9, 3))))


class Recorder:
    """Stands for boto3's client: records requests, and returns the given answers."""

    def __init__(self, *answers: dict[str, Any] | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        def call(**arguments: Any) -> dict[str, Any]:
            self.requests.append((operation, arguments))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


async def opened(recorder: Recorder) -> Table:
    client = Client(Address("table", "name"), lambda _: recorder, in_loop=True)
    await client.connect()
    client.is_patient = True
    return Table(client)


def failed(code: str, **more: object) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": ""}, **more}, "Any")


async def test_all_reads_but_a_look_at_the_end_are_consistent() -> None:
    recorder = Recorder(
        {"Item": stored("x", a=1)}, {"Item": STORED_END}, {"Item": STORED_END}, {"Items": []}
    )
    table = await opened(recorder)
    assert await table.get("x") == {"log": "name", "a": 1}
    assert await table.end() == await table.end(consistent=False) == End(9, 3)
    assert await table.page("a", "b") == ([], True)
    assert [each["ConsistentRead"] for _, each in recorder.requests] == [True, True, False, True]


async def test_an_append_is_two_conditions_in_one_transaction() -> None:
    recorder = Recorder({})
    assert await (await opened(recorder)).append(7, HEAD) is None
    ((operation, arguments),) = recorder.requests
    assert operation == "transact_write_items"
    step, creation = arguments["TransactItems"]
    assert step["Update"]["ConditionExpression"] == "#next = :position"
    assert step["Update"]["ExpressionAttributeValues"] == {
        ":position": {"N": "7"},
        ":next": {"N": "8"},
    }
    assert creation["Put"]["ConditionExpression"] == "attribute_not_exists(item_name)"
    assert creation["Put"]["Item"] == stored(HEAD.name, **dict(HEAD.attributes))


async def test_a_refused_append_tells_the_end_that_it_met() -> None:
    reasons = [{"Code": "ConditionalCheckFailed", "Item": STORED_END}, {"Code": "None"}]
    refused = failed("TransactionCanceledException", CancellationReasons=reasons)
    recorder = Recorder(refused)
    assert await (await opened(recorder)).append(7, HEAD) == End(9, 3)
    assert len(recorder.requests) == 1


async def test_an_append_that_met_only_an_entry_asks_for_both_at_once() -> None:
    reasons = [{"Code": "None"}, {"Code": "ConditionalCheckFailed"}]
    refused = failed("TransactionCanceledException", CancellationReasons=reasons)
    both = {"Responses": [{"Item": STORED_END}, {}]}
    recorder = Recorder(refused, both)
    assert await (await opened(recorder)).append(7, HEAD) == End(9, 3)
    assert recorder.requests[1][0] == "transact_get_items"


async def test_heads_are_created_once_and_pieces_need_no_condition() -> None:
    recorder = Recorder({}, failed("ConditionalCheckFailedException"), {})
    table = await opened(recorder)
    assert await table.put(HEAD)
    assert not await table.put(HEAD)
    await table.put_piece(HEAD)
    conditions = [each.get("ConditionExpression") for _, each in recorder.requests]
    assert conditions == ["attribute_not_exists(item_name)"] * 2 + [None]
    assert recorder.requests[2][1]["Item"]["log"] == {"S": "name/pieces"}


@pytest.mark.parametrize(
    ("limit", "listed", "is_cut", "names", "is_last"),
    [
        (None, "abc", False, "bc", True),
        (None, "abc", True, "bc", False),
        (1, "abc", True, "b", False),
        (2, "abc", False, "bc", True),
        (3, "bcz", False, "bc", True),
    ],
)
async def test_a_page_lies_between_its_names(
    limit: int | None, listed: str, is_cut: bool, names: str, is_last: bool
) -> None:
    answer: dict[str, Any] = {"Items": [stored(each) for each in listed]}
    recorder = Recorder(answer | ({"LastEvaluatedKey": {}} if is_cut else {}))
    page = await (await opened(recorder)).page("a", "z", limit=limit)
    assert ("".join(each.name for each in page.items), page.is_last) == (names, is_last)


async def test_items_that_were_left_are_deleted_again(autojump_clock: MockClock) -> None:
    names = [f"{number:02}" for number in range(27)]
    wanted = [{"DeleteRequest": {"Key": key("name", each)}} for each in names]
    recorder = Recorder({"UnprocessedItems": {"table": wanted[20:25]}}, {}, {})
    await (await opened(recorder)).delete(names)
    asked = [each["RequestItems"]["table"] for _, each in recorder.requests]
    assert asked == [wanted[:25], wanted[20:25], wanted[25:]]


async def test_an_old_look_that_misses_the_end_is_repeated() -> None:
    """A lagging server may not have the item `end` yet, so the read is repeated consistently."""
    recorder = Recorder({}, {"Item": STORED_END})
    assert await (await opened(recorder)).end(consistent=False) == End(9, 3)
    assert [each["ConsistentRead"] for _, each in recorder.requests] == [False, True]


# -- making a log ---------------------------------------------------------------------------------

NO_TABLE = failed("ResourceNotFoundException")
FIRST = {"Item": stored(END, **dict(end_attributes(FIRST_END)))}
MAKING, ACTIVE = ({"Table": {"TableStatus": each}} for each in ("CREATING", "ACTIVE"))
NEW_LOG: tuple[dict[str, Any], ...] = ({"Items": []}, {}, FIRST)


async def made(*answers: dict[str, Any] | Exception) -> list[str]:
    """Return the operations that opening a log took."""
    recorder = Recorder(*answers)
    client = Client(Address("table", "name"), lambda _: recorder, in_loop=True)
    await client.connect()
    await make_log(client)
    assert recorder.answers == []
    return [operation for operation, _ in recorder.requests]


async def test_a_log_that_is_there_is_found_by_two_requests() -> None:
    assert await made({"Item": STORED_END}, {"Item": STORED_END}) == ["get_item"] * 2


async def test_a_table_is_made_and_waited_for(autojump_clock: MockClock) -> None:
    operations = await made(NO_TABLE, {}, NO_TABLE, MAKING, ACTIVE, *NEW_LOG)
    looks = ["describe_table"] * 3
    begun = ["query", "put_item", "get_item"]
    assert operations == ["get_item", "create_table", *looks, *begun]


async def test_a_table_that_another_gateway_makes_is_waited_for(
    autojump_clock: MockClock,
) -> None:
    taken = failed("ResourceInUseException")
    assert "describe_table" in await made(NO_TABLE, taken, MAKING, ACTIVE, *NEW_LOG)


async def test_a_log_that_another_gateway_begins_meanwhile_is_found() -> None:
    grown = {"Items": [stored(entry_name(1))]}
    assert await made({}, grown, FIRST, FIRST) == ["get_item", "query", "get_item", "get_item"]


async def test_a_table_that_was_not_made_is_an_outage() -> None:
    with pytest.raises(LogUnavailable, match="could not make its table: InternalServerError"):
        await made(NO_TABLE, failed("InternalServerError"), NO_TABLE)


async def test_a_role_that_may_make_no_table_learns_the_command() -> None:
    with pytest.raises(LogMisconfigured, match="by hand: aws dynamodb create-table --table-name"):
        await made(NO_TABLE, failed("AccessDeniedException"))


@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([{"Item": stored(END, next=1)}] * 2, "lacks an attribute of Tidegate's"),
        ([{"Item": stored(END, next=1, boundary=1, format=2)}] * 2, "start a newer one"),
        ([{}, {"Items": [stored(entry_name(1))]}, {}], "'end' is gone"),
    ],
)
async def test_a_log_that_cannot_be_used_is_a_sentence(
    answers: list[dict[str, Any]], sentence: str
) -> None:
    with pytest.raises(LogMisconfigured, match=sentence):
        await made(*answers)


async def test_a_table_or_an_end_that_is_gone_is_corruption() -> None:
    recorder = Recorder(failed("ResourceNotFoundException"), {})
    table = await opened(recorder)
    with pytest.raises(LogCorrupt, match="table was deleted"):
        await table.get("x")
    with pytest.raises(LogCorrupt, match="lost its item 'end'"):
        await table.end()
