"""Parts of a configuration: checked in their context, without findings about the missing surroundings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.elements.parent_paths import find_parent_path
from sowctl.config.load import read_document
from sowctl.config.validate import validate_config

Write = Callable[..., Path]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "<SOW><Topic><Name>a</Name><MessageType>json</MessageType></Topic></SOW>",
            [("S022", "/AMPSConfig/SOW/Topic")],
        ),
        ("<Topic><Name>a</Name></Topic>", [("S021", "/AMPSConfig/SOW/Topic"), ("S022", "/AMPSConfig/SOW/Topic")]),
        ("<TransactionLog/>", [("S064", "/AMPSConfig/TransactionLog")]),
        ("<Name>x</Name><Group>y</Group>", []),
        ("<HashIndex><Key>a</Key></HashIndex>", [("S034", "/AMPSConfig/SOW/Topic/HashIndex/Key")]),
        ("<HashIndex><Key>/a</Key></HashIndex><Priority>/price * /qty</Priority>", []),
        ("<Priority>/price *</Priority>", [("S035", "/AMPSConfig/SOW/Queue/Priority")]),
        ("<Filter>/a = (</Filter>", [("S035", "/AMPSConfig/SOW/View/Filter")]),
        ("<BarrierExpression>/type = 'b'</BarrierExpression>", []),
        ("<Field>SUM(/a) AS /b</Field>", []),
        ("<Field>SUM(/a) AS</Field>", [("S036", "/AMPSConfig/SOW/View/Projection/Field")]),
        ("<Projection><Field>/a</Field></Projection><Grouping><Field>/a</Field></Grouping>", []),
        ("<Join>[a]./b == 1</Join>", [("S038", "/AMPSConfig/SOW/View/UnderlyingTopic/Join")]),
        ("<Key>/a</Key><Key>/b</Key><SlabSize>2GB</SlabSize>", [("S040", "/AMPSConfig/SOW/Topic/SlabSize")]),
        ("<JournalSize>1XB</JournalSize>", [("S027", "/AMPSConfig/TransactionLog/JournalSize")]),
        ("<History><Window>1d</Window></History>", [("S030", "/AMPSConfig/SOW/Topic/History")]),
        ("<Duration>sometimes</Duration>", [("S023", "/AMPSConfig/SOW/Topic/Duration")]),
        ("<On><Module>amps-action-on-signal</Module></On>", [("S057", "/AMPSConfig/Actions/Action/On")]),
        ("<Destination><Name>b</Name></Destination>", [("S069", "/AMPSConfig/Replication/Destination")]),
        ("<SyncType>maybe</SyncType>", [("S069", "/AMPSConfig/Replication/Destination/SyncType")]),
        ("<Nonsense/>", [("S002", "/AMPSConfig/Nonsense")]),
    ],
)
def test_a_part_is_checked_in_its_place(write: Write, text: str, expected: list[tuple[str, str]]) -> None:
    findings = validate_config(write(text), environment={}, fragment=True)
    assert list(dict.fromkeys((finding.id, finding.place.element) for finding in findings)) == expected


def test_an_error_in_a_part_points_into_it(write: Write) -> None:
    (finding,) = validate_config(
        write("<!-- part -->\n<Priority>\n  /price *\n</Priority>"), environment={}, fragment=True
    )
    assert (finding.place.line, finding.place.column) == (3, 11)
    assert finding.excerpt is not None and finding.excerpt.endswith("^")


def test_what_is_made_up_is_known(write: Write) -> None:
    document = read_document(write("<Key>/a</Key><TopicFormat>%n</TopicFormat>"), environment={}, fragment=True)
    above = {"/AMPSConfig", "/AMPSConfig/SOW", "/AMPSConfig/SOW/Topic", "/AMPSConfig/SOW/ConflatedTopic"}
    assert document.synthetic_paths == above
    assert read_document(write("<AMPSConfig/>"), environment={}).synthetic_paths == frozenset()


@pytest.mark.parametrize(
    ("tag", "above"),
    [
        ("Key", ("SOW", "Topic")),
        ("Enrichment", ("SOW", "Topic")),
        ("Field", ("SOW", "View", "Projection")),
        ("LeasePeriod", ("SOW", "Queue")),
        ("FlushInterval", ("TransactionLog",)),
        ("Library", ("Modules", "Module")),
        ("RotationThreshold", ("Logging", "Target")),
        ("SOW", ()),
        ("Name", ()),
        ("Nonsense", ()),
    ],
)
def test_homes(tag: str, above: tuple[str, ...]) -> None:
    assert find_parent_path(tag) == above
