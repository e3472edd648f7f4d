"""The parsed URL of a log in DynamoDB."""

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from tidegate_coordination.log.metadata_log import LogMisconfigured

DEFAULT_NAME: Final = "tidegate"
_FORM: Final = "write dynamodb://TABLE/NAME?region=REGION"
_TABLE: Final = re.compile(r"[a-zA-Z0-9_.-]{3,255}")
_NAME: Final = re.compile(r"[a-zA-Z0-9_.-]{1,100}")
_REGION: Final = re.compile(r"[a-z0-9-]{1,40}")
_PARAMETERS: Final = ("endpoint", "machine_role", "region")


@dataclass(frozen=True, slots=True)
class Address:
    """`region` and `endpoint` are empty if the URL leaves them to the environment."""

    table: str
    name: str
    region: str = ""
    endpoint: str = ""
    machine_role: bool = False

    @property
    def shown(self) -> str:
        return f"the log {self.name!r} in the DynamoDB table {self.table!r}"


def parse_url(url: str) -> Address:
    """Raises LogMisconfigured with a sentence, which shows no part that may be a secret."""
    try:
        parts = urlsplit(url)
        fields = dict(parse_qsl(parts.query, keep_blank_values=True))
        endpoint = urlsplit(fields.get("endpoint", ""))
        is_good_port = endpoint.port != 0
    except ValueError:
        raise LogMisconfigured(f"the URL is not understood: {_FORM}") from None
    if "@" in parts.netloc or "@" in endpoint.netloc:
        raise LogMisconfigured(
            "leave credentials out of the URL of the metadata log: they are found as AWS's own"
            " tools find them, such as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    unknown = sorted(fields.keys() - set(_PARAMETERS))
    if unknown:
        taken = ", ".join(_PARAMETERS)
        raise LogMisconfigured(
            f"a dynamodb URL does not take {', '.join(unknown)}; it takes {taken}"
        )
    name = parts.path.strip("/") or DEFAULT_NAME
    _require(_TABLE, parts.netloc, "a table is 3 to 255 letters, digits, '_', '-' and '.'")
    _require(_NAME, name, "the name of a log is up to 100 letters, digits, '_', '-' and '.'")
    if region := fields.get("region", ""):
        _require(_REGION, region, "a region is such as eu-central-1")
    is_http = endpoint.scheme in ("http", "https") and endpoint.hostname and is_good_port
    if "endpoint" in fields and not is_http:
        raise LogMisconfigured("endpoint is no URL: write endpoint=http://HOST:PORT, or https://")
    role = fields.get("machine_role", "false")
    if role not in ("true", "false"):
        raise LogMisconfigured("machine_role is true or false")
    return Address(parts.netloc, name, region, fields.get("endpoint", ""), role == "true")


def _require(form: re.Pattern[str], text: str, otherwise: str) -> None:
    if not form.fullmatch(text):
        raise LogMisconfigured(f"{otherwise}: {_FORM}")
