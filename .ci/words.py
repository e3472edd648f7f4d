"""Plain English: name the sentences that have to be read twice (CONTRIBUTING.md, "Language").

    python .ci/words.py            # all pages and modules
    python .ci/words.py PATH...    # any files and folders

Markdown: prose, headings and tables; not code, a table that lists what not to say, nor a part that
gateway/generate_docs.py writes.  Lines of prose have at most 100 columns; links do not count.
Python: docstrings, comments, and strings of four words or several lines.

Each finding is a line `FILE:LINE: "words": advice`; with findings the exit status is 1.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pool
from pathlib import Path

ROOT = Path(__file__).parents[1]
CHECKED = [("", "*.md"), ("", "*.py")]  # (folder, kind)
WIDTH = 100

START = r"(?:\A|(?<=[.!?:]\s)|(?<=[.!?:][\"')*]\s)|(?<=[.!?:]\*\*\s))[*\"'(\s]*"
NAME_IT = "name the gateway, client, caller or replica"
ADVICE = [
    (START + r"Who\b(?![^.!?]*\?)(?: \w+){0,3}", NAME_IT),
    (START + r"What (?:is|was|are|were|has|had)\b(?![^.!?]*\?)(?: \w+)?", "name the thing"),
    (r"\b[Ww]hoever\b", NAME_IT),
    (r"\b(?:[Nn]obody|[Ss]omebody)\b", NAME_IT),
    (r"\bwho waits?\b", "the waiting producers, callers, readers"),
    (r"\b(?:comes?|came|coming) true\b", "takes effect; is committed"),
    (r"\b(?:is|are|was|were|be|been|being) told\b", "gets, learns, logs, answers"),
    (r"\b(?:tells?|told) whether\b", "returns, says whether"),
    (r"\b(?:lets?|letting) (?:\w+ )?go\b", "releases; drops; closes"),
    (r"\b(?:left|leaves?|leaving) (?:\w+ )?alone\b", "skips; is skipped"),
    (r"\blearns? of\b", "sees; reads; hears from"),
    (
        r"\bbehind (?:(?:the|its|a|this|that|each) )?"
        r"(?:position|offset|entry|header|batch|snapshot|message|step|run)s?\b",
        "after",
    ),
]
# At the start of a docstring: such a clause has no actor, and names no thing.
BEGINNING = re.compile(r"\s*(What|Whatever|Whoever|Those)\b")
NO_BEGINNING = "begin a docstring with a verb, or name the thing"
PATTERNS = [(re.compile(pattern), advice) for pattern, advice in ADVICE]

GENERATED = re.compile(r"<!-- (begin|end) [a-z ]+ -->")  # its words are checked at their source
FENCE = re.compile(r"\s*(?:```|~~~)")
ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
TABLE = re.compile(r"\s*\|")
NOT_TO_SAY = re.compile(r"\s*\|\s*do not say\b")
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"\]\([^)\s]*\)|\]\[[^\]]*\]|^\[[^\]]*\]: \S+|\bhttps?://\S+", re.MULTILINE)
INTERPOLATED = "it"
WORD = re.compile(r"\b[a-z]{2,}\b")


@dataclass
class Text:
    """Words that belong together, with the line that each part of them comes from."""

    words: str = ""
    starts: list[int] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def add(self, words: str, line: int) -> None:
        self.words += " " if self.words else ""
        self.starts.append(len(self.words))
        self.lines.append(line)
        self.words += words.strip()

    def line_at(self, position: int) -> int:
        return self.lines[bisect_right(self.starts, position) - 1]


def main(paths: list[str]) -> int:
    wanted = files(paths)
    with Pool() as pool:
        of_files = pool.map(findings, wanted)
    found = [
        f"{_shown(path)}:{line}: {what}"
        for path, of_file in zip(wanted, of_files, strict=True)
        for line, what in of_file
    ]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


def files(paths: list[str]) -> list[Path]:
    """The files to check, sorted; nothing hidden or installed.  ValueError: a path names none."""
    wanted = [(Path(path).resolve(), ("*.md", "*.py")) for path in paths]
    if not wanted:
        wanted = [(ROOT / folder, (kind,)) for folder, kind in CHECKED]
    found = {each for place, kinds in wanted for each in _below(place, kinds)}
    return sorted(found)


def _below(place: Path, kinds: tuple[str, ...]) -> list[Path]:
    if place.is_file():
        return [place]
    below = [each for kind in kinds for each in place.rglob(kind)]
    found = [each for each in below if not _hidden(each.relative_to(place))]
    if not found:
        raise ValueError(f"{place}: no such file, or no Markdown and Python below it")
    return found


def _hidden(path: Path) -> bool:
    return any(each[0] == "." or each == "node_modules" for each in path.parts)


def _shown(path: Path) -> Path:
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def findings(path: Path) -> list[tuple[int, str]]:
    """The advice on a file, by line; none on files of other kinds than Markdown and Python."""
    if path.suffix not in {".md", ".py"}:
        return []
    source = path.read_text()
    if path.suffix == ".md":
        texts, found = [*markdown(source)], wide_lines(source)
    else:
        tree = ast.parse(source)
        texts, found = [*comments(source), *strings(tree, source)], [*beginnings(tree)]
    found += [each for text in texts for each in in_text(text)]
    return sorted(set(found))


def in_text(text: Text) -> Iterator[tuple[int, str]]:
    for pattern, advice in PATTERNS:
        for match in pattern.finditer(text.words):
            words = match[0].strip()
            start = match.start() + match[0].index(words)
            yield text.line_at(start), f'"{words}": {advice}'


def prose_lines(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a page by number; blank for code, and for parts that a program writes."""
    fenced = code = generated = False
    margin = 0  # of the list item that the line may belong to
    before = ""
    for number, line in enumerate(source.splitlines(), 1):
        fence = FENCE.match(line) is not None
        fenced ^= fence
        if mark := GENERATED.match(line):
            generated = mark[1] == "begin"
        indent = len(line) - len(line.lstrip())
        code = indent >= margin + 4 and (code or not before.strip())
        if item := None if code else ITEM.match(line):
            margin = item.end()
        elif line.strip() and not indent:
            margin = 0
        before = line
        yield number, "" if fence or fenced or code or generated else line


