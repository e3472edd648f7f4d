"""`ssl.principal.mapping.rules`: maps a certificate's subject to the name of a principal.

The notation is Kafka's: `RULE:pattern/replacement/`, with L or U at its end for lower or upper
case, or DEFAULT for the subject as it is.  The first rule whose pattern matches the whole subject
decides.  Patterns are in RE2's syntax, without lookaround and back references, so a match never
takes exponential time.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import re2

from tidegate_runtime.settings_texts import SettingsError

_RE2: Any = re2  # the library has no type hints
_SETTING: Final = "ssl.principal.mapping.rules"
_DEFAULT: Final = "DEFAULT"
# A part ends at a slash that has no backslash before it.
_PART: Final = r"(?:[^\\/]|\\.)*"
_RULE: Final = re.compile(
    rf"{_DEFAULT}|RULE:(?P<pattern>{_PART})/(?P<replacement>{_PART})/(?P<case>[LU]?)"
)
_SEPARATOR: Final = re.compile(r"\s*(?:,\s*)*")
_NUMBERED: Final = re.compile(r"\$([0-9]+)")
_NAMED: Final = re.compile(r"\$\{([A-Za-z][A-Za-z0-9]*)\}")


class NoPrincipal(Exception):
    """The certificate gives no principal, so the connection is closed.  The text is the reason."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """pattern: the compiled pattern.

    parts: the parts of the replacement, each a text or a group number.
    """

    pattern: Any
    parts: tuple[str | int, ...]
    case: str

    def name_of(self, subject: str) -> str | None:
        if not self.pattern.fullmatch(subject):
            return None
        name = "".join(self._pieces(subject))
        if self.case:
            name = name.lower() if self.case == "L" else name.upper()
        return name

    def _pieces(self, subject: str) -> Iterator[str]:
        """Replace each match, as Java's replaceAll(): `(.*)` also matches "" at the end."""
        at = 0
        for match in self.pattern.finditer(subject):
            yield subject[at : match.start()]
            for part in self.parts:
                yield part if isinstance(part, str) else match.group(part) or ""
            at = match.end()
        yield subject[at:]


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """rules: in their order; None stands for DEFAULT."""

    rules: tuple[_Rule | None, ...]

    def principal_of(self, subject: str) -> str:
        """Return "User:" and the name for a subject.

        Raises:
          NoPrincipal: no rule matches, or the name would be empty or "*".
        """
        if not subject:
            raise NoPrincipal("its certificate has no subject")
        names = (subject if each is None else each.name_of(subject) for each in self.rules)
        name = next((each for each in names if each is not None), None)
        if name is None:
            raise NoPrincipal(f"no rule of {_SETTING} matches {subject[:200]!r}")
        if name in ("", "*"):  # in ACLs, User:* stands for all users
            raise NoPrincipal(f"{_SETTING} makes {name!r} of {subject[:200]!r}")
        return f"User:{name}"


def read_principal_rules(text: str) -> PrincipalRules:
    """Read the value of the setting; "" means no rules, so that no subject matches.

    Raises:
      SettingsError: a rule is wrong, or RE2 does not support its pattern.
    """
    return PrincipalRules(tuple(_rules(text.strip())))


def _rules(text: str) -> Iterator[_Rule | None]:
    at = _end_of_separator(text, 0)
    while at < len(text):
        found = _RULE.match(text, at)
        if found is None:
            raise _wrong(text[at:])
        end = _end_of_separator(text, found.end())
        if end < len(text) and "," not in text[found.end() : end]:
            raise _wrong(text[at:])
        yield None if found[0] == _DEFAULT else _rule(found)
        at = end


def _end_of_separator(text: str, at: int) -> int:
    found = _SEPARATOR.match(text, at)
    assert found is not None, "it also matches nothing"
    return found.end()


def _wrong(rule: str) -> SettingsError:
    return SettingsError(
        f"{_SETTING}: {rule[:80]!r} is no rule; write RULE:pattern/replacement/, with L or U at its"
        " end for lower or upper case, or DEFAULT"
    )


def _rule(found: re.Match[str]) -> _Rule:
    options = _RE2.Options()
    options.log_errors = False
    try:
        pattern = _RE2.compile(found["pattern"], options)
    except _RE2.error as error:
        reason = error.args[0] if error.args else "not a pattern"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
        raise SettingsError(
            f"{_SETTING}: the pattern {found['pattern'][:80]!r} is not one of RE2: {reason}"
        ) from None
    parts = tuple(_parts(found["replacement"], pattern.groups, pattern.groupindex))
    return _Rule(pattern, parts, found["case"])


def _parts(text: str, groups: int, names: dict[str, int]) -> Iterator[str | int]:
    r"""Read a replacement: `$1` and `${name}` are groups, and a backslash makes the next literal.

    As in Kafka, if a pattern has fewer than 12 groups, $12 is group 1 and the text "2".  If it has
    three groups, $4 is plain text.
    """
    at = 0
    while at < len(text):
        if text[at] == "\\":
            yield text[at + 1 : at + 2]
            at += 2
        elif text[at] != "$":
            yield text[at]
            at += 1
        elif named := _NAMED.match(text, at):
            if named[1] not in names:
                raise _wrong_group(text)
            yield names[named[1]]
            at = named.end()
        else:
            number, size = _group(text, at, groups)
            yield number
            at += size


def _group(text: str, at: int, groups: int) -> tuple[str | int, int]:
    """Return the group number at a `$`, or plain text; and its length in the replacement."""
    found = _NUMBERED.match(text, at)
    if found is None:
        raise _wrong_group(text)
    fitting: Sequence[int] = [
        size
        for size in range(1, len(found[1]) + 1)
        if int(found[1][:size]) <= groups and (size == 1 or found[1][0] != "0")
    ]
    if fitting:
        return int(found[1][: fitting[-1]]), 1 + fitting[-1]
    if not groups:
        raise _wrong_group(text)
    return "$", 1


def _wrong_group(text: str) -> SettingsError:
    return SettingsError(
        f"{_SETTING}: the replacement {text[:80]!r} names a group that its pattern does not have;"
        r" write \$ for a dollar sign"
    )
