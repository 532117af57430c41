"""Meaning of key texts: get, history of stores and journals, and programs all resolve them the same way."""

from __future__ import annotations

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.search.keytext import resolve_key_texts
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.get import get_records
from sowctl.engine.verbs.history import read_key_versions
from sowctl.errors import UsageError
from tests.support.instances import Lab, config_xml, message, topic_xml

HISTORY = "<History><Window>1h</Window><Granularity>10s</Granularity></History>"
TOPICS = {
    "one": topic_xml("one", HISTORY),
    "two": topic_xml("two", "<Key>/part</Key>", HISTORY),
    "own": topic_xml("own", HISTORY, key=None),
}


@pytest.fixture
def lab(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    made: Lab = make_lab(config_xml("".join(TOPICS.values()), tuple(TOPICS)))
    for number in ("7", "12", "0", "a b"):
        made.publish("one", message(id=number))
        made.publish("two", message(id=number, part="x"))
        made.publish("own", message(id=number), sow_key=f"k{number.replace(' ', '')}")
    return made


def _expected(lab: Lab, topic: str, text: str, *, fields: bool) -> str | None:
    """Return the record that a text selects, found by comparison with every record."""
    for record in lab.records(topic):
        number, own = str(record.sow_key), record.user_key
        if not fields and text == (number if own is None else own):
            return record.payload.decode()
    for record in lab.records(topic):
        members = dict(part.split(":") for part in record.payload.decode()[1:-1].split(","))
        texts = {"one": ['"id"'], "two": ['"id"', '"part"'], "own": []}[topic]
        if texts and text == ",".join(members[name].strip('"') for name in texts):
            return record.payload.decode()
    return None


@pytest.mark.parametrize("topic", TOPICS)
def test_every_verb_takes_the_text_of_a_key_alike(lab: Lab, topic: str) -> None:
    numbers = [str(record.sow_key) for record in lab.records(topic)]
    texts = [*numbers, "7", "12", "0", "a b", "7,x", "a b,x", "7,y", "k7", "kab", "no", "99", f"{1 << 64}"]
    target = resolve_targets(lab.open(), topic)[0]
    for fields in (False, True):
        for text in texts:
            expected = _expected(lab, topic, text, fields=fields)
            if fields and topic == "two" and text.count(",") != 1:
                with pytest.raises(UsageError, match=r"\b2 fields") as caught:
                    get_records(lab.open(), target, [text], fields=True)
                assert caught.value.code == "SOW-QRY-002"
                continue
            if fields and topic == "own":
                with pytest.raises(UsageError) as caught:
                    get_records(lab.open(), target, [text], fields=True)
                assert caught.value.code == "SOW-QRY-005"
                continue
            found = [record.payload.decode() for record in lab.open().topic(topic).get(text, fields=fields)]
            assert found == [expected] * (expected is not None), text
            for journal in (False, True):
                try:
                    batch, missing = read_key_versions(lab.open(), target, [text], fields=fields, journal=journal)
                except UsageError as error:
                    assert (error.code, expected) == ("SOW-QRY-001", None)
                    continue
                assert [record.payload.decode() for record in batch.records] == found, text
                assert missing == [text] * (expected is None)


def test_keys_of_publishers_are_keys_in_both_ways(lab: Lab) -> None:
    topic = lab.open().topic("own")
    assert [record.user_key for record in topic.query(keys=("k7",)).records()] == ["k7"]
    assert [record.user_key for record in topic.query(sow_keys=("k7",)).records()] == ["k7"]


def test_records_come_in_the_order_of_the_texts_and_one_bad_text_spoils_no_other(lab: Lab) -> None:
    target = resolve_targets(lab.open(), "two")[0]
    batch, missing = get_records(lab.open(), target, ["12,x", "no such key", "7,x", "1,2,3", "12,x"])
    assert [record.payload.decode()[:10] for record in batch.records] == ['{"id":"12"', '{"id":"7",', '{"id":"12"']
    assert missing == ["no such key", "1,2,3"]


def test_a_sow_key_goes_before_the_text_of_another_record(lab: Lab) -> None:
    number = str(lab.records("one", "/id = '7'")[0].sow_key)
    lab.publish("one", message(id=number))
    (record,) = lab.open().topic("one").get(number)
    assert record.payload.decode() == message(id="7")
    (record,) = lab.open().topic("one").get(number, fields=True)
    assert record.payload.decode() == message(id=number)


def test_a_sow_key_is_written_in_ascii_digits_with_any_zeros_before_it(lab: Lab) -> None:
    topic = lab.open().topic("one")
    wanted = lab.records("one", "/id = '7'")[0]
    number = str(wanted.sow_key)
    for text in (number, number.zfill(25)):
        assert [record.payload for record in topic.get(text)] == [wanted.payload]
        assert [record.payload for record in topic.query(sow_keys=(text,)).records()] == [wanted.payload]
    arabic = number.translate({ord("0") + digit: 0x660 + digit for digit in range(10)})
    assert list(topic.get(arabic)) == []
    with pytest.raises(UsageError) as caught:
        list(topic.query(sow_keys=(arabic,)).records())
    assert caught.value.code == "SOW-QRY-001"


def test_a_bare_file_is_asked_for_key_fields_too(lab: Lab) -> None:
    target = Target(path=lab.store("two"))
    batch, missing = get_records(Instance(), target, ["a b,x", "a b"])
    assert ([record.payload.decode() for record in batch.records], missing) == ([message(id="a b", part="x")], ["a b"])


def test_without_the_name_of_a_logical_topic_only_sow_keys_are_meant(make_lab) -> None:  # type: ignore[no-untyped-def]
    lab = make_lab(config_xml(topic_xml("all", "<Pattern>^/[a-z]</Pattern>"), ("all",)))
    lab.publish("/a", message(id=1))
    instance = lab.open()
    (target,) = resolve_targets(instance, "all")
    assert resolve_key_texts(["1", "x"], target, None, fields=False) == [[(1).to_bytes(8, "big")], []]
    with pytest.raises(UsageError) as caught:
        resolve_key_texts(["1"], target, None, fields=True)
    assert caught.value.code == "SOW-ENG-032"
    (named,) = resolve_targets(instance, "/a")
    assert len(resolve_key_texts(["1"], named, None, fields=False)[0]) == 2
