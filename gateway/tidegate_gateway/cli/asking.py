"""Asks the person at the terminal before a command changes something for good."""

from __future__ import annotations

import sys
from functools import partial

import trio

from tidegate_runtime.settings_texts import BadSource


def check_json(*, as_json: bool, asks: bool, instead: str = "--yes") -> None:
    """Check that a command that prints JSON does not ask.

    Args:
      asks: whether the command would ask, given its options.
      instead: the options with which the command does not ask.

    Raises:
      BadSource: the command would ask.
    """
    if as_json and asks:
        raise BadSource(f"--json cannot ask for a confirmation: give {instead}, too")


async def agreed(question: str, *, yes: bool) -> bool:
    """Return whether the person at the terminal agrees, or gave the option --yes."""
    asks = partial(confirmed, question)
    return yes or await trio.to_thread.run_sync(asks, abandon_on_cancel=True)


def confirmed(question: str) -> bool:
    """Ask the person at the terminal; without a terminal the answer is no."""
    if not sys.stdin.isatty():
        print(f"{question} There is no terminal to answer at: give --yes.", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
