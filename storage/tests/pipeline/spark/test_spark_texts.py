"""The sentences for errors of Spark.  The texts are Spark's own, cut, of 4.3.0."""

from __future__ import annotations

import sys

import pytest

from tidegate_pipeline.runners.spark_texts import java_note, lost_task_text, noted_text

HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
PYTHON = "/theirs/python"
ADVICE = (
    f": set PYSPARK_PYTHON to a Python {HERE} that has Tidegate's extra pipeline, at the same path"
    " on every machine of Spark"
)
LOST = """An error occurred while calling o57.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:70)
Caused by: org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 0.0 \
failed 1 times, most recent failure: Lost task 0.0 in stage 0.0 (TID 0) (192.0.2.2 executor \
driver): """
WORKER = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "pyspark/worker.py", line 4174, in invoke_udf
"""


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            f'{LOST}java.io.IOException: Cannot run program "{PYTHON}": error=2, No such file\n',
            f"a machine of Spark cannot run {PYTHON}{ADVICE}",
        ),
        (
            f"{WORKER}pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH]"
            " Python in worker has different version: 3.12 than that in driver: 3.11, PySpark"
            " cannot run with different minor versions.\nPlease check environment variables"
            " PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are correctly set.",
            f"{PYTHON} on a machine of Spark is Python 3.12, this one is 3.11{ADVICE}",
        ),
        (
            f"{WORKER}ModuleNotFoundError: No module named 'tidegate_pipeline'",
            f"{PYTHON} on a machine of Spark has no module tidegate_pipeline{ADVICE}",
        ),
        (
            f"{WORKER}ModuleNotFoundError: No module named 'another'",
            "ModuleNotFoundError: No module named 'another'",
        ),
        (
            f"{LOST}ExecutorLostFailure: it is gone\n\nDriver stacktrace:",
            "ExecutorLostFailure: it is gone",
        ),
        ("the JVM is gone", "RuntimeError: the JVM is gone"),
    ],
)
def test_a_lost_task_is_told_in_one_sentence(error: str, told: str) -> None:
    assert lost_task_text(RuntimeError(error), PYTHON) == told


def test_notes_follow_the_first_line_of_an_error() -> None:
    error = RuntimeError("it does not start\nmore")
    assert noted_text(error) == "RuntimeError: it does not start"
    error.add_note(java_note(["one", "two"]))
    assert noted_text(error) == (
        "RuntimeError: it does not start\nthe last lines of Java:\n  one\n  two"
    )
