"""sowctl-behaviour(7) has every number that comments, docstrings and tests cite; its example runs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAN = ROOT / "man"
PAGE = MAN / "sowctl-behaviour.7"
NUMBER = r"C?\d+(?:\.\d+)?"
LIST = rf"(?:[,;]? ?(?:and |to |section |cases )?{NUMBER}(?:-{NUMBER})?)+"
OF_THE_PAGE = re.compile(rf"(?:semantics|behaviour|sowctl-behaviour\(7\))`{{0,2}},?({LIST})")
CASES = re.compile(r"\bC(\d{2,3})(?:-C(\d{2,3}))?\b")
NAMED_CASES = re.compile(r"def test((?:_c\d{2,3})+)_")
DECISIONS = re.compile(r"section 11, (\d+)|decisions? (\d+)(?: to (\d+))?")
PRINCIPLES = re.compile(r"\bprinciples? (\d)\b(?:(?:, | and )(\d))?")


def page() -> str:
    return PAGE.read_text(encoding="utf-8").replace("\\-", "-").replace("\\(aq", "'")


def expanded(text: str) -> Iterator[str]:
    """The numbers in a list such as ``C27-C33, C40`` or ``11.42-11.46`` or ``4.1 to 4.5``."""
    for first, last in re.findall(rf"({NUMBER})(?:(?:-| to )({NUMBER}))?", text):
        if not last:
            yield first
            continue
        front, low, high = re.sub(r"\d+$", "", first), re.search(r"\d+$", first), re.search(r"\d+$", last)
        assert low is not None and high is not None and re.sub(r"\d+$", "", last) == front, text
        yield from (f"{front}{number:0{len(low[0])}}" for number in range(int(low[0]), int(high[0]) + 1))


def defined() -> list[str]:
    """Every number that the page explains: of headings and of tags."""
    found: list[str] = []
    for heading in re.findall(r'^\.S[HS] "(\d+(?:\.\d+)?)\.? ', page(), re.MULTILINE):
        found.append(heading)
    for tag in re.findall(r'^\.TP\n\.B "?([^"\n]+)"?$', page(), re.MULTILINE):
        if re.fullmatch(rf"{NUMBER}(?:(?:-|, | to ){NUMBER})*", tag) and tag != "0":
            found += expanded(tag)
    return found


def sources() -> list[Path]:
    files = [*(ROOT / "sowctl").rglob("*.py"), *(ROOT / "tests").rglob("*.py"), ROOT / "README.md"]
    return [path for path in files if path != Path(__file__)]


def cited(text: str) -> Iterator[str]:
    for match in OF_THE_PAGE.finditer(text):
        yield from expanded(match[1])
    for match in CASES.finditer(text):
        yield from expanded(match[0])
    for match in NAMED_CASES.finditer(text):
        yield from match[1].upper().removeprefix("_").split("_")
    for match in DECISIONS.finditer(text):
        first, last = int(match[1] or match[2]), int(match[3] or match[1] or match[2])
        yield from (f"11.{number}" for number in range(first, last + 1))


def test_every_number_that_is_cited_is_explained() -> None:
    known = set(defined())
    missing = {}
    count = 0
    for path in sources():
        numbers = set(cited(path.read_text(encoding="utf-8")))
        count += len(numbers)
        if wrong := numbers - known:
            missing[str(path.relative_to(ROOT))] = sorted(wrong)
    assert missing == {}
    assert count > 250


def test_no_number_is_given_twice_and_none_is_left_out() -> None:
    numbers = defined()
    assert len(numbers) == len(set(numbers))
    assert [f"C{number:02}" for number in range(1, 143) if f"C{number:02}" not in numbers] == []
    assert [f"11.{number}" for number in range(1, 73) if f"11.{number}" not in numbers] == []


def test_principles_that_are_cited_exist() -> None:
    principles = (MAN / "sowctl-guarantees.7").read_text(encoding="utf-8").split(".SH PRINCIPLES")[1].split("\n.SH ")[0]
    known = set(re.findall(r"^\.TP\n\.B (\d)$", principles, re.MULTILINE))
    assert len(known) == 8
    for path in sources():
        for match in PRINCIPLES.finditer(path.read_text(encoding="utf-8")):
            assert {number for number in match.groups() if number} <= known, path


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(``behaviour`` 1.1, C10)", {"1.1", "C10"}),
        ("behaviour C42-C44, 1.6", {"C42", "C43", "C44", "1.6"}),
        ("``sowctl-behaviour(7)`` 1.3 and 1.7, and more", {"1.3", "1.7"}),
        ("behaviour C70 to C72, section 3.4", {"C70", "C71", "C72", "3.4"}),
        ("# section 11, 34", {"11.34"}),
        ("def test_c04_c05_topics_share_keys", {"C04", "C05"}),
        ("behaviour = get(node)", set()),
    ],
)
def test_what_counts_as_a_citation(text: str, numbers: set[str]) -> None:
    assert set(cited(text)) == numbers


def test_the_example_prints_what_the_page_says() -> None:
    ((command, expected),) = re.findall(r"^\$ (.*)\n((?:(?!\.fi|\$ ).*\n)+)", page(), re.MULTILINE)
    program = command.replace("sowctl ", f"{shlex.quote(sys.executable)} -m sowctl ")
    done = subprocess.run(["sh", "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == (expected, 0)


def test_pages_that_are_named_exist() -> None:
    named = set(re.findall(r"\b(sow(?:ctl)?-[a-z-]+|sowctl) ?\((\d)\)", page()))
    assert len(named) > 8
    assert [f"{name}.{section}" for name, section in named if not (MAN / f"{name}.{section}").is_file()] == []


def test_lines_are_no_longer_than_those_of_the_source() -> None:
    assert max(map(len, PAGE.read_text(encoding="utf-8").splitlines())) <= 124


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_page_is_clean() -> None:
    done = subprocess.run(["groff", "-man", "-Tascii", "-ww", str(PAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
