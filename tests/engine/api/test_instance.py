"""The package: errors, names for annotations, the repr of objects, and topics without a store."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path

import pytest

import sowctl
from sowctl import errors
from tests.support.instances import Lab, config_xml, message, topic_xml

LOGGED = config_xml(topic_xml("t"), ("t", "events"))


@pytest.fixture
def logged(tmp_path: Path) -> Lab:
    """A lab whose transaction log records a topic that has no store."""
    return Lab(tmp_path / "logged", LOGGED)


def test_every_error_can_be_caught_by_a_name_of_the_package() -> None:
    for kind in errors.ERROR_CLASSES:
        assert getattr(sowctl, kind.__name__) is kind
        assert kind.__name__ in sowctl.__all__


def test_every_name_of_the_package_is_there() -> None:
    for name in sowctl.__all__:
        assert getattr(sowctl, name) is not None
    with pytest.raises(AttributeError, match=r"'sowctl'.*'opne'"):
        sowctl.opne  # noqa: B018 - asking is what is tried
    with pytest.raises(AttributeError, match=r"'sowctl\.engine\.api'.*'opne'"):
        sowctl.engine.api.opne  # noqa: B018 - the same


def test_objects_say_what_they_are(lab: Lab) -> None:
    lab.publish("t", message(id=7, v=1))
    instance = lab.open()
    topic = instance.topic("t")
    assert repr(instance) == f"<instance 'test' of {str(lab.config)!r}: t, quotes, own, past, alone, fading>"
    assert repr(topic) == "<Topic 't' of type json>"
    result = topic.query()
    assert repr(result) == "<result of a query of 't': not read yet>"
    (batch,) = result
    assert (repr(batch), repr(result)) == ("<1 record of 't'>", "<result of a query of 't': begun>")
    assert repr(batch.records[0]).startswith("StoredRecord(")
    assert repr(next(topic.versions(7, journal=True))).startswith("VersionRecord(")
    check = topic.check()
    assert repr(check) == "<check, not read yet>"
    assert (list(check), repr(check)[:9]) == ([], "<checked ")
    with topic.subscribe(until_now=True) as following:
        assert repr(following) == "<subscription to t: not started>"
        assert [event.command for event in following] == ["group_begin", "sow", "group_end"]
        assert repr(following) == "<subscription to t: ended>"
    assert repr(topic.repair()).endswith("sound>")


def test_a_topic_that_only_the_log_names_takes_messages_and_tells_them(logged: Lab) -> None:
    instance = logged.open()
    topic = instance.topic("events")
    assert topic.publish([{"n": 1}, {"n": 2}]).journalled == 2
    assert instance.publish("events", [b'{"n":3}']).journalled == 1
    with topic.subscribe(bookmark="0", until_now=True, sow=False) as following:
        assert [event.data for event in following if event.data] == [b'{"n":1}', b'{"n":2}', b'{"n":3}']
    for refused in (lambda: topic.query(), lambda: topic.get("1"), lambda: topic.digest(), lambda: topic.info()):
        with pytest.raises(sowctl.MissingError, match=r"'events' .* TransactionLog"):
            refused()
    with pytest.raises(sowctl.MissingError, match=r"'event' .* configuration"):
        instance.topic("event")


def test_a_store_is_no_configuration(lab: Lab) -> None:
    lab.publish("t", message(id=7))
    with pytest.raises(sowctl.ConfigError) as caught:
        sowctl.open(lab.store("t"))
    assert (caught.value.code, "store" in str(caught.value.hint)) == ("SOW-CFG-014", True)


def test_a_subscription_is_left_as_an_async_context_is(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    topic = lab.open().topic("t")

    async def first() -> bytes | None:
        async with topic.subscribe(lasting=timedelta(seconds=30)) as following:
            async for event in following:
                if event.command == "sow":
                    topic.publish([message(id=2)])
                elif event.command == "publish":
                    return event.data
        return None

    assert asyncio.run(first()) == b'{"id":2}'


def test_a_datetime_is_a_place_of_the_log(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    lab.clock.tick(60)
    lab.publish("t", message(id=2))
    topic = lab.open().topic("t")
    with topic.subscribe(bookmark=datetime(2026, 1, 5, 8, 0, 30), until_now=True, sow=False) as following:
        assert [event.data for event in following if event.data] == [b'{"id":2}']


def test_dir_shows_public_names_alone(lab: Lab) -> None:
    lab.publish("t", message(id=1))
    instance = lab.open()
    topic = instance.topic("t")
    assert dir(instance) == [
        *("check", "close", "config", "digest", "export", "place", "publish", "queue", "snapshot", "sql"),
        *("subscribe", "topic"),
    ]
    assert [name for name in dir(topic) if name.startswith("_")] == []
    assert {"query", "count", "history", "publish", "name"} <= set(dir(topic))
    assert "target" not in dir(topic)
    for one in (instance, topic, topic.query()):
        assert all(hasattr(one, name) for name in dir(one))
        assert not any(name.startswith("_") for name in dir(one))


def test_an_error_as_text_has_code_place_caret_and_hint(lab: Lab) -> None:
    """Notebooks and logs show only this text of an error."""
    topic = lab.open().topic("t")
    with pytest.raises(sowctl.UsageError) as wrong:
        topic.query("/id >> 5")
    error = wrong.value
    code, *excerpt, hint = str(error).split("\n")
    assert code == f"{error.code}: {error.place}: {error.message}" if error.place else f"{error.code}: {error.message}"
    assert error.excerpt is not None and [line[2:] for line in excerpt] == error.excerpt.split("\n")
    assert "^" in excerpt[-1]
    assert hint == f"  hint: {error.hint}"
    plain = sowctl.MissingError("SOW-ENG-012", "no topic", place="x.xml:1:1")
    assert (str(plain), plain.summary) == ("SOW-ENG-012: x.xml:1:1: no topic", "x.xml:1:1: no topic")
