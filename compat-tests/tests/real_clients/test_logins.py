"""Each installed client library with each way to log in, for some seconds.

Meanwhile sessions end, and certificates, keys and passwords are replaced.  `run logins` does so for
minutes.
"""

from __future__ import annotations

import pytest
from harness import install
from logins.plan import LIBRARIES, MECHANISMS, MTLS
from logins.programs import COMMANDS
from logins.report import Figures, table
from logins.run import Options, login_run

MINUTES = 0.25
CHANGE_SECONDS = 1.5
RECONNECTS = "aiokafka"
"""Does not log in again on a connection: it makes another one."""


def missing(library: str) -> str:
    """Return why a library cannot be run here; "" if it can."""
    try:
        COMMANDS[library]()
    except install.MissingTool as error:
        return str(error)
    return ""


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    """The figures of all installed libraries, which run at the same time."""
    here = [each for each in LIBRARIES if not missing(each)]
    options = Options(MINUTES, here, rate=10, every_seconds=CHANGE_SECONDS)
    return login_run(options, tmp_path_factory.mktemp("logins"))


@pytest.mark.parametrize("library", LIBRARIES)
def test_nothing_fails_while_sessions_end_and_keys_change(figures: Figures, library: str) -> None:
    if why := missing(library):
        pytest.skip(why)
    pairs = {each.mechanism: each for each in figures.pairs if each.library == library}
    assert set(pairs) == set(MECHANISMS)
    for mechanism, pair in pairs.items():
        assert pair.is_clean, table(figures)
        if mechanism != MTLS:
            assert pair.connections > 0
            assert pair.again > 0 or library == RECONNECTS, table(figures)


def test_no_login_is_refused_and_all_things_changed(figures: Figures) -> None:
    assert figures.is_clean, table(figures)
    assert figures.reloads > 0
    assert set(figures.changes) == {"certificates", "keys", "passwords"}
