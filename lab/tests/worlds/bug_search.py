"""How this session searches for planted bugs: conftest.py sets it from --planted-bugs.

A module of its own, since conftest.py is imported for tests that need no simulator.
"""

from __future__ import annotations

from typing import Final

WAYS: Final = ("recorded", "wide", "record")
way = "recorded"
