"""Facts for a person: names in a column, texts that break between words, nothing cut."""

from __future__ import annotations

import pytest

from sowctl.output.display import measure_width
from sowctl.output.facts import Fact, format_facts

FACTS = [
    Fact("java", "/usr/lib/jvm/java-17-openjdk-amd64/with/more/directories: it is the java on PATH", "ok"),
    Fact("file system of /a/very/long/directory/of/journals", "ext4", "! ", "warning", "move it to a local disk"),
    Fact("東京", "東京" * 30, "!!", "error"),
    Fact("bad\x1b[31m", "worse\x1b[31m\n", "--"),
    Fact("nothing", ""),
]


@pytest.mark.parametrize("columns", [20, 40, 80, 120])
def test_lines_fit_and_hold_everything(columns: int) -> None:
    lines = list(format_facts(FACTS, columns))
    assert max(map(measure_width, lines)) <= columns
    text = "".join("".join(lines).split())
    for fact in FACTS[:3]:
        for part in (fact.name, fact.text, fact.hint or ""):
            assert "".join(part.split()) in text
    assert "\x1b" not in text


def test_a_long_name_has_a_line_of_its_own() -> None:
    lines = list(format_facts(FACTS, 80))
    at = next(place for place, line in enumerate(lines) if "file system" in line)
    assert lines[at].endswith("journals")
    assert lines[at + 1].strip() == "ext4"
    assert lines[at + 2].strip() == "move it to a local disk"
    assert lines[0].startswith("ok  java         /usr/lib/jvm/")


def test_marks_and_hints_have_colours() -> None:
    text = "\n".join(format_facts(FACTS, 80, lambda style, text: f"<{style}>{text}</>"))
    assert "<warning>!   </>file system" in text
    assert "<hint>move it to a local disk</>" in text
