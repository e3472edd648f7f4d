"""Errors that end a run on Spark; in a separate module, since callers may lack PySpark."""

from __future__ import annotations


class NoSpark(Exception):
    """Spark has never started in this process.  The text says why."""


class AttemptsUsedUp(Exception):
    """This incarnation has no attempt numbers left; those of the next one start at 0."""
