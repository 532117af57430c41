"""key: it reports the keys that publishing would give to messages, and writes nothing."""

from __future__ import annotations

import pytest

from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.targets import find_publish_topic
from sowctl.engine.verbs.key import KeyFinder, MessageKey
from sowctl.errors import UsageError
from sowctl.values.fields import Refusal
from tests.support.instances import Lab, config_xml, message, topic_xml


def _told(
    lab: Lab, topic: str, *payloads: str, options: PublishOptions | None = None
) -> tuple[list[MessageKey], list[Refusal]]:
    teller = KeyFinder(lab.open(), find_publish_topic(lab.open(), topic), options or PublishOptions())
    return teller.find_keys([payload.encode() for payload in payloads])


def test_keys_are_those_of_a_publish_and_nothing_is_written(lab: Lab) -> None:
    messages = [message(id=n) for n in ("a", 7)]
    told, refused = _told(lab, "t", *messages)
    assert refused == []
    assert [one.texts for one in told] == [("a",), ("7",)]
    assert not lab.store("t").exists()
    assert lab.journals() == []
    lab.publish("t", *messages)
    assert {one.sow_key for one in told} == {str(record.sow_key) for record in lab.records("t")}
    assert all((one.user_key, len(one.check_word)) == (None, 16) for one in told)


def test_a_message_without_a_key_is_refused_and_the_others_are_told(lab: Lab) -> None:
    told, refused = _told(lab, "t", message(id=1), "{", message(id=None), message(id=2))
    assert [one.texts for one in told] == [("1",), ("2",)]
    assert [refusal.index for refusal in refused] == [1, 2]
    assert refused[1].code == "SOW-PUB-002"


def test_the_publishers_own_key(lab: Lab) -> None:
    (one,), refused = _told(lab, "own", message(v=1), options=PublishOptions(sow_key="k"))
    assert (one.user_key, one.texts, one.key_domain, refused) == ("k", ("k",), None, [])
    lab.publish("own", message(v=1), sow_key="k")
    assert str(lab.records("own")[0].sow_key) == one.sow_key


def test_a_topic_without_records_has_no_keys(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("t"), ("t", "log")))
    with pytest.raises(UsageError) as caught:
        _told(lab, "log", message(id=1))
    assert caught.value.code == "SOW-PUB-024"
