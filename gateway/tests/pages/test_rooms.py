"""The picture of rooms: floors follow imports, and sentences come from the rooms' modules."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT: Any = runpy.run_path(str(Path(__file__).parents[3] / ".ci" / "rooms.py"))
EMPTY = "Before.\n\n<!-- begin rooms -->\n<!-- end rooms -->\n\nAfter.\n"
DRAWN = """\
Before.

<!-- begin rooms -->

```text
+----------------------------------------------------------------+
|                        tidegate_gateway                        |
+----------------------------------------------------------------+
|       tidegate_protocol       |        tidegate_runtime        |
+----------------------------------------------------------------+
```

### gateway/tidegate_gateway

The server.

```text
 3  cli      Commands of
             two lines.
 2  fetch    Reads.
    produce  Writes.
 1  network  Sockets.
```

### protocol/tidegate_protocol

Bytes.

### runtime/tidegate_runtime

Plumbing.

<!-- end rooms -->

After.
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    gateway = "gateway/tidegate_gateway"
    files = {
        "docs/rooms.md": EMPTY,
        f"{gateway}/__init__.py": '"""The server.  It waits."""',
        f"{gateway}/app.py": "import tidegate_gateway.produce.writer\n",
        f"{gateway}/cli/__init__.py": '"""Commands of\ntwo lines.\n"""',
        f"{gateway}/cli/start.py": "def start():\n    from ..app import run\n",
        f"{gateway}/fetch/__init__.py": '"""Reads."""\nfrom ..network import sockets',
        f"{gateway}/network/__init__.py": '"""Sockets."""',
        f"{gateway}/network/sockets.py": "from tidegate_runtime import http",
        f"{gateway}/produce/__init__.py": '"""Writes."""',
        f"{gateway}/produce/writer.py": "from ..network.sockets import x\nfrom . import other",
        "protocol/tidegate_protocol/__init__.py": '"""Bytes."""',
        "runtime/tidegate_runtime/__init__.py": '"""Plumbing."""',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_room_stands_above_those_that_it_imports(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SCRIPT["main"].__globals__, "COLUMNS", 27)
    assert SCRIPT["main"]([], tree) == 0
    assert (tree / "docs" / "rooms.md").read_text() == DRAWN


def test_an_old_picture_is_found(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert SCRIPT["main"](["--check"], tree) == 1
    assert capsys.readouterr().err == "docs/rooms.md is old: run .venv/bin/python .ci/rooms.py\n"
    assert (tree / "docs" / "rooms.md").read_text() == EMPTY
    SCRIPT["main"]([], tree)
    assert SCRIPT["main"](["--check"], tree) == 0


def test_a_circle_is_named() -> None:
    with pytest.raises(AssertionError, match=r"circle.*\['a', 'b'\]"):
        SCRIPT["floors"]({"a": {"b"}, "b": {"a", "c"}, "c": set()})
