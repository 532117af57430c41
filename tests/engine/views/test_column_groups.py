"""Views computed from columns equal views computed row by row: messages of several shapes, joins that multiply rows."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from sowctl.config.derived_entries import View
from sowctl.config.model import OtherEntry
from sowctl.engine.search import blocks
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.views import computation
from sowctl.engine.views.definition import Program, build_query
from sowctl.engine.views.instant import ViewInstant, run_at_instant
from sowctl.engine.views.limits import VIEW_LIMITS
from sowctl.engine.views.view import open_computed
from sowctl.errors import InputError
from sowctl.expressions.columns import grouping
from sowctl.expressions.columns.limits import COLUMN_LIMITS
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.values.batch import ColumnBatch
from tests.support.instances import Lab, config_xml, topic_xml

FIELDS = ("SUM([A]./v) AS /sum", "MAX([B]./v) AS /most", "GROUP_CONCAT([B]./name) AS /names", "[A]./v AS /last",
          "COUNT([A]./id) AS /n", "ANY([A]./h) AS /any")  # fmt: skip
VIEWS = {
    "alone": ("A", ("/g", "SUM(/v) AS /sum", "MIN(/v) AS /least", "/h AS /last", "GROUP_CONCAT(/v) AS /all"), ("/g",)),
    "text": ("<Join>[A]./g = [B]./name</Join>", ("[B]./name AS /k", *FIELDS), ("[B]./name",)),
    "number": ("<Join>[A]./v = [B]./v</Join>", ("[B]./v AS /k", *FIELDS), ("[B]./v",)),
    "two": (
        "<Join>[A]./g = [B]./name</Join><Join>[A]./h = [B]./h</Join>",
        ("[A]./g AS /g", "[B]./h AS /h", *FIELDS),
        ("[A]./g", "[B]./h"),
    ),
    "chain": (
        "<Join>[A]./g = [B]./name</Join><Join>[B]./h = [C]./h</Join>",
        ("[C]./name AS /k", *FIELDS, "SUM([C]./v) AS /c"),
        ("[C]./name",),
    ),
}


def view_xml(name: str, source: str, fields: tuple[str, ...], grouping: tuple[str, ...]) -> str:
    texts, groups = (("".join(f"<Field>{one}</Field>" for one in some)) for some in (fields, grouping))
    return (
        f"<View><Name>{name}</Name><MessageType>json</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Projection>{texts}</Projection><Grouping>{groups}</Grouping></View>"
    )


def message(chance: random.Random, number: int) -> bytes:
    """Return a message of one of several shapes; joined values are written in several ways."""
    body: dict[str, Any] = {"id": number, "g": chance.choice(["x", "y", "2", ""]), "h": chance.choice(["x", "y", "2"])}
    body["name"] = chance.choice(["x", "y", "2", "z"])
    shape = chance.randrange(16)
    if shape == 0:
        body["h"] = chance.choice([2, True, None])
    if shape == 1:
        del body["g"]
    if shape == 2:
        body["g"] = chance.choice(['a\\"b', "\u00e4", [1, 2], {"o": 1}])
    body["v"] = 2.5 if shape in (3, 4, 5) else chance.choice([1, 2, 2, -1])
    if shape == 6:
        body["v"] = chance.choice(["2", "x", None, 1e308, 1 << 63])
    text = json.dumps(body).encode()
    return text.replace(b'"v": 2.5', b'"v": 2.50') if number % 2 else text


@pytest.fixture
def filled(make_lab: Callable[..., Lab]) -> Lab:
    xml = "".join(map(topic_xml, "ABC")) + "".join(view_xml(name, *view) for name, view in VIEWS.items())
    lab = make_lab(config_xml(xml, ("A", "C")))
    chance = random.Random(23)
    for topic, size in (("A", 700), ("B", 12), ("C", 8)):
        lab.open().topic(topic).publish([message(chance, number) for number in range(size)])
    # Shared records are newer than most others: then the order of rows decides which one is the latest.
    lab.open().topic("B").publish([message(chance, number) for number in range(5)])
    lab.open().topic("A").publish([message(chance, number) for number in range(0, 700, 50)])
    return lab


def shown(lab: Lab, name: str, records: int) -> list[tuple[bytes, bytes]]:
    """Return the messages of a view; sources with at least ``records`` records are read as columns."""
    instance = lab.open()
    assert instance.config is not None
    (entry,) = instance.config.find_entries(name)
    assert isinstance(entry, OtherEntry)

    def pairs(moment: Any) -> list[tuple[bytes, bytes]]:
        with closing(open_computed(moment, entry)) as source:
            return [pair for keys, values in source.read_batches(100) for pair in zip(keys, values, strict=True)]

    with patch.object(VIEW_LIMITS, "min_column_records", records):
        return run_at_instant(instance, entry, None, open_computed, pairs)


@pytest.mark.parametrize("name", VIEWS)
def test_columns_show_what_rows_show(filled: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = shown(filled, name, 1 << 60)
    assert len(wanted) > 3
    several = []
    parts = blocks.BlockColumnReader._read_pieces

    def counted(self: blocks.BlockColumnReader, block: blocks.RecordBlock) -> Any:
        several.append(len(found := parts(self, block)))
        return found

    monkeypatch.setattr(blocks.BlockColumnReader, "_read_pieces", counted)
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 0)
    for size, together in ((1 << 20, 32), (90, 0), (7, 1), (90, 2)):
        monkeypatch.setattr(QUERY_LIMITS, "group_batch_records", size)
        monkeypatch.setattr(VIEW_LIMITS, "read_batch_records", min(size, 1000))
        monkeypatch.setattr(COLUMN_LIMITS, "waiting_messages_per_group", together)
        assert shown(filled, name, 0) == wanted, size
    # Several shapes were useful, and the remaining messages were decoded.
    assert max(several) > 2


@pytest.mark.parametrize("name", ["text", "two", "chain"])
def test_rows_that_meet_many_are_made_in_parts(filled: Lab, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = shown(filled, name, 1 << 60)
    monkeypatch.setattr(JSON_LIMITS, "min_template_messages", 0)
    sizes: list[int] = []
    gathered = grouping.Grouper.gather

    def counted(self: grouping.Grouper, messages: ColumnBatch) -> Any:
        sizes.append(messages.size)
        return gathered(self, messages)

    monkeypatch.setattr(grouping.Grouper, "gather", counted)
    assert shown(filled, name, 0) == wanted
    together = max(sizes)
    for most in (100, 1):
        sizes.clear()
        monkeypatch.setattr(VIEW_LIMITS, "max_joined_rows", most)
        assert shown(filled, name, 0) == wanted
        # The rows of a single record are not split; no record joins more than 40 rows.
        assert max(sizes) <= max(most, 40) < together


@pytest.mark.parametrize("filter", ["[B]./v > 1 OR [A]./h = 'x'", "[B]./name IS NULL", "[A]./id < 300", "1 = 2"])
@pytest.mark.parametrize("name", ["number", "chain"])
def test_a_filter_of_joined_rows(filled: Lab, name: str, filter: str, tmp_path: Path) -> None:
    """No view configuration has such a filter; Spark's job has."""
    instance = filled.open()
    assert instance.config is not None
    (entry,) = instance.config.find_entries(name)
    assert isinstance(entry, View)
    program = Program(instance, replace(build_query(instance, entry), filter=filter))

    def messages(moment: ViewInstant) -> list[tuple[bytes, bytes]]:
        return [
            pair for some in computation.compute_messages(moment, program, tmp_path) for pair in zip(*some, strict=True)
        ]

    found = []
    for records in (1 << 60, 0):
        with patch.object(VIEW_LIMITS, "min_column_records", records):
            found.append(run_at_instant(instance, entry, None, open_computed, messages))
    assert found[0] == found[1]
    assert (filter == "1 = 2") == (not found[0])


def test_a_message_that_cannot_be_read_is_named_as_by_rows(make_lab: Callable[..., Lab]) -> None:
    keyed = topic_xml("A", key=None) + topic_xml("B") + view_xml("text", *VIEWS["text"])
    lab = make_lab(config_xml(keyed, ("A",)))
    for number in range(9):
        lab.publish("A", '{"v":' if number == 5 else f'{{"id":{number},"g":"x"}}', sow_key=f"k{number}")
    with pytest.raises(InputError) as by_rows:
        shown(lab, "text", 1 << 60)
    with pytest.raises(InputError) as by_columns:
        shown(lab, "text", 0)
    assert by_columns.value.code == "SOW-QRY-004"
    assert str(by_rows.value) == str(by_columns.value)
    assert by_rows.value.facts == by_columns.value.facts
