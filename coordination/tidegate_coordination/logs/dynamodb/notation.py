"""Attributes in DynamoDB's notation: {"S": text}, {"N": digits}, {"B": bytes}.  Pure."""

from collections.abc import Mapping
from typing import Any, Final

from tidegate_coordination.logs.dynamodb.layout import Attributes, Item

# The table's key; both are texts.
COLLECTION: Final = "log"
NAME: Final = "item_name"


def written(attributes: Attributes) -> dict[str, Any]:
    return {name: _value(value) for name, value in attributes.items()}


def key(collection: str, name: str) -> dict[str, Any]:
    return {COLLECTION: {"S": collection}, NAME: {"S": name}}


def read_item(found: Mapping[str, Any]) -> Item:
    """Attributes of other types are left out, since Tidegate writes none."""
    attributes: dict[str, str | int | bytes] = {}
    for name, typed in found.items():
        if "S" in typed:
            attributes[name] = str(typed["S"])
        elif "N" in typed and str(typed["N"]).isdecimal():
            attributes[name] = int(typed["N"])
        elif "B" in typed:
            attributes[name] = bytes(typed["B"])
    return Item(str(attributes.pop(NAME, "")), attributes)


def _value(value: str | int | bytes) -> dict[str, Any]:
    if isinstance(value, bytes):
        return {"B": value}
    return {"S": value} if isinstance(value, str) else {"N": str(value)}
