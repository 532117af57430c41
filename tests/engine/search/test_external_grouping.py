"""Groups of queries and views that exceed memory are byte for byte those computed in memory."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from sowctl.engine.search.external_grouping import ExternalGrouping, GroupWriter
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.expressions.rows.groups import Group
from tests.support.instances import Lab, config_xml, message, topic_xml

MakeLab = Callable[..., Lab]
CALLS = ("SUM", "AVG", "COUNT", "MIN", "MAX", "STDDEV_POP", "COUNT_DISTINCT", "ANY", "UNIQUE", "GROUP_CONCAT")


def view(name: str, underlying: str, front: str) -> str:
    fields = "".join(f"<Field>{call}({front}/v) AS /{call.lower()}</Field>" for call in CALLS)
    return f"""<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{underlying}</UnderlyingTopic>
<Projection><Field>{front}/g</Field><Field>{front}/id AS /last</Field>{fields}</Projection>
<Grouping><Field>{front}/g</Field></Grouping></View>"""


XML = config_xml(
    topic_xml("t")
    + topic_xml("others")
    + view("single", "t", "")
    + view("joined", "<Join>[t]./g = [others]./k</Join>", "[t]."),
    ("t",),
)


@pytest.fixture
def lab(make_lab: MakeLab) -> Lab:
    made = make_lab(XML)
    chance = random.Random(7)
    values = [1, 2.5, -7, 10**20, 1e308, -1e308, float(3), "x", "12", None, "", True]
    rows = [message(id=n, g=chance.randrange(40), v=chance.choice(values)) for n in range(600)]
    for start in range(0, 600, 100):
        made.clock.tick(1)
        made.publish("t", *rows[start : start + 100])
    made.publish("others", *(message(id=n, k=n % 20) for n in range(40)))
    # Later updates of some records, so that key order differs from update order.
    made.publish("t", *(message(id=n, g=3, v=n) for n in (500, 20, 444, 5)))
    return made


@pytest.mark.parametrize("name", ["single", "joined"])
@pytest.mark.parametrize("columns", [0, 1 << 40])
def test_the_same_bytes(lab: Lab, name: str, columns: int) -> None:
    with patch.object(VIEW_LIMITS, "min_column_records", columns):
        whole = [(one.sow_key, one.payload, one.txid) for one in lab.records(name, fresh=True)]
        for limit in (500, 15_000):
            with (
                patch.object(VIEW_LIMITS, "read_batch_records", 37),
                patch.object(QUERY_LIMITS, "group_state_bytes", 500),
            ):
                parts: list[int] = []
                write = ExternalGrouping._write

                def counted(
                    self: ExternalGrouping, messages: Any, write: Any = write, parts: list[int] = parts
                ) -> None:
                    parts.append(1)
                    write(self, messages)

                with patch.object(ExternalGrouping, "_write", counted):
                    found = lab.records(name, fresh=True, sort_memory=limit)
            assert [(one.sow_key, one.payload, one.txid) for one in found] == whole
            assert parts
        assert len(whole) == 40


def test_what_fits_is_not_spilled(lab: Lab) -> None:
    with patch.object(ExternalGrouping, "_write", side_effect=AssertionError):
        assert len(lab.query("single")) == 40


def test_inputs_that_are_no_longer_needed_are_dropped_before_groups_are_spilled(make_lab: MakeLab) -> None:
    most = "<Field>/g</Field><Field>MAX(/v) AS /most</Field><Field>SUM(/v) AS /sum</Field>"
    xml = f"""<View><Name>best</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>
<Projection>{most}</Projection><Grouping><Field>/g</Field></Grouping></View>"""
    lab = make_lab(config_xml(topic_xml("t") + xml, ("t",)))
    lab.publish("t", *(message(id=n, g=n % 3, v=n) for n in range(3000)))
    for columns in (0, 1 << 40):
        with (
            patch.object(VIEW_LIMITS, "min_column_records", columns),
            patch.object(VIEW_LIMITS, "read_batch_records", 100),
            patch.object(ExternalGrouping, "_write", side_effect=AssertionError),
        ):
            # Three groups, and the inputs of two batches.
            found = lab.records("best", fresh=True, sort_memory=3 * QUERY_LIMITS.group_state_bytes + 40_000)
        assert sorted(json.loads(one.payload)["most"] for one in found) == [2997, 2998, 2999]


def test_groups_are_not_looked_at_again_with_every_batch(make_lab: MakeLab) -> None:
    most = "<Field>/g</Field><Field>MAX(/v) AS /most</Field>"
    xml = f"""<View><Name>best</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>
<Projection>{most}</Projection><Grouping><Field>/g</Field></Grouping></View>"""
    lab = make_lab(config_xml(topic_xml("t") + xml, ("t",)))
    lab.publish("t", *(message(id=n, g=n % 300, v=n) for n in range(3000)))
    looks: list[Group] = []
    compact = Group.compact

    def counted(group: Group) -> int:
        looks.append(group)
        return compact(group)

    with (
        patch.object(VIEW_LIMITS, "min_column_records", 1 << 40),
        patch.object(VIEW_LIMITS, "read_batch_records", 10),
        patch.object(Group, "compact", counted),
    ):
        # All groups with one input each, and little more.
        each = QUERY_LIMITS.group_state_bytes + QUERY_LIMITS.group_input_bytes + QUERY_LIMITS.group_stamp_bytes
        found = lab.records("best", fresh=True, sort_memory=300 * each + 1000)
    assert sorted(json.loads(one.payload)["most"] for one in found) == list(range(2700, 3000))
    assert len(looks) < 3 * 3000


@pytest.mark.parametrize("rows", [False, True])
def test_no_more_groups_are_held_than_fit_and_parts_are_divided_again(
    lab: Lab, rows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUERY_LIMITS, "lasting_array_min_rows", 0)
    monkeypatch.setattr(QUERY_LIMITS, "max_spill_files", 3)
    monkeypatch.setattr(QUERY_LIMITS, "group_batch_records", 10)
    # Projections with headers are computed row by row.
    last = "SOW_KEY() AS /key" if rows else "/g AS /again"
    asked = {"projection": f"/id, {last}, SUM(/v) AS /sum, ANY(/g) AS /any", "grouping": "/id", "index_from": None}

    def found(memory: int) -> list[Any]:
        return [(one.sow_key, one.payload, one.txid) for one in lab.records("t", sort_memory=memory, **asked)]

    whole, held, counts = found(1 << 26), list[int](), set[int]()
    assert len(whole) == 600
    write, make = ExternalGrouping.add, GroupWriter.iterate_messages

    def add(self: ExternalGrouping, messages: Any) -> None:
        write(self, messages)
        counts.add(self._part[1])

    def iterate(self: GroupWriter, groups: Any) -> Any:
        held.append(len(groups))
        return make(self, groups)

    with patch.object(ExternalGrouping, "add", add), patch.object(GroupWriter, "iterate_messages", iterate):
        assert found(30 * QUERY_LIMITS.group_state_bytes) == whole
    assert max(held) <= 30
    assert sum(held) == 600
    # Where few messages are known to come, there are few files.
    assert len(counts) > 2


def test_a_single_group_is_not_written(lab: Lab) -> None:
    with patch.object(ExternalGrouping, "_write", side_effect=AssertionError):
        (row,) = lab.query("t", projection="GROUP_CONCAT(/id) AS /ids", grouping="", sort_memory=1)
    assert len(json.loads(row)["ids"].split(",")) == 600
