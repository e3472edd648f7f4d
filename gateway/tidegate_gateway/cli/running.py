"""Runs a gateway from a command: sets up logs, prints an error as a sentence, returns a code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import trio

from tidegate_coordination.refusals import first_of
from tidegate_runtime.log_lines import LEVELS, configure_logs
from tidegate_runtime.output import PROCESS_OUTPUT
from tidegate_runtime.settings_texts import BadSource

from ..app import Running, run_gateway
from ..refusals_to_start import sentence_of
from ..settings.broker_settings import BrokerSettings


@PROCESS_OUTPUT.queued()
def run_to_end(
    make_settings: Callable[[], BrokerSettings],
    data: Path | None,
    announce: Callable[[Running], None],
    *,
    log_level: str,
    advice: Callable[[BaseException], str] = lambda error: "",
    process: int = 0,
) -> int:
    """Run a gateway and return the exit code; print an error that a person can fix as a sentence.

    Args:
      make_settings: may raise as gather() does.
      advice: returns further advice for an error, which names this command's options.
      process: the process's number, for its log lines, if several run on this machine; otherwise 0.
    """
    try:
        if log_level not in LEVELS:
            raise BadSource(f"--log-level {log_level}: choose one of {', '.join(LEVELS)}")
        configure_logs(log_level, always={"process": process} if process else {})
        return trio.run(run_gateway, make_settings(), data, announce)
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        print(f"tidegate: {sentence}{advice(first_of(error))}", file=sys.stderr)
        return 1
