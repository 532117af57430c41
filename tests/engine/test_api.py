"""What the Python API takes, what it refuses with a TypeError, and that ``help()`` names every option."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import sowctl
from sowctl.engine.api import InstanceHandle, TopicHandle
from sowctl.engine.options import PublishOptions, QueryOptions, ReplayOptions
from tests.support.instances import SECOND, START, Lab, message


@pytest.fixture
def topic(lab: Lab) -> TopicHandle:
    """A topic with the records 1018 and 7; 7 was written a second later."""
    lab.publish("t", message(id=1018, v=1))
    lab.clock.at = START + SECOND
    lab.publish("t", message(id=7, v=2))
    return lab.open().topic("t")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda t: t.delete(sow_keys="1018"), r"sow_keys are a list, not str: delete\(sow_keys=\[key\]\)"),
        (lambda t: t.delete(sow_keys=[b"1018"]), "each of sow_keys is a text or the int of a SOW key, not bytes"),
        (lambda t: t.delete(sow_keys=[None]), "not NoneType"),
        (lambda t: t.delete(sow_keys=1018), "not int"),
        (lambda t: t.delete(data=b'{"id":7}'), r"messages are a list of bytes, not bytes: delete\(data=\[message\]\)"),
        (lambda t: t.delete(data=[{"id": 7}]), "a message is bytes, not dict"),
        (lambda t: t.get(10.18), "each of keys is a text .* not float"),
        (lambda t: t.versions(True), "each of keys is a text .* not bool"),
        (lambda t: t.query(sow_keys="7"), r"not str: query\(sow_keys=\[key\]\)"),
        (lambda t: t.query(at=1.5), "at is microseconds since 1970 .* not float"),
        (lambda t: t.get("7", at=True), "at is microseconds since 1970 .* not bool"),
        (lambda t: t.digest(at=b"NOW"), "at is microseconds since 1970 .* not bytes"),
    ],
)
def test_what_is_of_a_wrong_type_is_refused_before_anything_is_done(call: Any, words: str, topic: TopicHandle) -> None:
    with pytest.raises(TypeError, match=words):
        call(topic)
    assert topic.query().count() == 2


@pytest.mark.parametrize("at", [START, "2026-01-05T08:00:00Z", "1"])
def test_an_instant_is_a_number_or_a_text_as_the_command_line_takes_it(
    at: int | str, topic: TopicHandle, tmp_path: Path
) -> None:
    assert [record.payload for record in topic.query(at=at).records()] == [b'{"id":1018,"v":1}']
    assert [record.payload for record in topic.get("1018", "7", fields=True, at=at)] == [b'{"id":1018,"v":1}']
    assert topic.digest(at) == topic.digest(START)
    assert topic.snapshot(tmp_path / "then.sow", at=at).records == 1


def test_a_text_that_is_no_instant_is_refused_as_on_the_command_line(topic: TopicHandle) -> None:
    with pytest.raises(sowctl.SowError) as caught:
        topic.get("7", at="yesterday")
    assert caught.value.code == "SOW-VAL-010"


def test_keys_and_messages_may_be_any_collection(topic: TopicHandle) -> None:
    """The SOW key of a record is an int, and an int is taken for the text of it."""
    key = next(iter(topic.get(7))).sow_key
    assert isinstance(key, int)
    assert next(iter(topic.get(key))).payload == b'{"id":7,"v":2}'
    assert len(list(topic.query(sow_keys={key}).records())) == 1
    assert topic.delete(sow_keys={key: None}).deleted == 1
    assert topic.delete(data=iter([b'{"id":1018}', b'{"id":9}'])).deleted == 1


def test_methods_of_other_verbs(topic: TopicHandle) -> None:
    assert list(topic.check()) == []
    assert list(InstanceHandle.check(topic.instance)) == []  # type: ignore[arg-type]
    assert topic.reindex().records == 2
    assert topic.compact().records == 2
    assert topic.repair().report.action == "sound"
    assert topic.explain("/v = 2").estimated <= 2


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (TopicHandle.publish, PublishOptions),
        (TopicHandle.query, QueryOptions),
        (TopicHandle.replay, ReplayOptions),
    ],
)
def test_help_names_every_option(function: Any, options: type[Struct]) -> None:
    words = set(inspect.getdoc(function).replace(",", " ").replace(".", " ").split())  # type: ignore[union-attr]
    named = words | set(inspect.signature(function).parameters)
    assert [name for name in options.__struct_fields__ if name not in named] == []


def test_help_names_every_option_of_open() -> None:
    words = set((sowctl.open.__doc__ or "").replace(",", " ").replace(".", " ").split())
    options = [name for name in inspect.signature(InstanceHandle.open).parameters if name != "config_path"]
    assert len(options) > 5
    assert [name for name in options if name not in words] == []
