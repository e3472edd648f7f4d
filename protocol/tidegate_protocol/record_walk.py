"""The one walk over the records of a batch.  Pure; Cython compiles this file (record_walk.pxd).

    length | attributes 1 | timestamp delta | offset delta | key length | key | value length | value
    header count | (key length | key | value length | value)...

For a gateway, the pipeline and links, a batch is malformed exactly if the walk says so.  The walk
skips keys, values and header values, but each must lie within its record.  It notes what Kafka's
LogValidator computes: the largest time stamp, the oldest one, records without a key, numbering.

Records come in pieces, as a codec decompresses them, and may be longer than a piece:

    walk = RecordWalk(count, base_timestamp)
    for piece in pieces:
        walk.feed(piece)
    walk.finish()

feed() walks whole records in one loop (``_whole``).  A record that passes the end of a piece is
walked field by field (``_fields``), so memory does not depend on what a length claims.

Lengths, offset deltas and the number of headers have 32 bits, in at most 5 bytes.  A time stamp
delta has 64 bits, in at most 10 bytes, and so has its sum with the base.  Kafka's reader
(ByteUtils.readVarint) drops the bits of a fifth byte beyond 32; no client writes them, and the walk
refuses them.  So no number overflows, and the compiled file gives the same results as the Python
file, in about a hundredth of the time.
"""

from __future__ import annotations

from .errors import InvalidBatch, InvalidReason
from .primitives import Buffer

# The longest varint is a time stamp delta.
_LONGEST = 10
_MAX_INT64 = 9223372036854775807
# Sums of smaller numbers stay within 64 bits.
_FAR = 2305843009213693952
_MAX_UINT32 = 4294967295
_NO_TIMESTAMP = -1

NEVER = 9223372036854775807
"""Later than any record's time stamp."""

# The next field of a record that passes the end of a piece.
_LENGTH = 0
_TIME = 1
_OFFSET = 2
_KEY = 3
_VALUE = 4
_COUNT = 5
_HEADER_KEY = 6
_HEADER_VALUE = 7
_RECORD_END = 8

_NULL = 1  # -1, zigzag
# Shifts of the last bytes of the longest varints.
_LAST_OF_32 = 28
_LAST_OF_64 = 63
_NOTHING = b""


