"""Transactional clients of librdkafka; prints the lines that history.py describes.

    python compat-tests/histories/librdkafka_client.py BOOTSTRAP FAMILY ZONE RATE SEED LIFE ...

Writers are two appenders, two movers and a producer of orders.  Readers are two tails, a reader
that begins anywhere, and a thread that asks for last stable offsets.  `flush` on standard input
ends the appenders and the producer of orders, `stop` the movers.  The end of standard input ends
the program.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from histories.librdkafka_readers import ask_for_stable, follow, read_again
from histories.librdkafka_writers import Appender, Mover, Orders
from histories.topics import LEVELS, Words

TIMEOUTS_MS = (60_000, 15_000)
"""transaction.timeout.ms of the two writers of each kind."""


def main() -> None:
    """Run the command line."""
    words = Words.read(sys.argv[1:])
    flushed, stopped, ended = threading.Event(), threading.Event(), threading.Event()
    tasks: list[Callable[[], None]] = [Orders(words, flushed).run]
    for number, timeout_ms in enumerate(TIMEOUTS_MS, start=1):
        tasks.append(Appender(words, f"a{number}", timeout_ms, flushed).run)
        tasks.append(Mover(words, f"m{number}", timeout_ms, stopped).run)
    for level in LEVELS:
        tasks.append(lambda level=level: follow(words, level, ended))  # type: ignore[misc]
    tasks.append(lambda: read_again(words, ended))
    tasks.append(lambda: ask_for_stable(words, ended))
    threads = [threading.Thread(target=each, daemon=True) for each in tasks]
    for each in threads:
        each.start()
    events = {"flush": flushed, "stop": stopped}
    for line in sys.stdin:
        events[line.strip()].set()
    for event in (*events.values(), ended):
        event.set()
    for each in threads:
        each.join(10)


if __name__ == "__main__":
    main()
