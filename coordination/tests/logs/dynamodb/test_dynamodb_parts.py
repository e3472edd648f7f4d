"""The parts of a log in DynamoDB that decide: URL, layout, decisions, errors; and its client."""

from io import BytesIO
from typing import Any

import pytest
import trio
from botocore.awsrequest import AWSResponse
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ReadTimeoutError,
)
from trio.testing import MockClock

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCorrupt,
    LogMisconfigured,
    LogUnavailable,
)
from tidegate_coordination.logs.dynamodb.client import (
    Client,
    ConditionFailed,
    NoTable,
    boto3_client,
)
from tidegate_coordination.logs.dynamodb.decisions import (
    Trim,
    first_heads,
    how_to_trim,
    refused_append,
)
from tidegate_coordination.logs.dynamodb.errors import Kind, advice, item_met, kind_of, told
from tidegate_coordination.logs.dynamodb.layout import (
    FIRST_END,
    INLINE_BYTES,
    PIECE_BYTES,
    End,
    Item,
    cut,
    end_attributes,
    end_of,
    entry_name,
    head_attributes,
    head_of,
    joined,
    piece_owner,
)
from tidegate_coordination.logs.dynamodb.notation import key, read_item, written
from tidegate_coordination.logs.dynamodb.url import Address, parse_url

# -- URL ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("dynamodb://table", Address("table", "tidegate")),
        (
            "dynamodb://My.Table_1/logs-2?region=eu-central-1",
            Address("My.Table_1", "logs-2", "eu-central-1"),
        ),
        ("dynamodb://t-t/?endpoint=http://h:1", Address("t-t", "tidegate", "", "http://h:1")),
        ("dynamodb://ttt/n?machine_role=true", Address("ttt", "n", machine_role=True)),
    ],
)
def test_a_url_names_table_and_log(url: str, address: Address) -> None:
    assert parse_url(url) == address


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("dynamodb:", "a table is 3 to 255 letters.*write dynamodb://TABLE/NAME"),
        ("dynamodb://ab", "a table is 3 to 255"),
        ("dynamodb://table/a/hidden", "the name of a log is"),
        ("dynamodb://table?region=HIDDEN!hidden", "a region is such as"),
        ("dynamodb://table?secret_access_key=hidden", "does not take secret_access_key; it takes"),
        ("dynamodb://key:hidden@table", "leave credentials out of the URL"),
        ("dynamodb://table?endpoint=http://me:hidden@h", "leave credentials out of the URL"),
        ("dynamodb://table?endpoint=hidden", "endpoint is no URL"),
        ("dynamodb://table?endpoint=http://h:hidden", "the URL is not understood"),
        ("dynamodb://table?machine_role=hidden", "machine_role is true or false"),
    ],
)
async def test_a_wrong_url_is_a_sentence_without_secrets(url: str, sentence: str) -> None:
    with pytest.raises(LogMisconfigured, match=sentence) as refused:
        await open_log(url)
    assert "hidden" not in str(refused.value)


# -- layout ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "pieces"),
    [
        (0, 0),
        (INLINE_BYTES, 0),
        (INLINE_BYTES + 1, 1),
        (PIECE_BYTES, 1),
        (PIECE_BYTES + 1, 2),
        (1 << 20, 3),
    ],
)
def test_a_body_is_cut_and_joined(size: int, pieces: int) -> None:
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    head, cut_off = cut("name", body, "nonce")
    assert len(cut_off) == pieces
    assert all(len(str(each.attributes["body"])) > 0 for each in cut_off)
    assert {piece_owner(each.name) for each in cut_off} <= {"name"}
    assert head_of(Item("name", head_attributes(head))) == head
    assert joined(head, cut_off) == body
    if pieces:
        with pytest.raises(LogCorrupt, match="pieces"):
            joined(head, cut_off[:-1])
        with pytest.raises(LogCorrupt, match="pieces"):
            joined(head, cut("name", body, "other")[1])


def test_an_end_of_another_format_or_program_is_refused() -> None:
    assert end_of(end_attributes(End(7, 3))) == End(7, 3)
    with pytest.raises(LogCorrupt, match="format 2; this release reads 1"):
        end_of({**end_attributes(FIRST_END), "format": 2})
    with pytest.raises(LogCorrupt, match="lacks an attribute"):
        end_of({"next": 1})


def test_attributes_survive_the_notation() -> None:
    attributes: dict[str, str | int | bytes] = {
        "text": "t",
        "number": 2**40,
        "body": b"\0\xff",
        "none": b"",
    }
    stored = key("log", "name") | written(attributes) | {"foreign": {"BOOL": True}}
    assert read_item(stored) == Item("name", {"log": "log", **attributes})


