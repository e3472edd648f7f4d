"""Emits the function that writes one struct in one regime.

As in reading, a run of fixed fields and the length that follows it go through one Struct call; a
varint above 127 takes a slower path.

A response that carries records is sent as a list of parts.  The functions that write the structs
around the records return the bytearray that is being filled, since records may begin a new one.

In a response every struct that holds an array of structs or texts has a second writer, which is a
generator: it yields after each element.
"""

from __future__ import annotations

from itertools import groupby

from .schema import FIXED, Field
from .text import Lines, Regime, default_literal, function_name, is_set, may_be_null, struct_name


def emit_writer(
    name: str, fields: list[Field], regime: Regime, *, parts: bool, turns: bool = False
) -> list[str]:
    """Return the lines of ``_write_<name>_<regime>``.

    Args:
      parts: the function takes and returns the running part besides the list of parts.
      turns: the generator; see is_long.
    """
    writer = _Writer(regime, parts, turns)
    writer.fields(fields)
    head, result = "out: bytearray", "None"
    if parts:
        head, result = "parts: list[Buffer], out: bytearray", "bytearray"
    return [
        f"def {function_name('write_turns' if turns else 'write', name, regime)}(",
        f"    {head}, item: {name}, version: int",
        f") -> {f'Generator[int, None, {result}]' if turns else result}:",
        *(writer.text.lines or ["    pass"]),
        *(["    yield 0"] if turns and not writer.text.yields else []),
        *(["    return out"] if parts else []),
    ]


def is_long(fields: list[Field]) -> bool:
    """Return whether a loop is needed to write the fields."""
    return any(
        (each.is_array and each.type not in FIXED) or (each.is_struct and is_long(each.fields))
        for each in fields
    )