def wide_lines(source: str) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for number, line in prose_lines(source):
        if len(LINK.sub("]", line)) > WIDTH and not TABLE.match(line):
            found.append((number, f"{len(line)} columns: wrap prose at {WIDTH}"))
    return found


def markdown(source: str) -> Iterator[Text]:
    """Paragraphs, list items, headings and cells of tables."""
    text = Text()
    not_to_say = False
    for number, line in prose_lines(source):
        table = TABLE.match(line) is not None
        not_to_say = table and (not_to_say or NOT_TO_SAY.match(line) is not None)
        item = ITEM.match(line)
        if not line.strip() or table or item or line.startswith("#"):
            if text.words:
                yield _without_code(text)
            text = Text()
        if table and not not_to_say:
            for cell in line.strip().strip("|").split("|"):
                yield _without_code(Text(cell.strip(), [0], [number]))
        elif line.strip() and not table:
            text.add((line[item.end() :] if item else line).lstrip("#"), number)
    if text.words:
        yield _without_code(text)


def _without_code(text: Text) -> Text:
    """Blank out the code of a text; its length stays, so that all places remain right."""
    text.words = CODE.sub(lambda each: "`" * len(each[0]), text.words)
    return text


def comments(source: str) -> Iterator[Text]:
    """The comments; those on consecutive lines are one text."""
    text, last = Text(), (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            if last != (line - 1, column) and text.words:
                yield text
                text = Text()
            text.add(token.string.lstrip("#: "), line)
            last = (line, column)
    if text.words:
        yield text


def strings(tree: ast.Module, source: str) -> Iterator[Text]:
    """Docstrings, and other strings of four words or several lines."""
    source_lines = source.splitlines()
    parts: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            words = "".join(_part(each) for each in node.values)
            parts |= {id(each) for each in ast.walk(node)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            words = "" if id(node) in parts else node.value
        else:
            continue
        if "\n" in words.strip() or len(WORD.findall(words)) >= 4:
            yield _placed(words, source_lines, node.lineno, node.end_lineno or node.lineno)


def beginnings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Docstrings, also those of attributes, that begin with a clause instead of a thing."""
    left: list[ast.AST] = [tree]
    while left:  # statements only, which ast.walk() does not keep to
        node = left.pop()
        left += getattr(node, "body", [])
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            word = BEGINNING.match(str(node.value.value))
            if word:
                yield node.lineno, f'"{word[1]}": {NO_BEGINNING}'


def _part(node: ast.expr) -> str:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return str(node.value) if constant else INTERPOLATED  # type: ignore[attr-defined]


def _placed(words: str, source_lines: list[str], first: int, last: int) -> Text:
    """A string's words with the lines of the source that they are on."""
    text = Text()
    if "\n" in words.strip():
        for number, line in enumerate(words.splitlines(), first):
            text.add(line, min(number, last))
        return text
    text.add(words, first)
    at = 0
    for number in range(first + 1, last + 1):
        begin = re.sub(r"^[rbuf]*[\"']+", "", source_lines[number - 1].strip())[:12]
        found = text.words.find(begin, at) if begin else -1
        if found > at:
            text.starts.append(found)
            text.lines.append(number)
            at = found
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
