# Types for the compiled form of record_walk.py, which says what all of it means.

cimport cython

ctypedef unsigned long long number
ctypedef long long signed_number
ctypedef const unsigned char[::1] octets

cdef Py_ssize_t _LONGEST
cdef signed_number _MAX_INT64
cdef number _MAX_UINT32
cdef signed_number _FAR
cdef signed_number _NO_TIMESTAMP
cdef int _LENGTH
cdef int _TIME
cdef int _OFFSET
cdef int _KEY
cdef int _VALUE
cdef int _COUNT
cdef int _HEADER_KEY
cdef int _HEADER_VALUE
cdef int _RECORD_END
cdef number _NULL
cdef int _LAST_OF_32
cdef int _LAST_OF_64


@cython.final
cdef class RecordWalk:
    cdef readonly signed_number count
    cdef readonly signed_number base_timestamp
    cdef readonly signed_number size_bytes
    cdef readonly signed_number walked
    cdef readonly signed_number max_timestamp
    cdef readonly signed_number max_index
    cdef readonly signed_number max_delta
    cdef readonly signed_number first_timestamp
    cdef readonly signed_number first_delta
    cdef readonly signed_number oldest
    cdef readonly signed_number keyless
    cdef readonly number next_offset
    cdef int _field
    cdef number _left
    cdef Py_ssize_t _skip
    cdef number _headers
    cdef number _least_offset
    cdef signed_number _time
    cdef bytes _carry

    cdef octets _data
    cdef number _value

    @cython.locals(size=Py_ssize_t, position=Py_ssize_t, before=Py_ssize_t)
    cpdef feed(self, octets data)
    cpdef finish(self)
    @cython.locals(
        data=octets, count=signed_number, base=signed_number, index=signed_number,
        newest=signed_number, oldest=signed_number, next_offset=number, is_far=bint, at=Py_ssize_t,
        end=Py_ssize_t, length=number, delta=number, offset=number, key=number, value=number,
        timestamp=signed_number)
    cdef Py_ssize_t _whole(self, Py_ssize_t position, Py_ssize_t size) except -1
    @cython.locals(left=number, size=number)
    cdef Py_ssize_t _whole_headers(self, Py_ssize_t at, Py_ssize_t end) except -1
    @cython.locals(value=number, byte=number, shift=int)
    cdef inline Py_ssize_t _number(self, Py_ssize_t at, int last) except -1
    @cython.locals(step=Py_ssize_t, end=Py_ssize_t, is_time=bint)
    cdef Py_ssize_t _fields(self, Py_ssize_t position, Py_ssize_t size) except -1
    cdef bint _ends_within(self, Py_ssize_t position, Py_ssize_t size) except -1
    cdef int _take(self, number size) except -1
    cdef int _jump(self, number value) except -1
    cdef int _next_field(self, number value) except -1
    cdef int _begin_record(self, number value) except -1
    cdef int _next_header_field(self, int field, number value) except -1
    cdef int _end_record(self) except -1
    @cython.locals(timestamp=signed_number)
    cdef int _note_time(self, number delta) except -1
    @cython.locals(half=signed_number, base=signed_number)
    cdef signed_number _far_time(self, number delta) except *
    cdef int _note_offset(self, number offset) except -1
