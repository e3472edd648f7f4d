"""A log of another package: it is found by its entry point, opened, verified and served."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.test_cli_log_serve import promises
from tests.process.app.test_app_forwarding import PEER, SHARED
from tests.worlds.app_world import serving, tidegate
from tests.worlds.greetings import produce
from tidegate_coordination.log.load import known_schemes, open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured
from tidegate_coordination.log_contract.contract import verify_log

SOURCE = Path(__file__).parents[3] / "coordination" / "tests" / "worlds" / "stranger_log.py"

# A variant of the log that keeps its entries in a file, one on each line.
KEPT = """

from pathlib import Path

class Kept(Notebook):
    async def append(self, position, payload):
        result = await super().append(position, payload)
        if result is AppendResult.APPENDED:
            with Path("kept").open("a") as file:
                file.write(f"{position} {payload.hex()}\\n")
        return result

async def open_kept(url):
    await trio.lowlevel.checkpoint()
    log = Kept()
    if Path("kept").exists():
        for line in Path("kept").read_text().splitlines():
            position, payload = line.split()
            log.pages[int(position)] = bytes.fromhex(payload)
        log.end = max(log.pages) + 1
    return log
"""


def install(folder: Path, package: str, *entry_points: str) -> None:
    """Write the files that pip installs: a module, and a folder that names its entry points."""
    folder.mkdir(exist_ok=True)
    shutil.copy(SOURCE, folder / f"{package}.py")
    told = folder / f"{package}-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(("[tidegate.metadata_logs]", *entry_points))
    (told / "entry_points.txt").write_text(f"{lines}\n")


async def test_the_log_of_a_plug_in_is_found_and_keeps_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "site", "stranger_one", "notebook = stranger_one:open_log")
    monkeypatch.syspath_prepend(tmp_path / "site")
    assert "notebook" in known_schemes()
    told: list[tuple[str, bool, str]] = []
    assert await verify_log(lambda: open_log("notebook:a"), lambda *row: told.append(row)), told


def test_commands_take_it_as_any_other(tmp_path: Path) -> None:
    install(tmp_path / "site", "stranger_two", "notebook = stranger_two:open_log")
    path = str(tmp_path / "site")
    done = tidegate("log", "verify", "notebook:a", "--json", cwd=tmp_path, PYTHONPATH=path)
    assert promises(done.stdout) == []
    serve = ("log", "serve", "notebook:a", "--listen", "127.0.0.1:0")
    with serving(*serve, cwd=tmp_path, PYTHONPATH=path) as process:
        done = tidegate("log", "verify", process.said["url"], "--json", cwd=tmp_path)
    assert promises(done.stdout) == []


def test_a_gateway_runs_on_it(tmp_path: Path) -> None:
    install(tmp_path / "site", "stranger_three", "notebook = stranger_three:open_log")
    dev = ("dev", "--port", "0", "--admin-port", "0", "--log", "notebook:a")
    with serving(*dev, cwd=tmp_path, PYTHONPATH=str(tmp_path / "site")) as process:
        assert process.get("/readyz")[0] == 200


def overwrite(module: Path) -> None:
    """Remove the compare-and-set from a log's code."""
    check = "        if position in self.pages:\n            return AppendResult.CONFLICT\n"
    assert check in module.read_text()
    module.write_text(module.read_text().replace(check, ""))


def test_a_gateway_starts_on_no_log_that_overwrites(tmp_path: Path) -> None:
    install(tmp_path / "site", "stranger_five", "notebook = stranger_five:open_log")
    overwrite(tmp_path / "site" / "stranger_five.py")
    done = tidegate(
        *("dev", "--port", "0", "--admin-port", "0", "--log", "notebook:a"),
        cwd=tmp_path,
        PYTHONPATH=str(tmp_path / "site"),
    )
    assert done.returncode == 1
    assert "accepted a second entry at position" in done.stderr
    assert "tidegate log verify" in done.stderr


def test_nothing_is_written_into_a_log_that_overwrites_others_entries(tmp_path: Path) -> None:
    install(tmp_path / "site", "stranger_six", "notebook = stranger_six:open_kept")
    module = tmp_path / "site" / "stranger_six.py"
    module.write_text(module.read_text() + KEPT)
    dev = ("dev", "--port", "0", "--admin-port", "0", "--log", "notebook:a")
    path = str(tmp_path / "site")
    with serving(*dev, cwd=tmp_path, PYTHONPATH=path) as process:
        process.popen.kill()
    overwrite(module)
    before = (tmp_path / "kept").read_text()
    assert before
    done = tidegate(*dev, cwd=tmp_path, PYTHONPATH=path)
    assert done.returncode == 1
    assert "accepted a second entry at position" in done.stderr
    lines = (tmp_path / "kept").read_text().removeprefix(before).splitlines()
    # The start appends the newest entry again, unchanged, to test the log.  It appends nothing
    # else.
    assert lines == before.splitlines()[-1:]


@pytest.mark.parametrize(
    ("entry_points", "words"),
    [
        (("torn = none_such:open_log",), r"'torn' \(none_such:open_log\) cannot be imported"),
        (("torn = stranger_four:no_such",), "cannot be imported"),
        (("sqlite = stranger_four:open_log",), "two packages bring a metadata log 'sqlite'"),
    ],
)
async def test_a_plug_in_that_cannot_be_imported_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry_points: tuple[str, ...], words: str
) -> None:
    install(tmp_path / "site", "stranger_four", *entry_points)
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(LogMisconfigured, match=words):
        await open_log(f"{entry_points[0].partition(' ')[0]}:{tmp_path}/x")


HOOKS = """
from pathlib import Path

def wait(leads):
    raise RuntimeError("of no use")

def write(leads):
    Path("leads").write_text(str(leads))
"""


def offer_hooks(folder: Path, package: str, *entry_points: str) -> None:
    install(folder, package)
    (folder / f"{package}.py").write_text(HOOKS)
    lines = "\n".join(("[tidegate.leadership_hooks]", *entry_points))
    (folder / f"{package}-1.0.dist-info" / "entry_points.txt").write_text(f"{lines}\n")


def test_the_hooks_of_a_plug_in_learn_the_leader(tmp_path: Path) -> None:
    """A hook that fails does not keep the other hooks from their calls."""
    site = tmp_path / "site"
    offer_hooks(site, "stranger_seven", "a = stranger_seven:wait", "b = stranger_seven:write")
    gateway = (*SHARED, *PEER, "--set", "metadata.log=sqlite:metadata.db")
    with serving(*gateway, cwd=tmp_path, PYTHONPATH=str(site)) as process:
        produce(process.servers, "a")
        assert (tmp_path / "leads").read_text() == "True"


def test_a_hook_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    site = tmp_path / "site"
    offer_hooks(site, "stranger_eight", "a = stranger_eight:nothing")
    dev = ("dev", "--port", "0", "--admin-port", "0")
    done = tidegate(*dev, cwd=tmp_path, PYTHONPATH=str(site))
    assert done.returncode == 1
    assert "the leadership hook 'a' (stranger_eight:nothing) cannot be imported" in done.stderr
