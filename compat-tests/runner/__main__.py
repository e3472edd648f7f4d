"""compat-tests/run NAME [OPTIONS]: runs one program of the table, and prints its result.

The exit status is 0 if all was as promised, 1 if not, 2 if nothing was judged: the command line is
wrong, or a tool is missing.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

import msgspec
from harness.install import MissingTool

from runner.options import parser_of
from runner.result import Result, WrongOption, say
from runner.table import PROGRAMS, Program


def main(arguments: Sequence[str]) -> int:
    """Run a program; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="compat-tests/run",
        usage="%(prog)s NAME [OPTIONS]",
        description="NAME --help tells the options of a program.",
        epilog="\n".join(f"  {each.name:26} {each.says}" for each in PROGRAMS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [each.name for each in PROGRAMS]
    parser.add_argument("name", metavar="NAME", choices=names, help="a program:")
    name = parser.parse_args(arguments[:1]).name
    return _run(PROGRAMS[names.index(name)], arguments[1:])


def _run(program: Program, arguments: Sequence[str]) -> int:
    try:
        function, options = program.loaded()
        parser = program_parser(program, options)
        given = vars(parser.parse_args(arguments))
        as_json = given.pop("as_json")
        try:
            result = function(options(**given))
        except WrongOption as wrong:
            parser.error(str(wrong))
    except MissingTool as missing:
        say(f"{program.name} cannot run here: {missing}")
        return 2
    print(_shown(result, as_json), end="", flush=True)
    return 0 if result.is_good else 1


def program_parser(program: Program, options: type) -> argparse.ArgumentParser:
    """Return the parser of a program's options, and of those that all have."""
    parser = parser_of(options, prog=f"compat-tests/run {program.name}", description=program.says)
    parser.add_argument(
        "--json", action="store_true", dest="as_json", help="print all figures as JSON"
    )
    return parser


def _shown(result: Result, as_json: bool) -> str:
    if as_json:
        figures = {"is_good": result.is_good} if result.figures is None else result.figures
        return f"{msgspec.json.encode(figures).decode()}\n"
    if not result.text and result.figures is not None:
        return f"{msgspec.json.format(msgspec.json.encode(result.figures)).decode()}\n"
    return f"{result.text}\n" if result.text else ""


def _leave(number: int, frame: object) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)  # so that all that was started is stopped on the way out
    sys.exit(main(sys.argv[1:]))
