"""What plug-ins do once a gateway appends for others, and once it does so no more.

An entry point of group `tidegate.leadership_hooks` is a function `hook(leads: bool) -> None`; a
stranger's package may add one.  It is called in the event loop, so it must not wait.  To lead is a
hint: two gateways may be told so at once, and whoever appends is decided by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

ENTRY_POINT_GROUP: Final = "tidegate.leadership_hooks"

Hook = Callable[[bool], None]


class HookUnusable(Exception):
    """The sentence says which, and why."""


def load_hooks() -> list[Hook]:
    """Return the hooks of all packages that are installed, by name.

    Raises:
      HookUnusable: one cannot be imported, or called.
    """
    found = entry_points(group=ENTRY_POINT_GROUP)
    return [_load(each) for each in sorted(found, key=lambda each: (each.name, each.value))]


def _load(found: EntryPoint) -> Hook:
    what = f"the leadership hook {found.name!r} ({found.value})"
    try:
        hook = found.load()
    except (ImportError, AttributeError) as error:
        raise HookUnusable(f"{what} cannot be imported: {error}; mend or remove it") from error
    if not callable(hook):
        raise HookUnusable(f"{what} is no function; mend or remove it")
    return cast(Hook, hook)
