"""python -m tidegate_simulation: the same as `tidegate simulate`."""

from __future__ import annotations

from .command import app

if __name__ == "__main__":
    app(prog_name="tidegate simulate")
