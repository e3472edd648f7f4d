"""Options of a program: a frozen dataclass, each of whose fields is an option.

A field's name and type say how the option is written: `--rate N` for `rate: int`, `--hurt` for
`hurt: bool`, names by comma for `tuple[str, ...]`.  A field without a default is required.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, field
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

Options = TypeVar("Options")


def option(
    default: Any = MISSING,
    says: str = "",
    *,
    flag: str = "",
    choices: Collection[Any] = (),
    separator: str = ",",
    is_positional: bool = False,
) -> Any:
    """Return a dataclass field that says more than its type.

    Args:
      says: the help; its default follows by itself.
      flag: the option's name, if it is not the field's.
      separator: of the parts of a `tuple[str, ...]`.
      is_positional: the words that belong to no option, for a `tuple[str, ...]`.
    """
    more = {"says": says, "flag": flag, "choices": choices, "separator": separator}
    return field(default=default, metadata={**more, "is_positional": is_positional})


def unasked(default: Any) -> Any:
    """Return a dataclass field that is no option: only callers in Python set it."""
    return field(default=default, metadata={"is_asked": False})


def parser_of(options: type, **more: Any) -> argparse.ArgumentParser:
    """Return a parser whose results are arguments for the class; `more` is for its constructor."""
    parser = argparse.ArgumentParser(allow_abbrev=False, **more)
    types = get_type_hints(options)
    for each in dataclasses.fields(options):
        if each.metadata.get("is_asked", True):
            _add(parser, each, types[each.name])
    return parser


def parsed(options: type[Options], arguments: Sequence[str] | None = None) -> Options:
    """Return options as they are typed; by default the ones of this process."""
    return options(**vars(parser_of(options).parse_args(arguments)))


def _add(parser: argparse.ArgumentParser, each: dataclasses.Field[Any], of: Any) -> None:
    meta, is_required = each.metadata, each.default is MISSING
    default = None if is_required else each.default
    how: dict[str, Any] = {"help": _help(meta.get("says", ""), meta, default), "default": default}
    if meta.get("is_positional"):
        read = _parts(" ", meta["choices"])
        how |= {"nargs": "*", "type": lambda word: read(word)[0], "action": _Tuple}
        parser.add_argument(each.name, **how | {"help": meta["says"]})
        return
    if of is bool:
        how["action"] = argparse.BooleanOptionalAction if default else "store_true"
    else:
        how |= _reading(of, meta)
    flag = meta.get("flag") or f"--{each.name.replace('_', '-')}"
    parser.add_argument(flag, dest=each.name, required=is_required, **how)


class _Tuple(argparse.Action):
    def __call__(self, parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        setattr(namespace, self.dest, tuple(values))


def _reading(of: Any, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return how argparse reads a value of such a type."""
    choices = meta.get("choices") or None
    if get_origin(of) is Literal:
        return {"choices": get_args(of)}
    if get_origin(of) in (tuple, Sequence):
        return {"type": _parts(meta.get("separator", ","), choices or ()), "metavar": "NAMES"}
    if isinstance(of, UnionType):  # X | None
        of = get_args(of)[0]
    return {"type": of, "choices": choices, "metavar": None if choices else of.__name__.upper()}


def _parts(separator: str, choices: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        parts = tuple(text.split(separator))
        if choices and (unknown := set(parts).difference(choices)):
            raise argparse.ArgumentTypeError(
                f"{', '.join(sorted(unknown))}: choose of {', '.join(choices)}"
            )
        return parts

    return read


def _help(says: str, meta: Mapping[str, Any], default: Any) -> str:
    if isinstance(default, tuple):
        default = meta.get("separator", ",").join(default)
    given = "" if default in (None, "", True, False) else f"(default: {default})"
    return f"{says} {given}".strip().replace("%", "%%")
