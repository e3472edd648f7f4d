"""The steps of a command, by the gateway's phase, and the sentence about a process's end."""

from __future__ import annotations

import signal
from enum import Enum

from .words import Verb


class Phase(Enum):
    """The state of a gateway's process."""

    DOWN = "stopped"
    STARTING = "starting"
    SERVING = "serving"
    DRAINING = "serving, but draining"
    DRAINED = "drained"
    STOPPING = "stopping"
    DYING = "being killed"


class Step(Enum):
    """A step of a command."""

    START = "start"
    STOP = "stop"
    KILL = "kill"
    DRAIN = "drain"
    UNDRAIN = "undrain"


class Refused(Exception):
    """A command that makes no sense in this phase.  Show the text."""


_RUNS = frozenset({Phase.SERVING, Phase.DRAINING, Phase.DRAINED})
_SENT_AWAY = frozenset({Phase.DRAINING, Phase.DRAINED})
_WANTED = frozenset({Phase.STOPPING, Phase.DYING})

_OF_RUNNING = {
    Verb.STOP: (Step.STOP,),
    Verb.RESTART: (Step.STOP, Step.START),
    Verb.DRAIN: (Step.DRAIN,),
    Verb.UNDRAIN: (Step.UNDRAIN,),
}
_OF_STOPPED = {Verb.START: (Step.START,), Verb.RESTART: (Step.START,)}


def steps(verb: Verb, phase: Phase) -> tuple[Step, ...]:
    """Return the steps of a command in a phase.

    Raises:
      Refused: the command makes no sense in this phase.
    """
    if verb is Verb.KILL:
        if phase is Phase.DOWN:
            raise Refused("is stopped already")
        return (Step.KILL,)
    table = _OF_RUNNING if phase in _RUNS else _OF_STOPPED if phase is Phase.DOWN else {}
    found = table.get(verb)
    if found is None:
        raise Refused(_why_not(verb, phase))
    return found


def _why_not(verb: Verb, phase: Phase) -> str:
    if phase in _SENT_AWAY and verb is Verb.START:
        how = "drains" if phase is Phase.DRAINING else "is drained"
        return f"runs already, but {how}; undrain makes it take new work"
    if phase in _RUNS:
        return "runs already"
    if phase is Phase.DOWN:
        return "is stopped already" if verb is Verb.STOP else "is stopped; start it first"
    return f"is {phase.value} just now"


def is_wanted(phase: Phase) -> bool:
    """Return whether a command asked for the end of a process in this phase."""
    return phase in _WANTED


def ending(phase: Phase, code: int) -> str:
    """Return how a process in this phase ended, as the rest of a sentence about the gateway."""
    if phase is Phase.DYING:
        return "was killed"
    if phase is Phase.STOPPING:
        return "stopped" if code == 0 else f"stopped, with {_code(code)}"
    if phase is Phase.STARTING:
        return f"did not start: {_code(code)}"
    return f"ended by itself: {_code(code)}"


def _code(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
