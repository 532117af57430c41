"""Results ordered by fields or by time: interpretation of mixed values, ties, memory (behaviour C58-C60, 3.2)."""

from __future__ import annotations

import json
import random

import pytest

from tests.support.instances import Lab, message


def _ids(payloads: list[str]) -> list[object]:
    return [json.loads(payload)["id"] for payload in payloads]


def test_order_by_two_fields(lab: Lab) -> None:  # C58
    rows = [(1, "d1", "c3"), (2, "d2", "c2"), (3, "d2", "c1"), (4, "d1", "c1")]
    lab.publish("t", *(message(id=i, d=d, c=c) for i, d, c in rows))
    assert _ids(lab.query("t", order_by="/d DESC, /c")) == [3, 2, 4, 1]


def test_order_as_text(lab: Lab) -> None:  # C60
    lab.publish("t", *(message(id=i, orderId=str(i)) for i in (204, 194, 72, 102)))
    assert _ids(lab.query("t", order_by="/orderId TEXT")) == [102, 194, 204, 72]


MIXED = [10, "9", 2.5, "b", "a", "-3", None, True, "", 1e300, "1e3", -0.5, "B", "10"]


def test_mixed_types_sort_by_the_rules(lab: Lab) -> None:  # 3.2; section 11, 6
    """Numbers in numeric order, before other texts; NULL first when ascending, last when descending."""
    for _ in range(6):
        order = random.Random(_).sample(MIXED, len(MIXED))
        lab.open().topic("t").delete(filter="1=1") if lab.store("t").exists() else None
        lab.publish("t", *(message(id=i, v=v) for i, v in enumerate(order)), message(id=99))
        up = [json.loads(text).get("v") for text in lab.query("t", order_by="/v")]
        down = [json.loads(text).get("v") for text in lab.query("t", order_by="/v DESC")]
        numbers = [float(v) for v in up if _is_number(v)]
        assert numbers == sorted(numbers)
        assert [_is_null(v) for v in up] == sorted(map(_is_null, up), reverse=True)
        assert [_is_null(v) for v in down] == sorted(map(_is_null, down))
        texts = [v for v in up if v in ("a", "b", "B")]
        assert texts == ["B", "a", "b"]
        last_number = max(i for i, v in enumerate(up) if _is_number(v))
        assert all(up.index(text) > last_number for text in texts)
        assert [float(v) for v in down if _is_number(v)] == numbers[::-1]


def _is_null(value: object) -> bool:
    return value is None or value == ""


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or value is None:
        return False
    try:
        float(value)  # type: ignore[arg-type]
    except ValueError:
        return False
    return True


def test_ties_come_in_key_order_and_the_order_is_the_same_every_time(lab: Lab) -> None:
    lab.publish("t", *(message(id=i, g=i % 3) for i in range(60)))
    keys = [record.key for record in lab.records("t", order_by="/g")]
    groups = [json.loads(record.payload)["g"] for record in lab.records("t", order_by="/g DESC")]
    assert groups == [2] * 20 + [1] * 20 + [0] * 20
    assert all(list(part) == sorted(part) for part in (keys[:20], keys[20:40], keys[40:]))
    down = [record.key for record in lab.records("t", order_by="/g DESC")]
    assert down == keys[40:] + keys[20:40] + keys[:20]


@pytest.mark.parametrize("top", [None, 0, 1, 50, 399, 400, 500])
@pytest.mark.parametrize("memory", [1, 5_000, 64 << 20])
def test_sorting_in_little_memory_gives_the_same(lab: Lab, top: int | None, memory: int) -> None:
    numbers = random.Random(7).sample(range(400), 400)
    lab.publish("t", *(message(id=i, v=n if n % 5 else None, s=str(n % 13)) for i, n in enumerate(numbers)))
    plain = lab.query("t", order_by="/s DESC, /v")
    found = lab.query("t", order_by="/s DESC, /v", sort_memory=memory, top_n=top, batch_size=7)
    assert found == (plain if top is None else plain[:top])


def test_a_number_late_in_the_scan_changes_the_reading(lab: Lab) -> None:
    """Texts of digits sort as numbers as soon as one number exists, at any position of the scan."""
    lab.publish("t", *(message(id=i, v=str(i)) for i in range(3000)))
    up = [json.loads(text)["v"] for text in lab.query("t", order_by="/v", batch_size=100, sort_memory=20_000)]
    assert up == sorted(up)
    lab.publish("t", message(id=3000, v=2.5))
    up = [json.loads(text)["v"] for text in lab.query("t", order_by="/v", batch_size=100, sort_memory=20_000)]
    assert [float(v) for v in up] == sorted(float(v) for v in up)


def test_records_in_the_order_of_updates(lab: Lab) -> None:
    for number in (5, 3, 9, 3, 1):
        lab.clock.tick(1)
        lab.publish("t", message(id=number))
    assert _ids(lab.query("t", by_time=True)) == [5, 9, 3, 1]
    assert _ids(lab.query("t", by_time=True, top_n=2)) == [5, 9]
