"""The way in which a pytest session searches for planted bugs; conftest.py sets it.

conftest.py reads it from --planted-bugs.  It has a module of its own, because conftest.py is also
imported for tests that need no simulator.
"""

from __future__ import annotations

from typing import Final

WAYS: Final = ("recorded", "wide", "record")
way = "recorded"
