"""Filters that select records by key: which keys, and that the lookup finds the same as a scan."""

from __future__ import annotations

import pytest

from sowctl.engine.search.keylookup import find_filter_keys
from sowctl.engine.sources.current import open_current_source
from sowctl.expressions.syntax.parser import parse_filter
from sowctl.identity.keys import encode_sow_key
from tests.support.instances import Lab, config_xml, message, topic_xml

TOPICS = (topic_xml("one"), topic_xml("two", "<Key>/part</Key>"), topic_xml("own", key=None))
LOGICAL = (
    topic_xml("all", "<Pattern>^/[a-z]</Pattern>"),
    topic_xml("joint", "<Pattern>^j/</Pattern>", "<KeyDomain>d</KeyDomain>"),
)


@pytest.fixture
def lab(make_lab) -> Lab:  # type: ignore[no-untyped-def]
    made: Lab = make_lab(config_xml("".join(TOPICS + LOGICAL), ("one", "two", "own", "all", "joint")))
    for number in range(6):
        made.publish("one", message(id=f"n{number}", v=number))
        made.publish("two", message(id=f"n{number}", part="ab"[number % 2], v=number))
        made.publish("own", message(v=number), sow_key=f"k{number}")
    made.publish("/a", message(id="n1"))
    made.publish("j/a", message(id="n1"))
    return made


def _named(lab: Lab, topic: str, text: str, *, bare: bool = False) -> list[int] | None:
    """Return the values of /v of the records whose keys a filter gives; None if it leaves the keys open."""
    instance = lab.open()
    config = instance.topic(topic).config
    with open_current_source(instance, config.whole_topic) as source:
        keys = find_filter_keys(parse_filter(text), source.definition, None if bare else config)
    if keys is None:
        return None
    assert keys == sorted(set(keys))
    values = {encode_sow_key(record.sow_key): record.payload for record in lab.records(topic)}
    found = [values[key] for key in keys if key in values]
    return sorted(int(payload.rpartition(b":")[2][:-1]) for payload in found)


@pytest.mark.parametrize(
    ("topic", "text", "expected"),
    [
        ("one", "/id[0] = 'n3'", [3]),
        ("one", "/id[0] IN ('n3', 'n5', 'n9')", [3, 5]),
        ("one", "/id[0] = 'n3' AND /v > 100", [3]),
        ("one", "/id[0] = 'n3' AND /id[0] = 'n4'", []),
        ("one", "/id[0] = 'n3' OR /v > 3", None),
        ("one", "/v = 3", None),
        ("one", "/id = 'n3'", None),  # true for any value of an array, but the key is made of the first
        ("one", "/id[0] = '3'", None),  # as a number it also equals '3.0', which is another key
        ("one", "/id > 'n3'", None),
        ("two", "/id[0] = 'n3' AND /part[0] = 'b'", [3]),
        ("two", "/id[0] IN ('n3', 'n4') AND /part[0] IN ('a', 'b')", [3, 4]),
        ("two", "/id[0] = 'n3'", None),
        ("own", "SOW_KEY() = 'k2'", [2]),
        ("own", "SOW_KEY() IN ('k2', 'k9')", [2]),
    ],
)
def test_which_keys_a_filter_names(lab: Lab, topic: str, text: str, expected: list[int] | None) -> None:
    assert _named(lab, topic, text) == expected
    by_keys = lab.query(topic, text)
    assert by_keys == lab.query(topic, f"({text}) AND LENGTH(CONCAT(SOW_KEY(), 'x')) > 1", index_from=None)
    if expected is not None:
        assert len(by_keys) == (0 if "/v > 100" in text else len(expected))


def test_a_sow_key_is_named_by_its_one_decimal_spelling(lab: Lab) -> None:
    number = lab.records("one", "/id[0] = 'n3'")[0].sow_key
    other = lab.records("one", "/id[0] = 'n4'")[0].sow_key
    assert _named(lab, "one", f"SOW_KEY() = '{number}'") == [3]
    assert _named(lab, "one", f"SOW_KEY() = '{number}' AND /id[0] = 'n3'") == [3]
    assert _named(lab, "one", f"SOW_KEY() IN ('{number}', '{other}') AND /id[0] IN ('n3', 'n5')") == [3], (
        "both must hold"
    )
    assert len(lab.query("one", f"SOW_KEY() = '{number}'")) == 1
    assert _named(lab, "one", f"SOW_KEY() = {number}") == [3], "generated keys have one spelling, so a number names one"
    assert _named(lab, "own", f"SOW_KEY() = {number}") is None, "a publisher may spell a number in other ways"
    for text in (f"0{number}", f" {number}", "x", str(1 << 64)):
        assert _named(lab, "one", f"SOW_KEY() = '{text}'") == []
        assert lab.query("one", f"SOW_KEY() = '{text}'") == []


def test_key_fields_name_nothing_where_the_domain_is_not_known(lab: Lab) -> None:
    """For a bare file, whose topic is not known; and for logical topics, whose keys have separate domains."""
    number = lab.records("one", "/id[0] = 'n3'")[0].sow_key
    assert _named(lab, "one", "/id[0] = 'n3'", bare=True) is None
    assert _named(lab, "one", f"SOW_KEY() = '{number}'", bare=True) == [3]
    assert _named(lab, "all", "/id[0] = 'n1'") is None
    assert _named(lab, "all", f"SOW_KEY() = '{number}'", bare=True) is None
    assert _named(lab, "joint", "/id[0] = 'n1'") is None
    assert lab.query("all", "/id[0] = 'n1'") == lab.query("/a", "/id[0] = 'n1'") == [message(id="n1")]