class _Writer:
    def __init__(self, regime: Regime, parts: bool, turns: bool) -> None:
        self.turns = turns
        self.text = Lines()
        self.regime = regime
        self.parts = parts
        self.out = "out"
        self.known = False  # the field is known not to be null

    def fields(self, fields: list[Field]) -> None:
        for each in fields:
            if not each.versions & self.regime.versions:
                self.refuse(each)
        untagged = [each for each in fields if each.tag is None]
        present = [each for each in untagged if each.versions & self.regime.versions]
        groups = groupby(present, key=lambda each: self.regime.condition(each.versions))
        for condition, group in groups:
            if condition is None:
                for each in group:
                    self.field(each)
            else:
                self.conditional(condition, list(group))
        if self.regime.flexible:
            self.tagged([each for each in fields if each.tag is not None])
        self.flush()

    def refuse(self, each: Field) -> None:
        """Refuse a value that the version cannot carry and that may not be left out."""
        if each.ignorable:
            return
        with self.text.block(f"if {is_set(each)}:"):
            self.text.add(f'raise not_in_version("{each.kafka_name}", version)')

    def conditional(self, condition: str, fields: list[Field]) -> None:
        self.flush()
        with self.text.block(f"if {condition}:"):
            for each in fields:
                self.field(each)
            self.flush()
        if not all(each.ignorable for each in fields):
            with self.text.block("else:"):
                for each in fields:
                    self.refuse(each)

    def tagged(self, fields: list[Field]) -> None:
        present = [each for each in fields if each.versions & self.regime.versions]
        if not present:
            self.text.run.append(("B", "0"))
            return
        for each in present:
            self.refuse_tag(each)
        run = list(self.text.run)
        formats, values = self.text.take_run()
        with self.text.block(f"if {' or '.join(self.tag_test(each) for each in present)}:"):
            if formats:
                self.text.add(f"out += {_pack(formats, values)}")
            self.text.add("tags: list[tuple[int, bytearray]] = []")
            for each in sorted(present, key=lambda each: each.tag or 0):
                if len(present) == 1:
                    self.tag(each)
                else:
                    with self.text.block(f"if {self.tag_test(each)}:"):
                        self.tag(each)
            self.text.add("write_tags(out, tags)")
        with self.text.block("else:"):
            self.text.run = [*run, ("B", "0")]
            self.flush()

    def refuse_tag(self, each: Field) -> None:
        condition = self.regime.condition(each.versions)
        if condition and not each.ignorable:
            with self.text.block(f"if {is_set(each)} and not ({condition}):"):
                self.text.add(f'raise not_in_version("{each.kafka_name}", version)')

    def tag_test(self, each: Field) -> str:
        condition = self.regime.condition(each.versions)
        return f"({is_set(each)} and {condition})" if condition else is_set(each)

    def tag(self, each: Field) -> None:
        self.text.add("body = bytearray()")
        self.out, self.known = "body", default_literal(each) == "None"
        self.field(each)
        self.flush()
        self.out, self.known = "out", False
        self.text.add(f"tags.append(({each.tag}, body))")

    def flush(self) -> None:
        formats, values = self.text.take_run()
        if formats == "B":
            self.text.add(f"{self.out}.append({values[0]})")
        elif formats:
            self.text.add(f"{self.out} += {_pack(formats, values)}")

    def prefix(self, value: str, classic_format: str) -> None:
        """Write a length: as a varint, or in the classic fixed size."""
        if not self.regime.flexible:
            self.text.run.append((classic_format, value))
            self.flush()
            return
        formats, values = self.text.take_run()
        with self.text.block(f"if {value} < 128:"):
            if formats:
                self.text.add(f"{self.out} += {_pack(formats + 'B', [*values, value])}")
            else:
                self.text.add(f"{self.out}.append({value})")
        with self.text.block("else:"):
            if formats:
                self.text.add(f"{self.out} += {_pack(formats, values)}")
            self.text.add(f"write_uvarint({self.out}, {value})")

    def field(self, each: Field) -> None:
        if each.is_array:
            self.array(each)
        elif each.type in FIXED:
            self.text.run.append((FIXED[each.type][0], f"item.{each.name}"))
        elif each.is_struct:
            self.struct(each)
        elif each.type == "records":
            self.records(each)
        else:
            self.sized(each)

    def null_else(self, each: Field, null_lines: list[str], value_lines: list[str]) -> None:
        """Emit value_lines, and null_lines where the field's type knows null."""
        if self.known or not may_be_null(each):
            self.text.add(*value_lines)
            return
        with self.text.block(f"if item.{each.name} is None:"):
            self.forbid_null(each)
            self.text.add(*null_lines)
        with self.text.block("else:"):
            self.text.add(*value_lines)

    def forbid_null(self, each: Field) -> None:
        present = each.versions & self.regime.versions
        if each.type == "records" or each.nullable.covers(present):
            return
        refusal = f'raise not_null("{each.kafka_name}", version)'
        if not each.nullable & present:
            self.text.add(refusal)
            return
        with self.text.block(f"if not ({self.regime.condition(each.nullable)}):"):
            self.text.add(refusal)

    def lengths(self, measure: str) -> tuple[str, str]:
        """Return the expressions for the length of null and of a value."""
        return ("0", f"{measure} + 1") if self.regime.flexible else ("-1", measure)

    def sized(self, each: Field) -> None:
        """Write a string or bytes."""
        null, length = self.lengths("len(raw)")
        value = f"item.{each.name}" + (".encode()" if each.type == "string" else "")
        self.null_else(
            each,
            ['raw = b""', f"length = {null}"],
            [f"raw = {value}", f"length = {length}"],
        )
        self.prefix("length", "h" if each.type == "string" else "i")
        self.text.add(f"{self.out} += raw")

    def records(self, each: Field) -> None:
        value = f"item.{each.name}"
        null, length = self.lengths(f"records_size({value})")
        self.null_else(each, [f"length = {null}"], [f"length = {length}"])
        self.prefix("length", "i")
        with self.text.block(f"if {value} is not None:"):
            if self.parts:
                self.text.add(f"out = gather_records(parts, out, {value})")
            else:
                self.text.add(f"join_records(out, {value})")

    def array(self, each: Field) -> None:
        value = f"item.{each.name}"
        null, count = self.lengths(f"len({value})")
        self.null_else(each, [f"count = {null}"], [f"count = {count}"])
        self.prefix("count", "i")
        if each.type in FIXED:
            with self.text.block(f"if {value}:"):
                self.text.add(f"{self.out} += {_array_pack(each.type, value)}")
            return
        element, values = f"{each.name}_item", value + (" or ()" if may_be_null(each) else "")
        with self.text.block(f"for {element} in {values}:"):
            self.text.add(self.element_call(each, element))
            if self.turns:
                self.text.add("yield 0")

    def element_call(self, each: Field, element: str) -> str:
        if each.type == "string":
            style = "compact_string" if self.regime.flexible else "string"
            return f"write_{style}({self.out}, {element})"
        return self.struct_call(each, element)

    def struct_call(self, each: Field, value: str) -> str:
        in_turns = self.turns and is_long(each.fields)
        wait, direction = ("yield from ", "write_turns") if in_turns else ("", "write")
        writer = wait + function_name(direction, each.type, self.regime)
        if self.parts and each.carries_records:
            return f"out = {writer}(parts, out, {value}, version)"
        return f"{writer}({self.out}, {value}, version)"

    def struct(self, each: Field) -> None:
        self.flush()
        value = f"item.{each.name}"
        call = self.struct_call(each, value)
        if not each.nullable & each.versions:
            self.text.add(call)
            return
        self.null_else(each, [f"{self.out}.append(255)"], [f"{self.out}.append(1)", call])


def _pack(formats: str, values: list[str]) -> str:
    return f"{struct_name('pack', formats)}({', '.join(values)})"


def _array_pack(kind: str, value: str) -> str:
    if kind == "int32":
        return f"pack_int32s({value})"
    return f'pack(f">{{len({value})}}{FIXED[kind][0]}", *{value})'
