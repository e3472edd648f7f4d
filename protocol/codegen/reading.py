"""Emits the function that reads one struct in one regime.

In a request every struct that holds an array has a second reader, which is a generator: it yields
the number of an array's elements before it reads them, and 0 after each element.

Every field begins with bytes of a fixed size: the field itself, or its length.  So a run of fixed
fields together with the length of what follows is one Struct call; a varint counts as one byte, and
the rare longer one is read by a helper.
"""

from __future__ import annotations

from itertools import groupby
from struct import calcsize

from .schema import FIXED, Field
from .text import (
    Lines,
    Regime,
    default_literal,
    function_name,
    local,
    smallest,
    smallest_value,
    struct_name,
    type_name,
)


def emit_reader(
    name: str, fields: list[Field], regime: Regime, *, request: bool, turns: bool = False
) -> list[str]:
    """Return the lines of ``_read_<name>_<regime>(data, position, version)``; see holds_arrays.

    Args:
      turns: the generator.
    """
    reader = _Reader(regime, request, turns)
    reader.untagged([each for each in fields if each.tag is None])
    if regime.flexible:
        reader.tagged([each for each in fields if each.tag is not None])
    reader.flush()
    arguments = (_argument(each, regime) for each in fields)
    result = f"tuple[{name}, int]"
    return [
        f"def {function_name('read_turns' if turns else 'read', name, regime)}(",
        "    data: memoryview, position: int, version: int",
        f") -> {f'Generator[int, None, {result}]' if turns else result}:",
        *reader.text.lines,
        *(["    yield 0"] if turns and not reader.text.yields else []),
        f"    return {name}({', '.join(arguments)}), position",
    ]


def _argument(each: Field, regime: Regime) -> str:
    return local(each) if each.versions & regime.versions else default_literal(each)


def holds_arrays(fields: list[Field]) -> bool:
    """Return whether the fields hold an array at any depth, so that a read may take long."""
    return any(each.is_array or (each.is_struct and holds_arrays(each.fields)) for each in fields)


