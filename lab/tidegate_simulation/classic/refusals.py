"""How a classic broker refuses a batch: Kafka's error code, and the text beside it."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_protocol.error_codes import ErrorCode


class Refused(Exception):
    """A batch or a read that Kafka refuses.  Answer its partition with the code.

    tells_log_start: Kafka names the log start beside most errors, but not beside those it calls
    expected, such as MESSAGE_TOO_LARGE and CORRUPT_MESSAGE.
    bad_records: the places in the batch of the records at fault.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        tells_log_start: bool = True,
        bad_records: Sequence[int] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.tells_log_start = tells_log_start
        self.bad_records = tuple(bad_records)
