"""Each case of cases.py: alerts fire and clear for real, in Prometheus over a real cluster.

PYTHONPATH=compat-tests .venv/bin/python compat-tests/monitoring/fire.py [--only CASE]
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from harness.install import MissingTool

from monitoring.cases import CASES
from monitoring.firing import NoFileSystem


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description="alerts that fire and clear for real")
    parser.add_argument("--only", choices=CASES, help="one of the cases")
    only = parser.parse_args().only
    failed = 0
    for name in [only] if only else CASES:
        began = time.monotonic()
        try:
            CASES[name]()
        except (MissingTool, NoFileSystem) as error:
            print(f"{name} is skipped: {error}", flush=True)
        except AssertionError as error:
            failed += 1
            print(f"{name} FAILED: {error}", flush=True)
        else:
            print(f"{name}: fired and cleared in {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