# -- decisions ------------------------------------------------------------------------------------


def test_next_tells_the_outcome_of_an_append() -> None:
    end = End(next=10, boundary=5)
    assert refused_append(4, end) is AppendResult.TRIMMED
    assert refused_append(5, end) is AppendResult.CONFLICT
    assert refused_append(9, end) is AppendResult.CONFLICT
    with pytest.raises(LogCorrupt, match="though the log ends before"):
        refused_append(10, end)
    with pytest.raises(LogCorrupt, match="ends at 9"):
        refused_append(11, end)


def test_a_boundary_rises_within_the_log_only() -> None:
    end = End(next=10, boundary=5)
    wanted = {4: Trim.HOLDS, 5: Trim.HOLDS, 6: Trim.RAISE, 10: Trim.RAISE, 11: Trim.REFUSE}
    assert {each: how_to_trim(end, each) for each in wanted} == wanted
    assert how_to_trim(FIRST_END, 70) is Trim.BEGIN
    assert how_to_trim(End(2, 1), 70) is Trim.REFUSE


def test_a_read_stops_at_a_gap_and_at_its_bound() -> None:
    def item(position: int, size: int) -> Item:
        return Item(
            entry_name(position), head_attributes(cut(entry_name(position), b"x" * size, "n")[0])
        )

    def positions(items: list[Item], max_bytes: int) -> list[str]:
        return [each.name[-1] for each in first_heads(items, 3, max_bytes)]

    items = [item(3, 10), item(4, 10), item(6, 10)]
    assert positions(items, 1000) == ["3", "4"]
    assert positions(items, 19) == ["3"]
    assert positions(items, 0) == ["3"]
    assert positions(items[1:], 1000) == []


# -- errors ---------------------------------------------------------------------------------------


def client_error(code: str, *reasons: str, item: dict[str, Any] | None = None) -> ClientError:
    told = [{"Code": each} for each in reasons]
    if item is not None:
        told[0]["Item"] = item  # type: ignore[assignment]
    response: dict[str, Any] = {"Error": {"Code": code, "Message": "said"}}
    return ClientError({**response, "CancellationReasons": told} if told else response, "Any")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (client_error("ThrottlingException"), Kind.BUSY),
        (client_error("ProvisionedThroughputExceededException"), Kind.BUSY),
        (client_error("TransactionConflictException"), Kind.BUSY),
        (client_error("ConditionalCheckFailedException"), Kind.CONDITION),
        (client_error("ResourceNotFoundException"), Kind.NO_TABLE),
        (client_error("AccessDeniedException"), Kind.REFUSED),
        (client_error("InternalServerError"), Kind.UNKNOWN),
        (client_error("503"), Kind.UNKNOWN),
        (client_error("TransactionCanceledException", "None", "TransactionConflict"), Kind.BUSY),
        (client_error("TransactionCanceledException", "ThrottlingError", "None"), Kind.BUSY),
        (
            client_error("TransactionCanceledException", "ConditionalCheckFailed", "None"),
            Kind.CONDITION,
        ),
        (
            client_error(
                "TransactionCanceledException", "TransactionConflict", "ConditionalCheckFailed"
            ),
            Kind.BUSY,
        ),
        (client_error("TransactionCanceledException", "ValidationError"), Kind.REFUSED),
        (client_error("TransactionCanceledException"), Kind.REFUSED),
        (EndpointConnectionError(endpoint_url="http://h"), Kind.UNKNOWN),
        (ReadTimeoutError(endpoint_url="http://h"), Kind.UNKNOWN),
        (NoRegionError(), Kind.REFUSED),
        (NoCredentialsError(), Kind.REFUSED),
    ],
)
def test_errors_are_told_apart(error: Exception, kind: Kind) -> None:
    assert kind_of(error) is kind


def test_a_cancelled_transaction_tells_the_item_it_met() -> None:
    met = {"next": {"N": "3"}}
    assert item_met(client_error("TransactionCanceledException", "x", item=met)) == met
    assert item_met(client_error("TransactionCanceledException", "x")) is None
    assert item_met(client_error("ThrottlingException")) is None


def test_advice_says_what_to_do() -> None:
    assert "region=REGION" in advice(NoRegionError())
    assert "machine_role=true" in advice(NoCredentialsError())
    assert "BatchWriteItem" in advice(client_error("AccessDeniedException"))
    assert advice(client_error("InternalServerError")) == ""


def test_an_error_is_told_in_one_short_line_without_what_was_signed() -> None:
    def error(message: str) -> ClientError:
        return ClientError({"Error": {"Code": "Wrong", "Message": message}}, "Any")

    signed = "It does  not match.\n\nThe Canonical String\nx-amz-security-token:hidden"
    assert told(error(signed)) == "Wrong: It does not match."
    assert told(error("x" * 5000)) == f"Wrong: {'x' * 293}..."
    assert "http://h" in told(EndpointConnectionError(endpoint_url="http://h"))


