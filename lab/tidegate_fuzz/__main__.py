"""python -m tidegate_fuzz TARGET [--executions N | --seconds S] [--seed X] [--corpus DIR]

TARGET is a name in campaigns.py, or "all" (all targets without connection).
"""

from __future__ import annotations

import sys

from .command import main

sys.exit(main())
