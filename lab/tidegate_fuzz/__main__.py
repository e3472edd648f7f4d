"""python -m tidegate_fuzz TARGET [--executions N | --seconds S] [--seed X] [--corpus DIR]

TARGET is one of those of campaigns.py, or "all" (but for connection).
"""

from __future__ import annotations

import sys

from .command import main

sys.exit(main())
