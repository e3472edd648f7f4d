"""`dynamodb://TABLE/NAME?region=REGION`: a log for gateways on AWS that have no database.

NAME is the log, `tidegate` if none is given; several logs may share a table. The table is made at
first use. `endpoint` names another server that speaks DynamoDB's protocol. Credentials are found as
AWS's own tools find them; the role of an EC2 machine is asked for only with `machine_role=true`.

boto3 comes with the extra `dynamodb`, so this module imports the rest only when a log is opened.
"""

import sys

from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog
from tidegate_coordination.logs.dynamodb.url import parse_url


async def open_log(url: str) -> MetadataLog:
    """Open the log, making its table if it is absent.

    Raises:
        LogMisconfigured: the URL, the credentials or the table are not fit for it.
        LogUnavailable: DynamoDB does not answer now, or is still making the table.
    """
    address = parse_url(url)
    try:
        from tidegate_coordination.logs.dynamodb.log import open_address
    except ImportError as error:
        raise LogMisconfigured(
            f"dynamodb: needs boto3: {sys.executable} -m pip install boto3 ({error})"
        ) from error
    return await open_address(address)
