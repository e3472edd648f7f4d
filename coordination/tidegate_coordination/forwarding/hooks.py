"""Functions of plug-ins that are called when a gateway begins or stops to append for others.

An entry point of group `tidegate.leadership_hooks` is a function `hook(leads: bool) -> None`; any
installed package may add one.  The event loop calls the hook, so it must not wait.  Leading is a
hint: two gateways may lead at once, and the log's compare-and-set decides between their appends.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

ENTRY_POINT_GROUP: Final = "tidegate.leadership_hooks"

Hook = Callable[[bool], None]


class HookUnusable(Exception):
    """An installed hook cannot be used; the sentence says which, and why."""


def load_hooks() -> list[Hook]:
    """Return the hooks of all packages that are installed, by name.

    Raises:
      HookUnusable: one cannot be imported, or is not a function.
    """
    found = entry_points(group=ENTRY_POINT_GROUP)
    return [_load(each) for each in sorted(found, key=lambda each: (each.name, each.value))]


def _load(found: EntryPoint) -> Hook:
    what = f"the leadership hook {found.name!r} ({found.value})"
    try:
        hook = found.load()
    except (ImportError, AttributeError) as error:
        raise HookUnusable(f"{what} cannot be imported: {error}; reinstall or remove it") from error
    if not callable(hook):
        raise HookUnusable(f"{what} is not a function; reinstall or remove it")
    return cast(Hook, hook)
