"""Elements added to a configuration: it validates and lints as before, and the rest of the text is unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.config.additions import Addition, ConfigText, NewPart
from sowctl.config.derived_entries import Queue, View
from sowctl.config.initial_config import Answers, InitialTopic, compose_config
from sowctl.config.instance import load_instance
from sowctl.config.lint import lint_files
from sowctl.config.model import TopicConfig
from sowctl.config.new_elements import (
    NewElement,
    build_elements,
    build_history,
    build_journal_topic,
    build_queue,
    build_topic,
    build_view,
)
from sowctl.config.validate import validate_config
from sowctl.errors import ConfigError, MissingError, SowError, UsageError
from sowctl.findings import Finding
from tests.support.examples import examples

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=9).filter(
    lambda text: text.isprintable() and "${" not in text and not text.startswith("/AMPS") and text != "base"
)
PATHS = st.sampled_from(["/a", "/b/c", "/d[0]", "/e/@f"])
INTERVALS = st.sampled_from(["0s", "500ms", "10m", "1.5h", "7d"])
BASE = compose_config(Answers("shop", (InitialTopic("base", "json", ("/id",)),)))
PLAIN = (
    "<AMPSConfig><!-- top --><Name>one</Name><SOW><Topic><Name>base</Name><MessageType>json</MessageType>"
    "<Key>/id</Key><FileName>x</FileName></Topic></SOW><TransactionLog><JournalDirectory>j</JournalDirectory>"
    "<Topic><Name>base</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"
)
TEXTS = {
    "made": BASE.encode(),
    "tabs": BASE.replace("  ", "\t").encode(),
    "crlf": b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode(),
    "one line": PLAIN.encode(),
    "long comments behind": BASE.replace("</Topic>\n", "</Topic> <!-- of\n it -->\n").encode(),
    "comments behind": BASE.replace("</Topic>\n", "</Topic> <!-- of it -->\n").encode(),
}


def topics() -> st.SearchStrategy[NewElement]:
    return st.builds(
        lambda name, kind, keys, file, life, index: build_topic(
            name,
            kind,
            keys=keys,
            file_name=file,
            expiration=life if isinstance(life, str) else None,
            history=None if isinstance(life, str) else life,
            indexes=index,
        ),
        NAMES,
        st.sampled_from(["json", "xml", "nvfix"]),
        st.lists(PATHS, max_size=2, unique=True),
        st.sampled_from(["./sow/%n.sow", "./own/%n", None]),
        st.one_of(
            st.none(),
            st.sampled_from(["10m", "enabled", "disabled"]),
            st.builds(build_history, st.sampled_from(["1h", "1d", "2w"]), st.sampled_from(["0s", "1m"])),
        ),
        st.lists(PATHS, max_size=2, unique=True),
    )


def views() -> st.SearchStrategy[NewElement]:
    return st.builds(
        lambda name, grouped, filtered: build_view(
            name,
            "json",
            source="base",
            joins=(),
            projection=(f"{grouped}, COUNT(/id) AS /n", "SUM(/q) AS /q"),
            grouping=(grouped,),
            filter=filtered,
        ),
        NAMES,
        st.sampled_from(["/a", "/b"]),
        st.sampled_from([None, "/a < 5 AND /b > 'x'", "/a LIKE '<.*>'"]),
    )


def queues() -> st.SearchStrategy[NewElement]:
    return st.builds(
        lambda name, own, expiration, deliveries, priority: build_queue(
            name,
            "json",
            {
                "UnderlyingTopic": None if own else "base",
                "LeasePeriod": "30s",
                "MaxPerSubscriptionBacklog": "2",
                "Expiration": expiration,
                "MaxDeliveries": deliveries,
                "Priority": priority,
            },
        ),
        NAMES,
        st.booleans(),
        st.sampled_from([None, "1h"]),
        st.sampled_from([None, "0", "3"]),
        st.sampled_from([None, "/p * 2"]),
    )


def lint(path: Path) -> list[Finding]:
    (linted,) = lint_files([path], environment={})
    return linted.findings


def name_of(element: NewElement) -> str:
    return next(child.text for child in element.children if isinstance(child, NewElement) and child.tag == "Name")


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(TEXTS)), st.one_of(topics(), views(), queues()))
def test_what_is_added_is_clean_and_the_rest_stays(tmp_path: Path, text: str, element: NewElement) -> None:
    path = tmp_path / "made.xml"
    path.write_bytes(TEXTS[text])
    before = {(finding.id, finding.message) for finding in lint(path)}
    config = ConfigText(path, environment={})
    parts = [NewPart("SOW", element)]
    if element.tag != "View":
        parts.append(NewPart("TransactionLog", build_journal_topic(name_of(element), "json")))
    if element.tag == "Topic":
        kind = next(c.text for c in element.children if isinstance(c, NewElement) and c.tag == "MessageType")
        parts[1] = NewPart("TransactionLog", build_journal_topic(name_of(element), kind))
    addition = config.add_parts(parts)
    assert path.read_bytes() == TEXTS[text]
    path.write_bytes(addition.content)
    assert validate_config(path, environment={}) == []
    fresh = {(finding.id, finding.message) for finding in lint(path)} - before
    assert {one for one in fresh if one[0] != "B053"} <= {(one.id, one.message) for one in addition.findings}
    # With plain lines only lines are added; all previous lines are still there, in order.
    kept = iter(addition.content.splitlines(keepends=True))
    if text != "one line":
        assert all(any(line == other for other in kept) for line in TEXTS[text].splitlines(keepends=True))
    assert addition.content.replace(b"\r\n", b"").count(b"\n") == (
        0 if text == "crlf" else addition.content.count(b"\n")
    )
    lines = addition.content.decode().splitlines()
    assert all(lines[part.line - 1].strip() == part.xml.splitlines()[0] for part in addition.parts)
    found = load_instance(path, environment={}).sow
    assert found[0].name == "base" and found[-1].name == name_of(element)
    assert isinstance(found[-1], {"Topic": TopicConfig, "View": View, "Queue": Queue}[element.tag])


def add(path: Path, *parts: NewPart) -> Addition:
    addition = ConfigText(path, environment={}).add_parts(parts)
    path.write_bytes(addition.content)
    return addition


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "made.xml"
    made.write_bytes(TEXTS["made"])
    return made


TOPIC = NewPart("SOW", build_topic("new", "json", keys=("/id",), file_name="%n"))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("<AMPSConfig>\n  <Name>x</Name>\n  <SOW/>\n</AMPSConfig>\n", ["  <SOW>", "    <Topic>", "  </SOW>"]),
        ("<AMPSConfig>\n\t<Name>x</Name>\n\t<SOW>\n\t</SOW>\n</AMPSConfig>\n", ["\t<SOW>", "\t\t<Topic>", "\t</SOW>"]),
        ("<AMPSConfig>\n  <Name>x</Name>\n  <SOW><!-- none --></SOW>\n</AMPSConfig>\n", ["  <SOW><!-- none -->"]),
        ("<AMPSConfig>\n    <Name>x</Name>\n</AMPSConfig>\n", ["    <SOW>", "        <Topic>", "    </SOW>"]),
        ("<AMPSConfig><Name>x</Name></AMPSConfig>", ["  <SOW>", "    <Topic>", "</AMPSConfig>"]),
    ],
)
def test_sections_without_elements(text: str, lines: list[str], path: Path) -> None:
    path.write_text(text)
    add(path, TOPIC)
    assert set(lines) <= set(path.read_text().splitlines())
    assert [entry.name for entry in load_instance(path, environment={}).sow] == ["new"]


@pytest.mark.parametrize("comment", ["<!-- of it -->", "<!-- of\n it -->"])
def test_a_comment_stays_with_its_element(comment: str, path: Path) -> None:
    path.write_text(BASE.replace("</Topic>\n  </SOW>", f"</Topic> {comment}\n  </SOW>"))
    add(path, TOPIC)
    assert f"</Topic> {comment}\n    <Topic>\n      <Name>new</Name>" in path.read_text()


def test_a_chosen_name_is_no_advice(path: Path) -> None:
    element = build_topic("a.b/c", "json", keys=("/id",), file_name="./sow/%n.sow")
    addition = add(path, NewPart("SOW", element), NewPart("TransactionLog", build_journal_topic("a.b/c", "json")))
    assert (addition.findings, lint(path)) == ((), [])


def test_other_advice_is_reported(path: Path) -> None:
    addition = add(path, NewPart("SOW", build_queue("q", "json", {"UnderlyingTopic": "base"})))
    assert {finding.id for finding in addition.findings} == {"B042", "B049"} == {finding.id for finding in lint(path)}


def test_children_are_added_and_changed(path: Path) -> None:
    before = path.read_text()
    for interval in ("10m", "1h"):
        config = ConfigText(path, environment={})
        topic = config.find_topic("base", None)
        addition = config.set_children(topic, build_elements("Expiration", interval)[0])
        path.write_bytes(addition.content)
        added = "      <Expiration>" + interval + "</Expiration>\n"
        assert path.read_text().replace(added, "") == before
        assert path.read_text().splitlines()[addition.parts[0].line - 1] + "\n" == added
    path.write_text(before)
    for window, granularity in (("1d", "0s"), ("2w", "1m")):
        config = ConfigText(path, environment={})
        addition = config.set_children(config.find_topic("base", "json"), build_history(window, granularity))
        path.write_bytes(addition.content)
        assert f"<Window>{window}</Window>" in path.read_text()
        assert path.read_text().count("<History>") == before.count("<History>") + 1
    with pytest.raises(MissingError) as caught:
        ConfigText(path, environment={}).find_topic("bas", None)
    assert "base" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("part", "rule"),
    [
        (NewPart("SOW", build_topic("base", "json", keys=(), file_name="y")), "R020"),
        (NewPart("SOW", build_topic("t", "jsn", keys=(), file_name="y")), "R001"),
        (NewPart("SOW", build_topic("t", "json", keys=("id",), file_name="y")), None),
        (
            NewPart(
                "SOW", build_topic("t", "json", keys=(), file_name="y", expiration="1d", history=build_history("1d"))
            ),
            "F001",
        ),
        (NewPart("SOW", build_queue("q", "json", {})), "R008"),
        (NewPart("SOW", build_queue("q", "json", {"UnderlyingTopic": "base", "Filter": "/a >"})), None),
        (
            NewPart("SOW", build_view("v", "json", source="none", joins=(), projection=("/a",), grouping=("/a",))),
            "R004",
        ),
    ],
)
def test_what_would_not_validate_is_refused(part: NewPart, rule: str | None, path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        ConfigText(path, environment={}).add_parts([part])
    assert caught.value.code == "SOW-CFG-067"
    assert rule is None or caught.value.facts["rule"] == rule
    assert path.read_bytes() == TEXTS["made"]


def test_files_that_cannot_be_edited(path: Path) -> None:
    outer = path.with_name("outer.xml")
    outer.write_text("<AMPSConfig><Name>x</Name><Include>sow.xml</Include></AMPSConfig>")
    topic = "<Topic><Name>t</Name><MessageType>json</MessageType><Key>/i</Key><FileName>f</FileName>"
    sow = f"<SOW>{topic}<Expiration><!-- x -->1d</Expiration></Topic></SOW>"
    path.with_name("sow.xml").write_text(sow)
    config = ConfigText(outer, environment={})
    cases = [lambda: config.add_parts([TOPIC])]
    cases.append(lambda: config.set_children(config.find_topic("t", None), build_history("1d")))
    path.write_text(f"<AMPSConfig><Name>x</Name>{sow}</AMPSConfig>")
    commented = ConfigText(path, environment={})
    expiring = commented.find_topic("t", None)
    cases.append(lambda: commented.set_children(expiring, build_elements("Expiration", "2d")[0]))
    latin = path.with_name("latin.xml")
    latin.write_bytes(
        "<?xml version='1.0' encoding='iso-8859-1'?><AMPSConfig><Name>ä</Name></AMPSConfig>".encode("latin-1")
    )
    cases.append(lambda: ConfigText(latin, environment={}).add_parts([TOPIC]))
    ascii_only = path.with_name("ascii.xml")
    ascii_only.write_bytes(b"<?xml version='1.0' encoding='iso-8859-1'?><AMPSConfig><Name>a</Name></AMPSConfig>")
    wide = NewPart("SOW", build_topic("\u4e2d", "json", keys=("/i",), file_name="f"))
    cases.append(lambda: ConfigText(ascii_only, environment={}).add_parts([wide]))
    for case in cases:
        with pytest.raises(ConfigError) as caught:
            case()
        assert caught.value.code == "SOW-CFG-068"
    # Elements that need no other encoding are still added.
    assert b"<Name>new</Name>" in ConfigText(ascii_only, environment={}).add_parts([TOPIC]).content


@pytest.mark.parametrize(
    ("text", "code"),
    [(None, "SOW-CFG-030"), ("<AMPSConfig>", "SOW-CFG-001"), ("<AMPSConfig><SOW/></AMPSConfig>", "SOW-CFG-104")],
)
def test_files_that_are_wrong_already(text: str | None, code: str, path: Path) -> None:
    path.unlink()
    if text is not None:
        path.write_text(text)
    with pytest.raises(SowError) as caught:
        ConfigText(path, environment={})
    assert (caught.value.code, caught.value.exit_status) == (code, 4)


@pytest.mark.parametrize("text", ["a\nb", "\x1b", " ", "${HOME}"])
def test_texts_that_cannot_stand_in_a_file(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_view("v", "json", source="base", joins=(), projection=(text,), grouping=("/a",))
    assert caught.value.code == "SOW-CFG-060"
