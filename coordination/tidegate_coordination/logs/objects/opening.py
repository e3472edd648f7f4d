"""`s3://BUCKET/PREFIX?endpoint=...`, `gs:`, `az:`: a log in any object store with conditional
create, for gateways that share nothing else.

The URL is that of an object store, with its options; it may be the store of the records, since a
log lies below `tidegate-log/`. Credentials are never part of the URL. There is no `file:`, because
sqlite: is faster on the disk of one machine, and a shared file system may cache that a file is
absent.
"""

from typing import Final
from urllib.parse import parse_qs, urlsplit

import trio

from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.logs.objects.log import ObjectLog, open_objects
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectStore, StoreMisconfigured

PREFIX: Final = "tidegate-log/"
_DEADLINE_SECONDS: Final = 10.0  # of each request


async def open_log(url: str) -> ObjectLog:
    """Open the log, making it if there is none.

    Raises:
        LogMisconfigured: the URL, the credentials or the store are not fit for it.
        LogUnavailable: the store does not answer now.
    """
    _check_no_secret(url)
    store = await trio.to_thread.run_sync(_open_store, url)
    try:
        return await open_objects(store, PREFIX)
    except BaseException:
        with trio.CancelScope(shield=True):
            await store.aclose()
        raise


def _open_store(url: str) -> ObjectStore:
    try:
        return open_store(url, deadline_seconds=_DEADLINE_SECONDS)
    except StoreMisconfigured as error:
        # Any part of a malformed URL may be a secret.
        text = str(error).replace(repr(url), "the URL")
        raise LogMisconfigured(f"the log of objects: {text}") from error


def _check_no_secret(url: str) -> None:
    parts = urlsplit(url)
    endpoints = parse_qs(parts.query).get("endpoint", [])
    if any("@" in urlsplit(each).netloc for each in (url, *endpoints)):
        raise LogMisconfigured(
            "leave credentials out of the URL of the metadata log: they are found as the cloud's"
            " own tools find them, such as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
