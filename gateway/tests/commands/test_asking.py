"""Commands that change something ask first.  With --json they cannot ask."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidegate_gateway.cli.asking import agreed
from tidegate_gateway.cli.command import app


@pytest.mark.parametrize(
    "words",
    [
        ("link", "acls", "old"),
        ("link", "quotas", "old"),
        ("link", "users", "old", "--generate", "f"),
        ("link", "switch", "old", "t"),
        ("link", "rollback", "old", "t"),
        ("link", "finish", "old"),
        ("link", "remove", "old"),
        ("topic", "repair", "t", "--skip"),
        ("transaction", "abort", "x"),
        ("user", "forget-sealed", "--all"),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_json_needs_an_answer_beforehand(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("existing_cluster", "topic.repair"):
        name = f"tidegate_gateway.cli.{module}.configure_logs"
        monkeypatch.setattr(name, lambda _: None)
    data = ("--data", str(tmp_path))
    refused = CliRunner().invoke(app, [*words, *data, "--json"])
    assert "--json cannot ask for a confirmation: give --yes" in refused.stderr
    assert (refused.exit_code, refused.stdout) == (2, "")
    # With --yes it fails in another way, since there is no cluster to change.
    other = CliRunner().invoke(app, [*words, *data, "--json", "--yes"])
    assert "--json" not in other.stderr
    assert other.exit_code == 2


async def test_without_a_terminal_nobody_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    assert not await agreed("Really?", yes=False)
    assert capsys.readouterr().err == "Really? There is no terminal to answer at: give --yes.\n"
    assert await agreed("Really?", yes=True)
    assert capsys.readouterr().err == ""
