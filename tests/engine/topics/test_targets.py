"""Meaning of a TARGET: names before files, files before logical topics, those before expressions over names."""

from __future__ import annotations

from pathlib import Path

import pytest

from sowctl.engine.topics.targets import (
    MAX_LOGICAL_NAME_BYTES,
    Target,
    find_publish_topic,
    find_topic,
    resolve_targets,
    select_readable_targets,
)
from sowctl.errors import MissingError, SowError, UsageError
from tests.support.instances import Lab, config_xml, message, topic_xml

TOPICS = (
    topic_xml("orders"),
    topic_xml("orders").replace("json", "xml"),
    topic_xml("a.b"),
    topic_xml("book.sow"),
    topic_xml("early", "<Pattern>^/x</Pattern>"),
    topic_xml("late", "<Pattern>^/</Pattern>"),
)
LOGGED = ("a.b", "late", "only")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.chdir(tmp_path)  # relative paths of stores begin here
    made = Lab(tmp_path, config_xml("".join(TOPICS), LOGGED))
    made.publish("a.b", message(id=1))
    return made


def _told(targets: list[Target]) -> list[tuple[str, str | None] | str]:
    """Return the topics with their selected logical topics, and the names of files."""
    return [
        (target.topic.name, target.topic.logical_name) if target.topic is not None else target.path.name  # type: ignore[union-attr]
        for target in targets
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b", [("a.b", None)]),
        ("[json].[orders]", [("orders", None)]),
        ("book.sow", [("book.sow", None)]),
        ("/x/1", [("early", "/x/1")]),
        ("/y/1", [("late", "/y/1")]),
        ("/y.1", [("late", "/y.1")]),
        ("early", [("early", None)]),
        ("^a", [("a.b", None)]),
        ("^book.sow", [("book.sow", None)]),
        ("sow/a.b.json.sow", ["a.b.json.sow"]),
        ("orders", "SOW-ENG-030"),
        ("^(orders", "SOW-ENG-033"),
        ("^none", "SOW-ENG-014"),
        ("gone.sow", "SOW-ENG-013"),
        ("order", "SOW-ENG-012"),
        ("only", "SOW-ENG-016"),
    ],
)
def test_what_a_text_means(lab: Lab, text: str, expected: object) -> None:
    instance = lab.open()
    if isinstance(expected, list):
        assert _told(resolve_targets(instance, text)) == expected
        return
    with pytest.raises(SowError) as caught:
        resolve_targets(instance, text)
    assert caught.value.code == expected


@pytest.mark.parametrize("text", ["s3://key:secret@bucket/book2.sow", "s3://key:secret@bucket/dir", "gs://a.b/x.y"])
def test_a_store_at_a_url_is_to_be_copied(lab: Lab, text: str) -> None:
    with pytest.raises(MissingError) as caught:
        resolve_targets(lab.open(), text)
    error = caught.value
    assert (error.code, error.place) == ("SOW-ENG-013", text.replace("key:secret@", ""))
    assert "this machine" in error.message and error.hint is not None and error.hint.startswith("copy the file")


def test_a_file_wins_over_a_logical_topic_and_not_over_a_topic(lab: Lab) -> None:
    instance = lab.open()
    store = lab.store("a.b")
    assert _told(resolve_targets(instance, str(store))) == ["a.b.json.sow"], (
        "its path is the name of a logical topic, too"
    )
    store.rename(lab.directory / "book.sow")
    assert _told(resolve_targets(instance, "book.sow")) == [("book.sow", None)]
    assert _told(resolve_targets(instance, "./book.sow")) == ["book.sow"]


def test_an_expression_takes_pattern_topics_by_their_records(lab: Lab) -> None:
    """The whole topic if the expression matches its name; otherwise the records that match, once some exist."""
    assert _told(resolve_targets(lab.open(), "^(late|a)")) == [("a.b", None), ("late", None)]
    lab.publish("/y", message(id=1))
    (target,) = resolve_targets(lab.open(), "^/y+$")
    assert target.topic is not None and target.topic.logical is not None
    assert (target.topic.name, target.topic.logical.regex) == ("late", True)
    assert _told(resolve_targets(lab.open(), "/y+", literal=True)) == [("late", "/y+")]


def test_of_several_targets_those_count_that_hold_anything(lab: Lab) -> None:
    instance = lab.open()
    targets = [Target(topic=topic) for topic in instance.topics]
    assert _told(list(select_readable_targets(instance, targets))) == [("a.b", None)]
    empty = [target for target in targets if target.topic is not None and target.topic.name != "a.b"]
    assert select_readable_targets(instance, empty) == empty
    assert select_readable_targets(instance, empty[:1]) == empty[:1]
    lab.forget("a.b")
    assert _told(list(select_readable_targets(lab.open(), targets))) == [("a.b", None)], (
        "its records are in the journal"
    )


def test_what_can_be_published_to(lab: Lab) -> None:
    instance = lab.open()
    found = find_publish_topic(instance, "/x/2")
    assert (found.name, found.logical_name, found.key_mode) == ("early", "/x/2", "fields")
    only = find_publish_topic(instance, "only")
    assert (only.name, only.keys, only.key_mode, only.file, only.journalled) == ("only", (), "none", None, True)
    for text, kind, code in (
        ("early", UsageError, "SOW-ENG-032"),
        ("/" * (MAX_LOGICAL_NAME_BYTES + 1), MissingError, "SOW-ENG-012"),
        ("nowhere", MissingError, "SOW-ENG-012"),
        ("orders", UsageError, "SOW-ENG-030"),
    ):
        with pytest.raises(kind) as caught:
            find_publish_topic(instance, text)
        assert caught.value.code == code
    assert find_publish_topic(instance, "/" * MAX_LOGICAL_NAME_BYTES).name == "late"
    with pytest.raises(MissingError, match="TransactionLog"):
        find_topic(instance, "only")
