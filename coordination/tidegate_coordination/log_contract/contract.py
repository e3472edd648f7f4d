"""The public contract of a metadata log, for any implementation: `tidegate log verify URL` runs it.

The run needs a fresh, empty log, and leaves its entries there.  Every check reports by name.  A
failed check does not stop the others, but they may fail as well, because of the same bug.

    async def open_mine() -> MetadataLog: ...          # each call: one more handle on the same log
    good = await verify_log(open_mine, lambda name, good, text: print(name, good, text))
"""

from collections.abc import Awaitable, Callable
from typing import Final, cast

import trio

from tidegate_coordination.log_contract.checks import CHECKS as CHECKS_OF_CALLS
from tidegate_coordination.log_contract.checks import Bench, BrokenPromise, OpenLog, starts_empty
from tidegate_coordination.log_contract.checks_cut_short import CHECKS as CHECKS_OF_CALLS_CUT_SHORT

Report = Callable[[str, bool, str], None]

CHECKS: Final = (*CHECKS_OF_CALLS, *CHECKS_OF_CALLS_CUT_SHORT)
_CHECK_SECONDS: Final = 120.0


async def verify_log(open_log: OpenLog, report: Report) -> bool:
    """Run every check; `report` gets (name, whether it held, a sentence). True when all held."""
    bench = Bench(open_log, await open_log(), await open_log())
    try:
        if not await _run("starts empty", starts_empty, bench, report):
            return False
        results = [await _run(name, check, bench, report) for name, check in CHECKS]
    finally:
        with trio.CancelScope(shield=True):
            await bench.aclose()
    return all(results)


async def _run(
    name: str, check: Callable[[Bench], Awaitable[str]], bench: Bench, report: Report
) -> bool:
    try:
        with trio.fail_after(_CHECK_SECONDS):
            text = await check(bench)
    except Exception as error:  # any exception of the log is a finding, and is reported
        report(name, False, _finding(error))
        return False
    report(name, True, text)
    return True


def _finding(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    if isinstance(error, BrokenPromise):
        return str(error)
    if isinstance(error, trio.TooSlowError):
        return f"did not end within {_CHECK_SECONDS:g} s"
    return f"raised {type(error).__name__}: {error}"
