"""Record identity: cases C01-C15, C140 and C141 of sowctl-behaviour(7), except C16, C22 and C25 (see deltas)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sowctl.config.instance import load_instance
from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.targets import find_topic
from sowctl.engine.verbs.key import KeyFinder
from sowctl.errors import ConfigError, InputError
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
HISTORY = "<History><Window>1h</Window><Granularity>0s</Granularity></History>"


def _key(lab: Lab, topic: str, payload: str) -> str:
    instance = lab.open()
    teller = KeyFinder(instance, find_topic(instance, topic), PublishOptions())
    return teller.find_keys([payload.encode()])[0][0].sow_key


def test_c01_the_last_message_of_a_key_is_the_record(lab: Lab) -> None:
    lab.publish("t", message(id=1, p=120), message(id=2, p=9), message(id=1, p=95))
    assert sorted(lab.query("t")) == [message(id=1, p=95), message(id=2, p=9)]


def test_c02_a_publish_does_not_merge(lab: Lab) -> None:
    lab.publish("t", message(id=1, a=1, b=2), message(id=1, a=5))
    assert lab.query("t") == [message(id=1, a=5)]


def test_c03_two_key_fields(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", "<Key>/b</Key>", key="/a"), ("t",)))
    lab.publish("t", message(a=1, b=1), message(a=1, b=2), message(a=1, b=1, x=9))
    assert len(lab.query("t")) == 2


def test_c04_c05_topics_share_keys_only_in_one_domain(make_lab: MakeLab) -> None:
    domain = "<KeyDomain>shared</KeyDomain>"
    topics_xml = topic_xml("a") + topic_xml("b") + topic_xml("c", domain) + topic_xml("d", domain)
    lab = make_lab(config_xml(topics_xml, ("a", "b", "c", "d")))
    keys = {topic: _key(lab, topic, message(id=1)) for topic in "abcd"}
    assert keys["a"] != keys["b"]
    assert keys["c"] == keys["d"]


def test_c06_the_border_between_two_values_counts(make_lab: MakeLab) -> None:
    lab = make_lab(config_xml(topic_xml("t", "<Key>/b</Key>", key="/a"), ("t",)))
    assert _key(lab, "t", message(a="1", b="23")) != _key(lab, "t", message(a="12", b="3"))


def test_c07_keys_are_unsigned_decimal_numbers(lab: Lab) -> None:
    lab.publish("t", *(message(id=n) for n in range(40)))
    keys = [record.sow_key for record in lab.records("t")]
    assert max(keys) >= 1 << 63
    assert all(0 <= key < 1 << 64 for key in keys)
    assert {str(key) for key in keys} == {_key(lab, "t", message(id=n)) for n in range(40)}


def test_c08_a_user_key_must_come_with_the_message(lab: Lab) -> None:
    with pytest.raises(InputError) as caught:
        lab.publish("own", message(x=1))
    assert caught.value.code == "SOW-PUB-003"
    assert lab.query("own") == []
    lab.publish("own", message(x=2), sow_key="K")
    assert lab.query("own") == [message(x=2)]


def test_c09_a_user_key_is_the_record(lab: Lab) -> None:
    lab.publish("own", message(x=1), sow_key="AAA")
    lab.publish("own", message(x=2), sow_key="AAA")
    records = lab.records("own", sow_keys=("AAA",))
    assert [(record.payload.decode(), record.user_key) for record in records] == [(message(x=2), "AAA")]


@pytest.mark.parametrize("key", ["a b!", "", "ü", "a_b", "a-b", "a\n"])
def test_c10_a_user_key_is_of_the_base64_alphabet(lab: Lab, key: str) -> None:
    with pytest.raises(InputError) as caught:
        lab.publish("own", message(x=1), sow_key=key)
    assert caught.value.code == "SOW-PUB-003"


@pytest.mark.parametrize(
    ("topic", "rule"),
    [
        pytest.param(topic_xml("t", "<KeyDomain>d</KeyDomain>", key=None), "SOW-CFG-203", id="C11"),
        pytest.param(topic_xml("t", HISTORY, "<Expiration>30s</Expiration>"), "SOW-CFG-201", id="C12"),
        pytest.param(topic_xml("t", HISTORY, "<Pattern>^t</Pattern>"), "SOW-CFG-202", id="C13"),
    ],
)
def test_c11_c12_c13_contradictions_of_a_topic(tmp_path, topic: str, rule: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "sowctl.xml"
    path.write_text(config_xml(topic, ()))
    with pytest.raises(ConfigError) as caught:
        load_instance(path, environment={})
    assert (caught.value.code, caught.value.exit_status) == (rule, 4)


def test_c14_a_binary_topic_has_no_key_fields(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from sowctl.config.validate import validate_config

    path = tmp_path / "sowctl.xml"
    path.write_text(config_xml(topic_xml("t").replace(">json<", ">binary<"), ()))
    assert "F005" in [finding.id for finding in validate_config(path, environment={})]


@pytest.mark.parametrize("sow_key", [None, "AAA"])
def test_c14_nothing_is_published_to_such_a_topic(make_lab: MakeLab, sow_key: str | None) -> None:
    lab = make_lab(config_xml(topic_xml("t").replace(">json<", ">binary<"), ()))
    with pytest.raises(ConfigError) as caught:
        lab.publish("t", "x", sow_key=sow_key)
    assert (caught.value.code, caught.value.exit_status) == ("SOW-PUB-025", 4)


def test_c15_one_name_and_two_types_are_two_topics(make_lab: MakeLab) -> None:
    xml = config_xml(topic_xml("x") + topic_xml("x").replace(">json<", ">nvfix<"), ("x",))
    lab = make_lab(xml.replace("</TransactionLog>", _logged("x", "nvfix") + "</TransactionLog>"))
    instance = lab.open()
    instance.topic("x", "json").publish([message(id=1).encode()])
    instance.topic("x", "nvfix").publish([b"id=1\x01a=2\x01", b"id=2\x01a=3\x01"])
    found = {kind: [r.payload for r in lab.open().topic("x", kind).query().records()] for kind in ("json", "nvfix")}
    assert found["json"] == [message(id=1).encode()]
    assert sorted(found["nvfix"]) == [b"id=1\x01a=2\x01", b"id=2\x01a=3\x01"]


def _logged(name: str, kind: str) -> str:
    return f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType></Topic>"


def test_c140_a_bookmark_store_is_a_topic(make_lab: MakeLab) -> None:
    """The answer ``0`` for an unknown subscription comes from the subscriber; the topic has no such record."""
    topic = topic_xml("/sample/bookmarkStore", "<Key>/subId</Key>", key="/clientName")
    lab = make_lab(config_xml(topic, ("/sample/bookmarkStore",)))
    name = "/sample/bookmarkStore"
    rows = [message(clientName="c", subId=sub, bookmark=mark) for sub, mark in (("1", "b1"), ("2", "b2"))]
    lab.publish(name, *rows)
    handle = lab.open().topic(name)
    assert [record.payload.decode() for record in handle.get("c,1", fields=True)] == rows[:1]
    assert list(handle.get("c,9", fields=True)) == []


def test_c141_chained_messages_are_one_record(make_lab: MakeLab) -> None:
    options = "<Options><Primary>/id</Primary><Secondary>/parent</Secondary></Options>"
    generator = f"<KeyGenerator><Module>chain</Module>{options}</KeyGenerator>"
    module = (
        "<Modules><Module><Name>chain</Name><Library>libamps_id_chaining_key_generator.so</Library></Module></Modules>"
    )
    xml = config_xml(topic_xml("c", generator, key=None), ("c",)).replace("<SOW>", module + "<SOW>")
    lab = make_lab(xml)
    deltas = [
        message(id=1, item="Soup", status="Pending"),
        message(id=2, parent=1, item="Sandwich"),
        message(id=3, parent=2),
        message(id=4, parent=1),
    ]
    lab.publish("c", *deltas, delta=True)
    assert lab.query("c") == [message(id=4, item="Sandwich", status="Pending", parent=1)]
