"""The process of a gateway for tests: `python -m tidegate_gateway.testing.child`.

Standard input is one line: the settings as a JSON list of "name=value".  The process stops when
standard input ends.  Once it serves, it prints one line of JSON, as `tidegate serve --json` does.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

MAX_OUTPUT_BYTES: Final = 1 << 20
LOG_LEVEL: Final = "warning"


class ShortFile(io.FileIO):
    """A file for appending that is emptied before a write if it is longer than MAX_OUTPUT_BYTES."""

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        if os.fstat(self.fileno()).st_size > MAX_OUTPUT_BYTES:
            os.ftruncate(self.fileno(), 0)
        return super().write(data)


def main() -> int:
    """Run the gateway; return the exit code."""
    assignments: list[str] = json.loads(sys.stdin.buffer.readline())
    sys.stderr = io.TextIOWrapper(ShortFile(2, "w", closefd=False), write_through=True)
    # Loading modules leaves no garbage, and the garbage collector would take a tenth of the start.
    gc.disable()
    from ..cli.banner import banner_json
    from ..cli.dev.command import DevOptions
    from ..cli.end_of_input import stop_at_end_of_input
    from ..cli.running import run_to_end
    from ..settings.settings_sources import gather

    gc.enable()
    stop_at_end_of_input()
    options = DevOptions(0, "127.0.0.1", 0, Path(), object_store=None, log=None, memory=True)
    defaults = options.texts() | {"admin.listener": ""}
    return run_to_end(
        lambda: gather(defaults=defaults, environ={}, assignments=assignments),
        options.data_folder,
        lambda running: print(banner_json(running), flush=True),
        log_level=LOG_LEVEL,
    )


if __name__ == "__main__":
    sys.exit(main())
