"""With glibc, memory that a task frees stays in the process for the next task."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

PROGRAM = """
import resource
from tidegate_pipeline.tasks.memory import keep_memory
if %r:
    assert keep_memory()
def task():
    held = [bytearray(1 << 20) for _ in range(100)]
    for each in held:
        each[::4096] = bytes(len(each) // 4096)
task()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
task()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(is_kept: bool) -> int:
    command = [sys.executable, "-c", PROGRAM % is_kept]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return int(done.stdout)


@pytest.mark.skipif("glibc" not in str(os.confstr("CS_GNU_LIBC_VERSION")), reason="not glibc")
def test_a_second_task_finds_the_memory_of_the_first() -> None:
    pages = 100 * (1 << 20) // resource.getpagesize()
    assert faults(is_kept=False) > pages / 2
    assert faults(is_kept=True) < pages / 10
