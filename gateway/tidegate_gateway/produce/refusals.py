"""The refusal of a produced batch."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_protocol.error_codes import ErrorCode

MAX_RECORD_ERRORS = 100


class BatchRefused(Exception):
    """A batch must not be stored.  Only its partition gets the error.

    record_errors: (index in the batch, text), at most MAX_RECORD_ERRORS of them (KIP-467).
    """

    def __init__(
        self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(message)
        self.code = code
        self.record_errors = record_errors[:MAX_RECORD_ERRORS]
