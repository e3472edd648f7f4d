"""Deletes topics or groups one after the other, and prints each outcome."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from tidegate_coordination.client.errors import ClassicError
from tidegate_coordination.client.failed import Failed

from ..output.table import printable
from .cluster import NOT_DONE, NOT_TOLD, complain


async def delete_each(
    noun: str, names: Sequence[str], delete: Callable[[str], Awaitable[None]], *, as_json: bool
) -> int:
    """Delete them; return the exit code.

    Args:
      noun: the kind of thing, such as "topic".
      delete: deletes one.  After Failed the command continues with the next one; a ClassicError
        ends it.
    """
    done: list[str] = []
    problems: dict[str, str] = {}
    code = 0
    for each in names:
        if code == NOT_TOLD:
            problems[each] = f"{noun} {each} was not tried"
            continue
        try:
            await delete(each)
        except Failed as error:
            problems[each], code = str(error), NOT_DONE
        except ClassicError as error:
            outcome = "is not deleted" if error.is_without_effect else "may be deleted"
            problems[each], code = f"{noun} {each} {outcome}: {error}", NOT_TOLD
        else:
            done.append(each)
            if not as_json:
                print(f"{noun} {printable(each)} is deleted", flush=True)
    if as_json:
        print(json.dumps({"deleted": done, "problems": problems}))
    else:
        for text in problems.values():
            complain(text)
    return code