# -- client ---------------------------------------------------------------------------------------


class _Fake:
    """Stands for boto3's client: raises the given errors, then answers."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def get_item(self, **arguments: Any) -> dict[str, Any]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return arguments

    def close(self) -> None:
        self.errors.clear()


async def connected(fake: _Fake, *, is_patient: bool) -> Client:
    client = Client(Address("table", "name"), lambda _: fake, in_loop=True)
    await client.connect()
    client.is_patient = is_patient
    return client


async def test_what_was_throttled_is_repeated(autojump_clock: MockClock) -> None:
    fake = _Fake(client_error("ThrottlingException"), client_error("TransactionConflictException"))
    client = await connected(fake, is_patient=True)
    assert await client.call("read", "get_item", Key="k") == {"Key": "k"}
    assert fake.calls == 3


async def test_a_call_that_stays_throttled_ends_as_an_outage(
    autojump_clock: MockClock,
) -> None:
    fake = _Fake(*[client_error("ThrottlingException")] * 1000)
    client = await connected(fake, is_patient=True)
    with pytest.raises(LogUnavailable, match="within 10 s: ThrottlingException: said"):
        await client.call("read", "get_item")
    assert 10 <= fake.calls <= 20
    assert trio.current_time() == 10


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (client_error("InternalServerError"), LogUnavailable),
        (ReadTimeoutError(endpoint_url="http://h"), LogUnavailable),
        (client_error("AccessDeniedException"), LogUnavailable),
        (client_error("ConditionalCheckFailedException"), ConditionFailed),
        (client_error("ResourceNotFoundException"), NoTable),
    ],
)
async def test_nothing_else_is_repeated(error: Exception, raised: type[Exception]) -> None:
    fake = _Fake(error)
    client = await connected(fake, is_patient=True)
    with pytest.raises(raised):
        await client.call("read", "get_item")
    assert fake.calls == 1


async def test_a_refusal_at_the_start_is_a_sentence_with_advice() -> None:
    client = await connected(_Fake(client_error("AccessDeniedException")), is_patient=False)
    with pytest.raises(LogMisconfigured, match=r"could not read: AccessDenied.*let the role"):
        await client.call("read", "get_item")


class _Body(BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self, **_: object) -> Any:
        yield self.read()


async def answered(status: int, body: bytes, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the result or error of an append for this HTTP answer."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "key")

    def make(address: Address) -> Any:
        made = boto3_client(address)
        made.meta.events.register(
            "before-send.dynamodb",
            lambda request, **_: AWSResponse(request.url, status, {}, _Body(body)),
        )
        return made

    client = Client(Address("table", "name", "us-east-1"), make, in_loop=True)
    await client.connect()
    client.is_patient = True
    delete = {"TableName": "table", "Key": key("name", "end")}
    return await client.call("append", "transact_write_items", TransactItems=[{"Delete": delete}])


@pytest.mark.parametrize("status", [200, 204, 403, 502])
@pytest.mark.parametrize(
    "body", [b"", b"<html>login</html>", b"[1]", b"null", b'{"a":', b'{"a":"\xe9"}', b"[" * 100_000]
)
async def test_an_answer_that_is_none_of_dynamodb_is_an_unknown_outcome(
    body: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """botocore itself takes any page with status 200 as the answer of a completed transaction."""
    with pytest.raises(LogUnavailable, match=f"an answer with status {status} is not"):
        await answered(status, body, monkeypatch)


async def test_answers_of_dynamodb_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    done = await answered(200, b"{}", monkeypatch)
    assert done["ResponseMetadata"]["HTTPStatusCode"] == 200
    busy = b'{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError","message":"later"}'
    with pytest.raises(LogUnavailable, match="could not append: InternalServerError: later"):
        await answered(500, busy, monkeypatch)


async def test_an_unreachable_server_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    with trio.fail_after(60), pytest.raises(LogUnavailable) as refused:
        await open_log("dynamodb://table?endpoint=http://127.0.0.1:1&region=us-east-1")
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "url", "sentence"),
    [
        ({}, "dynamodb://table", r"add \?region=REGION to the URL"),
        (
            {"AWS_REGION": "us-east-1"},
            "dynamodb://table?endpoint=http://127.0.0.1:1",
            "machine_role",
        ),
    ],
)
async def test_what_the_environment_lacks_is_a_sentence(
    variables: dict[str, str],
    url: str,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call asks the instance metadata address of a cloud."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LogMisconfigured, match=sentence):
        await open_log(url)
