"""`postgres://USER@HOST:PORT/DATABASE?schema=NAME`: a log that gateways on many machines share.

The URL is libpq's, with its parameters (`sslmode`, several hosts, `service`, ...); what it leaves
out comes from where libpq looks: PGPASSWORD, the password file, the service file. `schema` is
Tidegate's own parameter: each log is a schema (`tidegate` if none is named). So several logs can
share a database, and each can be granted, dumped and dropped separately. Schema and tables are made
at first use.

psycopg comes with the extra `postgres`, so this module imports the rest only when a log is opened.
"""

import sys

from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog


async def open_log(url: str) -> MetadataLog:
    """Open the log, making its tables if they are absent.

    Raises:
        LogMisconfigured: the URL, the role, the database or the server are not fit for it.
        LogUnavailable: the server does not answer now.
    """
    try:
        from tidegate_coordination.logs.postgres.log import open_address
        from tidegate_coordination.logs.postgres.url import parse_url
    except ImportError as error:
        raise LogMisconfigured(
            f"postgres: needs psycopg: {sys.executable} -m pip install 'psycopg[binary]' ({error})"
        ) from error
    return await open_address(parse_url(url))
