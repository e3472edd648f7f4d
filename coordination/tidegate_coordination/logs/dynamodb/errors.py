"""Classifies errors of DynamoDB; pure.

If DynamoDB refused a call for now (throttled, or in conflict with another transaction), the call
certainly had no effect.  An error that an operator must fix is a refusal when the log is opened,
and an outage later, because credentials expire and are renewed.  After any other error the outcome
is unknown, even if a proxy answers with its own page.
"""

import json
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
)


class UnreadableAnswer(Exception):
    """A proxy answered with its own page."""


class Kind(Enum):
    BUSY = auto()  # not done: try again later
    CONDITION = auto()  # not done: a condition does not hold
    NO_TABLE = auto()
    REFUSED = auto()  # not done: an operator must act
    UNKNOWN = auto()


_BUSY: Final = frozenset(
    {
        "ProvisionedThroughputExceeded",  # the reason of a cancelled transaction
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingError",
        "ThrottlingException",
        "TransactionConflict",
        "TransactionConflictException",
    }
)
_CONDITION: Final = frozenset({"ConditionalCheckFailed", "ConditionalCheckFailedException"})
_MAX_TOLD: Final = 300
_KEYS: Final = "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS's own files"
_ADVICE: Final[Mapping[str, str]] = {
    "AccessDeniedException": "let the role GetItem, Query, PutItem, UpdateItem and"
    " BatchWriteItem on the table",
    "ExpiredTokenException": "the credentials have expired: renew them",
    "InvalidSignatureException": _KEYS,
    "MissingAuthenticationTokenException": _KEYS,
    "UnrecognizedClientException": _KEYS,
    "ValidationException": "if its key is not the texts log (HASH) and item_name (RANGE), name"
    " another table",
}


def check_answer(response_dict: Mapping[str, Any], **_: object) -> None:
    """Check an answer before botocore reads it.

    botocore takes any text with status 200 for "done", and raises Python's own errors for some
    other answers.

    Raises:
        UnreadableAnswer: it is no JSON object.
    """
    try:
        said = json.loads(response_dict["body"].decode())
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        status = response_dict["status_code"]
        raise UnreadableAnswer(f"an answer with status {status} is not one of DynamoDB")


def kind_of(error: Exception) -> Kind:
    if not isinstance(error, ClientError):
        return Kind.REFUSED if _advice_without_answer(error) else Kind.UNKNOWN
    code, response = _code(error), _response(error)
    if code == "TransactionCanceledException":
        return _kind_of_transaction([str(each.get("Code")) for each in _reasons(response)])
    if code in _CONDITION:
        return Kind.CONDITION
    if code in _BUSY:
        return Kind.BUSY
    if code == "ResourceNotFoundException":
        return Kind.NO_TABLE
    return Kind.REFUSED if code in _ADVICE else Kind.UNKNOWN


def _kind_of_transaction(codes: list[str]) -> Kind:
    # Nothing of a cancelled transaction was done.  A conflict with another transaction is checked
    # first: while the other one commits, one of its items may be changed and another not yet.
    if _BUSY & set(codes):
        return Kind.BUSY
    return Kind.CONDITION if _CONDITION & set(codes) else Kind.REFUSED


def item_met(error: Exception) -> dict[str, Any] | None:
    """Return the item that failed the first condition of a transaction, in DynamoDB's notation;
    None if the answer does not have it.
    """
    reasons = _reasons(_response(error)) if isinstance(error, ClientError) else []
    return reasons[0].get("Item") if reasons else None


def advice(error: Exception) -> str:
    """Return advice to the operator about a refusal; "" if there is none."""
    if isinstance(error, ClientError):
        return _ADVICE.get(_code(error), "")
    return _advice_without_answer(error)


def _advice_without_answer(error: Exception) -> str:
    if isinstance(error, NoRegionError):
        return "add ?region=REGION to the URL, or set AWS_REGION"
    if isinstance(error, NoCredentialsError):
        return (
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; if this machine has a role in AWS,"
            " add machine_role=true to the URL"
        )
    return _KEYS if isinstance(error, PartialCredentialsError | ProfileNotFound) else ""


def told(error: Exception) -> str:
    """Return the first line of the error's text.

    After a wrong signature, further lines show the signed text, which has the session's token.
    """
    text = str(error)
    if isinstance(error, ClientError):
        found: Mapping[str, str] = _response(error).get("Error", {})
        text = f"{found.get('Code')}: {found.get('Message', '')}"
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= _MAX_TOLD else f"{line[:_MAX_TOLD]}..."


KNOWN_ERRORS: Final = (BotoCoreError, ClientError, UnreadableAnswer)


def _response(error: ClientError) -> Mapping[str, Any]:
    response: Mapping[str, Any] = error.response
    return response


def _code(error: ClientError) -> str:
    return str(_response(error).get("Error", {}).get("Code", ""))


def _reasons(response: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(response.get("CancellationReasons", []))