class RecordWalk:
    """See the module's head.

    Args:
      count: records that the header promises.
      base_timestamp: the header's, in ms.
      above: only time stamps above this one, in ms, may be the largest or the first.
      least_delta: these two may only be of records with this offset delta or a larger one.

    Attributes:
      size_bytes: the size of the data so far.
      walked: the number of whole records so far.
      max_timestamp: the largest time stamp in ms; `above` if no record has one above.
      max_index: the first record that has it.
      max_delta: its offset delta.
      first_timestamp, first_delta: those of the first record later than `above`; -1 if none is.
      oldest: the smallest time stamp in ms of the records with a time stamp; NEVER if none has one.
      keyless: the number of records without a key.
      next_offset: twice the least offset delta of the next record; the deltas must rise, so if
      next_offset is twice the number of records, they are 0, 1, 2 and so on.
    """

    def __init__(
        self, count: int, base_timestamp: int, above: int = _NO_TIMESTAMP, least_delta: int = 0
    ) -> None:
        self.count = count
        self.base_timestamp = base_timestamp
        self.size_bytes = 0
        self.walked = 0
        self.max_timestamp = above
        self.max_index = -1
        self.max_delta = -1
        self.first_timestamp = -1
        self.first_delta = -1
        self._least_offset = 2 * least_delta  # zigzag
        self.oldest = NEVER
        self.keyless = 0
        self.next_offset = 0
        # State of the record under way: its next field; its bytes not yet walked; of these the
        # bytes of a key or value to skip; its headers.
        self._field = _LENGTH
        self._left = 0
        self._skip = 0
        self._headers = 0
        self._time = 0
        self._carry = b""
        self._data: Buffer = _NOTHING
        self._value = 0

    def feed(self, data: Buffer) -> None:
        """Walk over the next bytes.

        Raises:
          InvalidBatch: the records are malformed (INVALID_RECORD).
        """
        self.size_bytes += len(data)
        if self._carry:
            data = self._carry + bytes(data)  # the beginning of a number comes before these bytes
            self._carry = b""
        self._data = data
        position, size = 0, len(data)
        try:
            while position < size:
                if self._field == _LENGTH:
                    position = self._whole(position, size)
                before = position
                position = self._fields(position, size)
                if position == before:
                    break
        except IndexError:
            raise _malformed(self.walked, "has fields that pass its end") from None
        if position < size:
            self._carry = bytes(data[position:])

    def finish(self) -> None:
        """Check that the last record has ended.

        Raises:
          InvalidBatch: the last record has not ended, or there are fewer records than the header
              says (INVALID_RECORD).
        """
        if self._field != _LENGTH or self._carry:
            raise _malformed(self.walked, "passes the end of the batch")
        if self.walked != self.count:
            text = f"the batch has {self.walked} records, its header says {self.count}"
            raise InvalidBatch(InvalidReason.INVALID_RECORD, text)

    def _whole(self, position: int, size: int) -> int:  # noqa: C901, PLR0915
        """Walk over all records that end in the data; return where the next one begins.

        The loop runs once for each record, so it calls no function for a step, and reads numbers of
        one and two bytes itself.  The position only rises.  So if any field passes the record's end
        or the data, the position ends beyond the record's end, or the read raises IndexError.
        """
        data = self._data
        count, base, index = self.count, self.base_timestamp, self.walked
        newest, oldest = self.max_timestamp, self.oldest
        next_offset = self.next_offset
        is_far = not -_FAR < base < _FAR
        while size - position >= _LONGEST:
            at = position + 1
            length = data[position]
            if length > 127:
                length = length & 127 | data[at] << 7
                at += 1
                if length > 16383:
                    at = self._number(position, _LAST_OF_32)
                    length = self._value
            if length & 1 or length > _MAX_UINT32:
                raise _malformed(index, "has a negative length, or one of more than 32 bits")
            end = at + (length >> 1)
            if end > size:
                break
            if index >= count:
                raise self._too_many()
            delta = data[at + 1]
            at += 2
            if delta > 127:
                delta = delta & 127 | data[at] << 7
                at += 1
                if delta > 16383:
                    at = self._number(at - 2, _LAST_OF_64)
                    delta = self._value
            offset = data[at]
            at += 1
            if offset > 127:
                offset = offset & 127 | data[at] << 7
                at += 1
                if offset > 16383:
                    at = self._number(at - 2, _LAST_OF_32)
                    offset = self._value
            key = data[at]
            at += 1
            if key > 127:
                at = self._number(at - 1, _LAST_OF_32)
                key = self._value
            if key == _NULL:
                self.keyless += 1
            elif key & 1 or key > length:
                raise _malformed(index, "has a key of a wrong size")
            else:
                at += key >> 1
            value = data[at]
            at += 1
            if value > 127:
                value = value & 127 | data[at] << 7
                at += 1
                if value > 16383:
                    at = self._number(at - 2, _LAST_OF_32)
                    value = self._value
            if value != _NULL:
                if value & 1 or value > length:
                    raise _malformed(index, "has a value of a wrong size")
                at += value >> 1
            at += 1
            if data[at - 1]:
                at = self._whole_headers(at - 1, end)
            if at != end:
                raise _malformed(index, "does not end where its length says")
            if is_far or delta > _FAR:
                timestamp = self._far_time(delta)
            else:
                timestamp = base + ((delta >> 1) ^ -(delta & 1))
            if timestamp > newest and offset >= self._least_offset:
                newest = timestamp
                self.max_index = index
                self.max_delta = offset >> 1
                if self.first_delta < 0:
                    self.first_delta = offset >> 1
                    self.first_timestamp = timestamp
            if timestamp < oldest and timestamp != _NO_TIMESTAMP:
                oldest = timestamp
            if offset & 1 or offset > _MAX_UINT32 or offset < next_offset:
                raise _malformed(index, "has an offset delta that does not rise")
            next_offset = offset + 2
            index += 1
            self.walked = index
            position = end
        self.max_timestamp = newest
        self.oldest = oldest
        self.next_offset = next_offset
        return position

    def _whole_headers(self, at: int, end: int) -> int:
        """Walk over the headers of a record that ends at end; return the position after them."""
        at = self._number(at, _LAST_OF_32)
        left = self._value
        if left & 1 or left > _MAX_UINT32 or left >> 1 > max(end - at, 0):
            raise _malformed(self.walked, "has a wrong number of headers")
        left >>= 1
        while left > 0:
            left -= 1
            size = self._data[at]
            at += 1
            if size > 127:
                at = self._number(at - 1, _LAST_OF_32)
                size = self._value
            if size & 1 or size > _MAX_UINT32:
                raise _malformed(
                    self.walked, "has a header without a key, or a key of a wrong size"
                )
            at += size >> 1
            size = self._data[at]
            at += 1
            if size > 127:
                at = self._number(at - 1, _LAST_OF_32)
                size = self._value
            if size != _NULL:
                if size & 1 or size > _MAX_UINT32:
                    raise _malformed(self.walked, "has a header value of a wrong size")
                at += size >> 1
        return at

    def _number(self, at: int, last: int) -> int:
        """Put the varint at a position into _value, without zigzag; return where it ends.

        last: shift of its last byte.  Java's clients read lengths and offsets of at most 5 bytes. A
        value of more than 32 bits passes the end of its record, or is refused.
        """
        value = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            if shift == last and byte > (1 if last == _LAST_OF_64 else 127):
                raise _malformed(self.walked, "has a number of too many bytes")
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
        self._value = value
        return at

    def _fields(self, position: int, size: int) -> int:
        """Walk over fields of a record that passes the end of the data, until either ends.

        Returns the position, which is before the end of the data if a number is cut off there.
        """
        while position < size:
            if self._skip:
                step = min(self._skip, size - position)
                self._skip -= step
                position += step
            elif self._ends_within(position, size):
                is_time = self._field == _TIME
                end = self._number(position, _LAST_OF_64 if is_time else _LAST_OF_32)
                if self._field != _LENGTH:
                    self._take(end - position)
                position = end
                self._next_field(self._value)
            else:
                return position
            if self._field == _RECORD_END and self._skip == 0:
                self._end_record()
                return position
        return position

    def _ends_within(self, position: int, size: int) -> bool:
        """Return whether the number at a position ends before size, or is too long."""
        if size - position >= _LONGEST:
            return True
        while position < size:
            if self._data[position] < 128:
                return True
            position += 1
        return False

    def _take(self, size: int) -> None:
        """Count walked bytes of the record."""
        if size > self._left:
            raise _malformed(self.walked, "has fields that pass its end")
        self._left -= size

    def _jump(self, value: int) -> None:
        """Skip a key or value; value: its size, zigzag; null has none."""
        if value != _NULL:
            if value & 1:
                raise _malformed(self.walked, "has a key or value of a wrong size")
            self._take(value >> 1)
            self._skip = value >> 1

    def _next_field(self, value: int) -> None:
        """Handle the zigzag number of the present field, and begin the next field."""
        field = self._field
        if field == _LENGTH:
            self._begin_record(value)
        elif field == _TIME:
            self._note_time(value)
            self._field = _OFFSET
        elif field == _OFFSET:
            self._note_offset(value)
            self._field = _KEY
        elif field == _KEY:
            if value == _NULL:
                self.keyless += 1
            self._jump(value)
            self._field = _VALUE
        elif field == _VALUE:
            self._jump(value)
            self._field = _COUNT
        else:
            self._next_header_field(field, value)

    def _begin_record(self, value: int) -> None:
        if value & 1 or value > _MAX_UINT32:
            text = "has a negative length, or one of more than 32 bits"
            raise _malformed(self.walked, text)
        if self.walked >= self.count:
            raise self._too_many()
        self._left = value >> 1
        self._take(1)
        self._skip = 1  # the attributes, which are unused
        self._field = _TIME

    def _next_header_field(self, field: int, value: int) -> None:
        if field == _COUNT:
            self._headers = value >> 1
            if value & 1 or self._headers > self._left:
                raise _malformed(self.walked, "has a wrong number of headers")
        elif field == _HEADER_KEY:
            if value & 1:
                raise _malformed(self.walked, "has a header without a key")
            self._headers -= 1
            self._jump(value)
        else:
            self._jump(value)
        if field == _HEADER_KEY:
            self._field = _HEADER_VALUE
        else:
            self._field = _HEADER_KEY if self._headers else _RECORD_END

    def _end_record(self) -> None:
        if self._left:
            raise _malformed(self.walked, "does not end where its length says")
        self._field = _LENGTH
        self.walked += 1

    def _too_many(self) -> InvalidBatch:
        text = f"bytes follow the last of {self.count} records"
        return InvalidBatch(InvalidReason.INVALID_RECORD, text)

    def _note_time(self, delta: int) -> None:
        """Note a record's time stamp; delta: zigzag."""
        timestamp = self._far_time(delta)
        self._time = timestamp
        if timestamp < self.oldest and timestamp != _NO_TIMESTAMP:
            self.oldest = timestamp

    def _far_time(self, delta: int) -> int:
        """Return a record's time stamp; delta: zigzag, any number of 64 bits."""
        half = delta >> 1
        base = self.base_timestamp
        if delta & 1:
            if base < -_MAX_INT64 + half:
                raise _malformed(self.walked, "has a time stamp of more than 64 bits")
            return base - half - 1
        if base > _MAX_INT64 - half:
            raise _malformed(self.walked, "has a time stamp of more than 64 bits")
        return base + half

    def _note_offset(self, offset: int) -> None:
        """Note a record's offset delta, zigzag, and its time stamp as the largest one."""
        if offset & 1 or offset > _MAX_UINT32 or offset < self.next_offset:
            raise _malformed(self.walked, "has an offset delta that does not rise")
        self.next_offset = offset + 2
        if self._time > self.max_timestamp and offset >= self._least_offset:
            self.max_timestamp = self._time
            self.max_index = self.walked
            self.max_delta = offset >> 1
            if self.first_delta < 0:
                self.first_delta = offset >> 1
                self.first_timestamp = self._time


def _malformed(index: int, text: str) -> InvalidBatch:
    return InvalidBatch(InvalidReason.INVALID_RECORD, f"record {index} {text}")


IS_COMPILED = not __file__.endswith(".py")
"""Whether this is the compiled form."""
