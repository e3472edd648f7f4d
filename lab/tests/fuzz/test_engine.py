"""The engine: it finds planted bugs of all kinds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest

from tidegate_fuzz.cover import Marks, watch
from tidegate_fuzz.engine import Campaign, Clocks, Tally, minimised
from tidegate_fuzz.mutations import MAX_INPUT_BYTES, mutate, sweep

PLANTED = '''
def look(data):
    """A reader with a bug behind two steps."""
    if data[:1] == b"T":
        if data[1:2] == b"G":
            raise KeyError("found")
        return 1
    for _ in data:
        pass
    return 0
'''


class Planted:
    """A target that a test defines."""

    head_bytes = 0
    fixed_bytes = 1 << 20
    bytes_per_byte = 10
    seconds_per_kib = 0.0

    def __init__(self, module: ModuleType | None = None) -> None:
        self.module = module
        self.runs: list[bytes] = []

    def seeds(self, rng: Random) -> list[bytes]:
        return [b"SGxxxxxx", b"SFyyyyyy"]

    def repair(self, rng: Random, data: bytearray) -> None:
        """Repair nothing: no part of these inputs stops a run early."""

    def run(self, data: bytes) -> None:
        self.runs.append(data)
        if self.module is not None:
            self.module.look(data)


@pytest.fixture
def woven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[ModuleType, Marks]]:
    (tmp_path / "planted_reader.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(str(tmp_path))
    finders = list(sys.meta_path)
    marks = watch(["planted_reader"])
    yield importlib.import_module("planted_reader"), marks
    sys.meta_path[:] = finders
    del sys.modules["planted_reader"]


class Slow(Planted):
    """Takes busy_seconds of CPU and waited_seconds more, on clocks of its own."""

    def __init__(self, busy_seconds: float, waited_seconds: float = 0.0) -> None:
        super().__init__()
        self._took = (busy_seconds, waited_seconds)
        self._cpu = self._elapsed = 0.0

    def run(self, data: bytes) -> None:
        busy_seconds, waited_seconds = self._took
        self._cpu += busy_seconds
        self._elapsed += busy_seconds + waited_seconds

    @property
    def clocks(self) -> Clocks:
        return Clocks(lambda: self._elapsed, lambda: self._cpu)


STANDS_STILL = Clocks(lambda: 0.0, lambda: 0.0)


def campaign(
    target: Planted,
    executions: int,
    marks: Marks | None = None,
    seed: int = 1,
    clocks: Clocks = STANDS_STILL,
) -> Tally:
    made = Campaign(target, marks or Marks(), seed, [], clocks)
    return made.run(lambda number: number < executions)


def test_marks_show_the_branches_that_ran(woven: tuple[ModuleType, Marks]) -> None:
    module, marks = woven
    assert len(marks.places) == 6  # the function, two arms of each "if", the loop
    assert module.look.__doc__ == "A reader with a bug behind two steps."
    assert module.look(b"S") == 0
    assert marks.reached == 3
    assert module.look(b"T") == 1
    assert marks.reached == 5
    assert [line for _, line in marks.not_reached()] == [6]


def test_an_input_that_reaches_new_code_leads_deeper(
    woven: tuple[ModuleType, Marks],
) -> None:
    module, marks = woven
    target = Planted(module)
    tally = campaign(target, 8_000, marks)
    [finding] = tally.findings.values()
    assert finding.signature.startswith("KeyError at planted_reader.py:6")
    assert tally.corpus >= 1
    assert minimised(target, finding).data == b"TG"


def test_memory_is_bounded() -> None:
    class Greedy(Planted):
        def run(self, data: bytes) -> None:
            bytes((2 << 20) + 11 * len(data))

    assert set(campaign(Greedy(), 300).findings) == {"memory"}
    assert campaign(Planted(), 300).findings == {}


@pytest.mark.parametrize(
    ("target", "findings"),
    [(Slow(0.06), {"time"}), (Slow(0.04), set[str]()), (Slow(0.04, waited_seconds=1), set[str]())],
    ids=["too slow", "fast enough", "on a busy machine"],
)
def test_cpu_time_is_bounded(target: Slow, findings: set[str]) -> None:
    assert set(campaign(target, 3, clocks=target.clocks).findings) == findings


def test_a_seed_repeats_and_another_does_not() -> None:
    runs = []
    for seed in (1, 1, 2):
        target = Planted()
        campaign(target, 500, seed=seed)
        runs.append(target.runs)
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def test_mutations_leave_the_head_and_are_bounded() -> None:
    rng = Random(3)
    for _ in range(3000):
        data = bytearray(b"HEAD" + rng.randbytes(rng.choice((0, 1, 50, 60_000))))
        mutate(rng, data, [b"other", b"\0"], 4)
        assert data.startswith(b"HEAD")
        assert len(data) <= MAX_INPUT_BYTES


def test_a_sweep_cuts_at_every_byte() -> None:
    swept = sweep(b"HEADbody", 4)
    assert {b"HEAD", b"HEADb", b"HEADbo", b"HEADbod"} <= set(swept)
    assert b"HEADb\xff\xff\xff\xff" in swept
