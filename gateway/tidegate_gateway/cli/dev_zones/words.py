"""The commands that a person may type while several gateways run."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum


class Verb(Enum):
    """A command; those of ONE_GATEWAY are followed by its number."""

    STOP = "stop"
    START = "start"
    RESTART = "restart"
    KILL = "kill"
    DRAIN = "drain"
    UNDRAIN = "undrain"
    STATUS = "status"
    HELP = "help"
    QUIT = "quit"


OF_ALL = frozenset({Verb.STATUS, Verb.HELP, Verb.QUIT})

_MEANINGS = {
    Verb.STOP: "its clients go to the others, then it ends",
    Verb.START: "it comes back at the same address",
    Verb.RESTART: "both",
    Verb.KILL: "kill -9, as when a machine is lost",
    Verb.DRAIN: "its clients go to the others, and it stays",
    Verb.UNDRAIN: "it takes new work again",
    Verb.STATUS: "the state of each gateway",
    Verb.HELP: "this list",
    Verb.QUIT: "stop all, as Ctrl+C does",
}


@dataclass(frozen=True, slots=True)
class Command:
    """One line.  node_id: None for a command about all gateways."""

    verb: Verb
    node_id: int | None = None


class NotUnderstood(Exception):
    """A line that is not a command.  Show the text, and read the next line."""


def parse(line: str, count: int) -> Command | None:
    """Return the command of a line; None for an empty line.

    Args:
      count: of gateways; they are numbered from 1.

    Raises:
      NotUnderstood: the line is not a command.
    """
    words = line.lower().split()
    if not words:
        return None
    verb = _verb(words[0])
    if verb in OF_ALL:
        if len(words) > 1:
            raise NotUnderstood(f"{verb.value} takes no argument")
        return Command(verb)
    if len(words) != 2 or not _is_number(words[1], count):
        raise NotUnderstood(f"say which: {verb.value} {_numbers(count)}")
    return Command(verb, int(words[1]))


def help_text() -> str:
    """Return all commands, a line each."""
    rows = [(_shown(verb), meaning) for verb, meaning in _MEANINGS.items()]
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {meaning}" for name, meaning in rows)


def _shown(verb: Verb) -> str:
    return verb.value if verb in OF_ALL else f"{verb.value} 2"


def _verb(word: str) -> Verb:
    known = [each.value for each in Verb]
    if word in known:
        return Verb(word)
    near = get_close_matches(word, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "help lists the commands"
    raise NotUnderstood(f"{word[:40]!r} is no command; {hint}")


def _is_number(word: str, count: int) -> bool:
    return word.isascii() and word.isdigit() and len(word) < 4 and 1 <= int(word) <= count


def _numbers(count: int) -> str:
    return "1" if count == 1 else f"1 to {count}" if count > 2 else "1 or 2"
