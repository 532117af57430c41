"""Times given in messages: the formats of the trade, numbers with their unit, and rejected values."""

from __future__ import annotations

import pytest

from sowctl.errors import InputError, UsageError
from sowctl.values.times import format_time
from tests.support.instances import Lab, config_xml, message, topic_xml

AT = "2021-12-27T22:00:00.123456Z"


def _stamp(lab: Lab, topic: str = "t") -> str:
    return format_time(next(iter(lab.open().topic(topic).query().records())).timestamp)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("/ts", "20211227-22:00:00.123456"),
        ("/ts", "20211227-22:00:00.123456999Z"),
        ("/ts", "20211227-23:00:00.123456+01"),
        ("/ts", "20211227T230000.123456+0100"),
        ("/ts:us", 1640642400123456),
        ("/ts:ns", 1640642400123456789),
        ("/ts:ns", "1640642400123456789"),
        ("/ts:ms", 1640642400123.456),
        ("/ts:s", "1640642400.1234569"),
        ("[/ts]:us", 1640642400123456),
    ],
)
def test_a_field_holds_the_time(lab: Lab, field: str, value: object) -> None:
    lab.publish("t", message(id=1, ts=value), timestamp_field=field)
    assert _stamp(lab) == AT


def test_a_name_that_ends_like_a_unit_stands_in_brackets(lab: Lab) -> None:
    lab.publish("t", message(id=1, **{"ts:ms": AT}), timestamp_field="[/ts:ms]")
    assert _stamp(lab) == AT


@pytest.mark.parametrize(
    ("field", "value", "code", "words"),
    [
        ("/ts", 1640642400123, "SOW-PUB-004", 'timestamp_field="/ts:ms"'),
        ("/ts:ms", AT, "SOW-PUB-004", "milliseconds"),
        ("/ts:s", 1640642400123, "SOW-PUB-004", "outside the years"),
        ("/ts:ms", -1, "SOW-PUB-006", "before 1970"),
        ("/ts", "1969-12-31", "SOW-PUB-006", "before 1970"),
    ],
)
def test_the_refusal_says_what_is_wrong(lab: Lab, field: str, value: object, code: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        lab.publish("t", message(id=1, ts=value), timestamp_field=field)
    assert caught.value.code == code


def test_an_unknown_unit_is_part_of_the_path(lab: Lab) -> None:
    lab.publish("t", message(id=1, **{"ts:min": AT}), timestamp_field="/ts:min")
    assert _stamp(lab) == AT


def test_times_of_fix_messages(tmp_path: object) -> None:
    fix = "<Topic><Name>f</Name><MessageType>fix</MessageType><Key>/11</Key><FileName>sow/%n.sow</FileName></Topic>"
    lab = Lab(tmp_path, config_xml(topic_xml("t") + fix, ()))  # type: ignore[arg-type]
    lab.publish("f", "11=a\x0152=20211227-22:00:00.123456\x01", timestamp_field="/52")
    assert _stamp(lab, "f") == AT


@pytest.mark.parametrize("field", ["ts:ms", ":ms", "/:ms"])
def test_what_is_no_path_is_refused(lab: Lab, field: str) -> None:
    with pytest.raises(UsageError):
        lab.publish("t", message(id=1), timestamp_field=field)
