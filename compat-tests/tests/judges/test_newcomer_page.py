"""The pure parts of `run newcomer`: the page's commands and their expected output."""

from __future__ import annotations

import pytest
from newcomer.page import Step, is_shown, steps_of
from newcomer.run import PAGE
from newcomer.wheels import with_version

TEXT = """\
# A page

## Begin

```sh
cat > file <<END
a
b
END
tidegate doctor
```

No output is shown.

```sh
tidegate gateway list --log x
```

```text
ID  ZONE
```

## End

```toml
no = "command"
```

```sh
rm file
```
"""


def test_a_page_is_read_as_a_person_reads_it() -> None:
    assert list(steps_of(TEXT)) == [
        Step("Begin", "cat > file <<END\na\nb\nEND\ntidegate doctor\n", ""),
        Step("Begin", "tidegate gateway list --log x\n", "ID  ZONE\n"),
        Step("End", "rm file\n", ""),
    ]
    assert [each.commands for each in steps_of(TEXT)] == [2, 1, 1]
    assert [each.only_looks for each in steps_of(TEXT)] == [False, True, False]


@pytest.mark.parametrize(
    ("shown", "printed", "is_so"),
    [
        ("", "anything\n", True),
        ("done\n", "done\n", True),
        ("done\n", "not done\n", False),
        ("done\n", "done\nand more\n", False),
        ("a  b\n", "a      b\n", True),
        ("a ... c\n", "a b b c\n", True),
        ("a ... c\n", "a\nc\n", False),
        ("...\nlast\n", "last\n", True),
        ("...\nlast\n", "first\nsecond\nlast\n", True),
        ("...\nlast\n", "last\nfirst\n", False),
        ("<n> sent\n<n>\n", "12 sent\n12\n", True),
        ("<n> sent\n<n>\n", "12 sent\n11\n", False),
        ("{} => 3 @[...]\n", "{} => 3 @[17.5]\n", True),
        ("{} => 3 @[...]\n", "{} => 2 @[17.5]\n", False),
    ],
)
def test_what_is_printed_is_compared_with_what_is_shown(
    shown: str, printed: str, is_so: bool
) -> None:
    assert is_shown(shown, printed) == is_so


def test_the_page_has_steps_that_show_something_in_each_part() -> None:
    steps = list(steps_of(PAGE.read_text()))
    shown = {each.heading for each in steps if each.shown}
    assert shown == {each.heading for each in steps}
    assert len(shown) > 6


def test_only_the_version_of_the_package_is_another() -> None:
    project = '[project]\nversion = "0.1.0"\n[tool.x]\npython_version = "3.11"\n'
    assert with_version(project, "0.2.0") == project.replace("0.1.0", "0.2.0")
