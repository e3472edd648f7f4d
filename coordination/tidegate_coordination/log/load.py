"""A URL becomes a metadata log: the scheme names an entry point of group `tidegate.metadata_logs`.

The entry point is `async def open_log(url: str) -> MetadataLog`; a stranger's package may add one.
"""

from collections.abc import Awaitable, Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from tidegate_coordination.log.metadata_log import LogMisconfigured, MetadataLog

ENTRY_POINT_GROUP: Final = "tidegate.metadata_logs"

OpenLog = Callable[[str], Awaitable[MetadataLog]]


async def open_log(url: str) -> MetadataLog:
    """Open the log at `url`, such as `memory:` or `sqlite:/var/lib/tidegate/log.db`.

    Raises:
        LogMisconfigured: no log has this scheme, its package cannot be imported, or it refuses.
        LogUnavailable: it does not answer now; open it again later.
    """
    return await _opener(url)(url)


def known_schemes() -> list[str]:
    return sorted(set(entry_points(group=ENTRY_POINT_GROUP).names))


def _opener(url: str) -> OpenLog:
    return cast(OpenLog, _import(_entry_point(url)))


def _entry_point(url: str) -> EntryPoint:
    # Only the scheme is shown: other parts of a URL may hold a password.
    scheme, colon, _ = url.partition(":")
    known = f"known: {', '.join(f'{each}:' for each in known_schemes())}"
    if not colon:
        raise LogMisconfigured(f"the URL of a metadata log begins with its kind; {known}")
    found = list(entry_points(group=ENTRY_POINT_GROUP, name=scheme))
    if not found:
        raise LogMisconfigured(f"no metadata log is called {scheme!r}; {known}")
    if len({each.value for each in found}) > 1:
        named = " and ".join(sorted(each.value for each in found))
        raise LogMisconfigured(f"two packages bring a metadata log {scheme!r}, remove one: {named}")
    return found[0]


def _import(found: EntryPoint) -> object:
    try:
        return found.load()
    except (ImportError, AttributeError) as error:
        raise LogMisconfigured(
            f"the metadata log {found.name!r} ({found.value}) cannot be imported: {error}"
        ) from error
