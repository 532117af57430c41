"""Field values as filters see them: cases C136-C139 of sowctl-behaviour(7), through publish and query."""

from __future__ import annotations

import pytest

from tests.support.instances import Lab, message


def test_c136_of_duplicate_members_the_first_counts(lab: Lab) -> None:
    lab.publish("t", '{"id":1,"code":1,"x":0,"code":2}')
    assert len(lab.query("t", "/code = 1")) == 1
    assert lab.query("t", "/code = 2") == []


@pytest.mark.parametrize(
    ("filter", "matches"),
    [("10 < 'Crank It Up'", True), ("10 > ''", False), ("'2.000' <> '2.0'", True)],
)
def test_c137_texts_and_numbers(lab: Lab, filter: str, matches: bool) -> None:
    lab.publish("t", message(id=1))
    assert len(lab.query("t", filter)) == matches


@pytest.mark.parametrize("filter", ["/data != 'zebra'", "/data[3] = 'zebra'"])
def test_c138_arrays(lab: Lab, filter: str) -> None:
    lab.publish("t", message(id=1, data=[1, 2, 3, "zebra", 5]))
    assert len(lab.query("t", filter)) == 1


@pytest.mark.parametrize("filter", ["-5 % 3 = -2", "5 % -3 = 2", "1/5 = 0", "1.0/5 = 0.2"])
def test_c139_arithmetic(lab: Lab, filter: str) -> None:
    lab.publish("t", message(id=1))
    assert len(lab.query("t", filter)) == 1
