"""What ends a run on Spark; here, since who must tell them apart may not have Spark."""

from __future__ import annotations


class NoSpark(Exception):
    """Spark does not start here: it never did.  The text says why."""


class AttemptsUsedUp(Exception):
    """No numbers are left for attempts of this driver's life; those of the next begin anew."""
