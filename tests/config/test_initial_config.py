"""First configurations: with any valid answers they load, validate and lint clean; invalid answers are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sowctl.config.initial_config import PREDEFINED_TYPES, Answers, InitialTopic, compose_config, parse_topic
from sowctl.config.instance import load_instance
from sowctl.config.lint import lint_files
from sowctl.config.validate import validate_config
from sowctl.errors import UsageError
from tests.support.examples import examples

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=12).filter(
    lambda text: text.isprintable() and "${" not in text and not text.startswith("/AMPS")
)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            NAMES,
            st.sampled_from([t for t in PREDEFINED_TYPES if t != "binary"]),
            st.sampled_from([(), ("/a",), ("/a", "/b")]),
        ),
        min_size=1,
        max_size=4,
        unique_by=lambda topic: topic[:2],
    ),
    st.sampled_from([None, "./journals", "/var/log & <more>"]),
    st.sampled_from(["one", "two words", "ä-ö_ü"]),
)
def test_what_is_made_is_clean(
    tmp_path: Path, topics: list[tuple[str, str, tuple[str, ...]]], journal: str | None, name: str
) -> None:
    path = tmp_path / "made.xml"
    path.write_text(
        compose_config(Answers(name, tuple(InitialTopic(*topic) for topic in topics), journal)), encoding="utf-8"
    )
    assert validate_config(path, environment={}) == []
    (linted,) = lint_files([path], environment={})
    assert [(finding.id, finding.message) for finding in linted.findings] == []
    config = load_instance(path, environment={})
    assert (config.name, [topic.name for topic in config.topics]) == (name, [topic[0] for topic in topics])
    assert [tuple(map(str, topic.keys)) for topic in config.topics] == [topic[2] for topic in topics]
    assert all(topic.journalled == (journal is not None) for topic in config.topics)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("orders", InitialTopic("orders", "xml", ("/k",))),
        ("orders=/id", InitialTopic("orders", "xml", ("/id",))),
        ("/a=b=/id, /x/@y", InitialTopic("/a=b", "xml", ("/id", "/x/@y"))),
        ("[json].[a=b]", InitialTopic("a=b", "json", ("/k",))),
        ("[fix].[a.b]", InitialTopic("a.b", "fix", ("/k",))),
        ("[fix].[a]=/11,/37", InitialTopic("a", "fix", ("/11", "/37"))),
        ("t=[/odd name]", InitialTopic("t", "xml", ("[/odd name]",))),
        ("t=[/last, first],/k", InitialTopic("t", "xml", ("[/last, first]", "/k"))),
    ],
)
def test_topics_as_options(text: str, expected: InitialTopic) -> None:
    assert parse_topic(text, "xml", ("/k",)) == expected


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "SOW-CFG-060"),
        ("a\x1b", "SOW-CFG-060"),
        ("${A}", "SOW-CFG-060"),
        ("o=id", "SOW-CFG-060"),
        ("[odd].[a]", "SOW-CFG-061"),
        ("[binary].[a]=/id", "SOW-CFG-062"),
        ("a=/x,y", "SOW-VAL-001"),
    ],
)
def test_topics_that_cannot_be(text: str, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_topic(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("answers", "code"),
    [
        (Answers("a/b", (InitialTopic("t"),)), "SOW-CFG-060"),
        (Answers(" ", (InitialTopic("t"),)), "SOW-CFG-060"),
        (Answers("a", (InitialTopic("t"),), "\n"), "SOW-CFG-060"),
        (Answers("a", (InitialTopic("t"), InitialTopic("t"))), "SOW-CFG-063"),
        (Answers("a", ()), "SOW-CFG-064"),
    ],
)
def test_answers_that_cannot_be(answers: Answers, code: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose_config(answers)
    assert (caught.value.code, caught.value.exit_status) == (code, 2)