class _Reader:
    def __init__(self, regime: Regime, request: bool, turns: bool) -> None:
        self.turns = turns
        self.text = Lines()
        self.regime = regime
        self.request = request

    def untagged(self, fields: list[Field]) -> None:
        present = [each for each in fields if each.versions & self.regime.versions]
        groups = groupby(present, key=lambda each: self.regime.condition(each.versions))
        for condition, group in groups:
            if condition is None:
                for each in group:
                    self.field(each, declared=False)
            else:
                self.conditional(condition, list(group))

    def conditional(self, condition: str, fields: list[Field]) -> None:
        self.flush()
        for each in fields:
            self.declare(each)
        with self.text.block(f"if {condition}:"):
            for each in fields:
                self.field(each, declared=True)
            self.flush()

    def tagged(self, fields: list[Field]) -> None:
        present = [each for each in fields if each.versions & self.regime.versions]
        self.text.run.append(("B", "tag_count"))
        self.flush()
        for each in present:
            self.declare(each)
        with self.text.block("if tag_count:"):
            if not present:
                self.text.add("position = skip_tags(data, position - 1)")
                return
            with self.text.block("for tag, position, end in read_tags(data, position - 1):"):
                for number, each in enumerate(present):
                    self.tag_branch(each, "elif" if number else "if")
                with self.text.block("else:"):
                    self.text.add("position = end")
                with self.text.block("if position != end:"):
                    self.text.add("raise wrong_tag_size(tag)")

    def tag_branch(self, each: Field, word: str) -> None:
        condition = self.regime.condition(each.versions)
        test = f"tag == {each.tag}" + (f" and {condition}" if condition else "")
        with self.text.block(f"{word} {test}:"):
            self.field(each, declared=True)
            self.flush()

    def declare(self, each: Field) -> None:
        kind = type_name(each, request=self.request)
        self.text.add(f"{local(each)}: {kind} = {default_literal(each)}")

    def flush(self) -> None:
        formats, names = self.text.take_run()
        if not formats:
            return
        size = calcsize(">" + formats)
        if formats == "B":
            self.text.add(f"{names[0]} = data[position]")
        else:
            targets = ", ".join(names) + ("," if len(names) == 1 else "")
            self.text.add(f"{targets} = {struct_name('unpack', formats)}(data, position)")
        self.text.add(f"position += {size}")

    def field(self, each: Field, *, declared: bool) -> None:
        if each.is_array:
            self.array(each, declared=declared)
        elif each.type in FIXED:
            self.text.run.append((FIXED[each.type][0], local(each)))
        elif each.is_struct:
            self.struct(each, declared=declared)
        else:
            self.sized(each, declared=declared)

    def prefix(self, each: Field, name: str, classic_format: str) -> None:
        """Read a length; 0 is null in flexible versions, -1 in classic ones."""
        self.text.run.append(("B" if self.regime.flexible else classic_format, name))
        self.flush()
        if self.regime.flexible:
            with self.text.block(f"if {name} > 127:"):
                is_text = each.type == "string" and not each.is_array
                reader = "read_text_length_tail" if is_text else "read_uvarint_tail"
                self.text.add(f"{name}, position = {reader}(data, position, {name})")
        self.forbid_null(each, name)

    def forbid_null(self, each: Field, name: str) -> None:
        null = f"{name} == 0" if self.regime.flexible else f"{name} == -1"
        condition = self._null_condition(each)
        if condition != "":
            test = null if condition is None else f"{null} and not ({condition})"
            with self.text.block(f"if {test}:"):
                self.text.add(f'raise null_field("{each.kafka_name}")')
        if not self.regime.flexible:
            with self.text.block(f"if {name} < -1:"):
                self.text.add(f'raise negative_length("{each.kafka_name}", {name})')

    def _null_condition(self, each: Field) -> str | None:
        """Return when null is allowed: "" always, None never, else a test."""
        if each.type == "records":
            return ""
        allowed = each.nullable & each.versions & self.regime.versions
        if not allowed:
            return None
        if allowed.covers(each.versions & self.regime.versions):
            return ""
        return self.regime.condition(each.nullable)

    def sized(self, each: Field, *, declared: bool) -> None:
        """Read a string, bytes or records."""
        self.prefix(each, "length", "h" if each.type == "string" else "i")
        name, length = local(each), "length - 1" if self.regime.flexible else "length"
        if self._null_condition(each) is None:
            self.slice(each, length)
            return
        if not declared:
            self.text.add(f"{name}: {type_name(each, request=self.request)} = None")
        elif default_literal(each) != "None":
            self.text.add(f"{name} = None")
        with self.text.block("if length:" if self.regime.flexible else "if length >= 0:"):
            self.slice(each, length)

    def slice(self, each: Field, length: str) -> None:
        form = {"string": 'str({}, "utf-8")', "bytes": "bytes({})", "records": "{}"}[each.type]
        value = form.format("data[position:end]")
        self.text.add(f"end = position + {length}", f"{local(each)} = {value}", "position = end")

    def array(self, each: Field, *, declared: bool) -> None:
        self.prefix(each, "count", "i")
        name = local(each)
        kind = "" if declared else ": " + type_name(each, request=self.request)
        if self._null_condition(each) is None:
            self.elements(each, kind)
            return
        if not declared or default_literal(each) != "None":
            self.text.add(f"{name}{kind} = None")
        with self.text.block("if count:" if self.regime.flexible else "if count >= 0:"):
            self.elements(each, "")

    def elements(self, each: Field, kind: str) -> None:
        if self.regime.flexible:
            self.text.add("count -= 1")
        size, name = self.element_size(each), local(each)
        bytes_needed = "count" if size == 1 else f"count * {size}"
        limit = "MAX_REQUEST_ELEMENTS" if self.request else "MAX_ELEMENTS"
        with self.text.block(f"if {bytes_needed} > len(data) - position or count > {limit}:"):
            self.text.add(f'raise too_many("{each.kafka_name}", count)')
        if self.turns:
            self.text.add("yield count")
        if each.type in FIXED:
            code = FIXED[each.type][0]
            if len(code) > 1:
                raise ValueError(f"an array of {each.type} has no emitter yet")
            values = f'list(unpack_from(f">{{count}}{code}", data, position))'
            self.text.add(f"{name}{kind} = {values}", f"position += {size} * count")
            return
        self.text.add(f"{name}{kind} = []")
        with self.text.block("for _ in range(count):"):
            self.text.add(
                f"{name}_item, position = {self.element_call(each)}",
                f"{name}.append({name}_item)",
            )
            if self.turns:
                self.text.add("yield 0")

    def element_size(self, each: Field) -> int:
        if each.is_struct:
            return smallest(each.fields, self.regime.within(each.versions))
        if each.type in FIXED:
            return FIXED[each.type][1]
        single = Field(each.kafka_name, each.type, each.versions, is_array=False)
        return smallest_value(single, self.regime)

    def element_call(self, each: Field) -> str:
        if each.is_struct:
            return self.struct_call(each)
        if each.type != "string":
            raise ValueError(f"an array of {each.type} has no emitter yet")
        reader = "read_compact_string" if self.regime.flexible else "read_string"
        return f"{reader}(data, position)"

    def struct_call(self, each: Field) -> str:
        if self.turns and holds_arrays(each.fields):
            name = function_name("read_turns", each.type, self.regime)
            return f"yield from {name}(data, position, version)"
        return f"{function_name('read', each.type, self.regime)}(data, position, version)"

    def struct(self, each: Field, *, declared: bool) -> None:
        call = self.struct_call(each)
        if not each.nullable & each.versions:
            self.flush()
            self.text.add(f"{local(each)}, position = {call}")
            return
        self.text.run.append(("b", "marker"))
        self.flush()
        if not declared:
            self.text.add(f"{local(each)}: {type_name(each, request=self.request)} = None")
        with self.text.block("if marker >= 0:"):
            self.text.add(f"{local(each)}, position = {call}")
