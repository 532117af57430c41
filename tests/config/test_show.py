"""The output of show: the same meaning when read again, defaults, origins, and values with their types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sowctl.config import show
from sowctl.config.difference import find_differences
from sowctl.config.document import Document
from sowctl.config.instance import load_instance
from sowctl.config.load import read_document
from sowctl.config.validate import validate_config
from sowctl.errors import ConfigError

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {"RECOVER_FROM": "2026-01-02T03:04:05Z", "STORAGE_DIR": "/storage", "ENV_LOG": "/log"}
Write = Callable[..., Path]


def configurations() -> Iterator[Path]:
    yield from sorted((ROOT / "samples").rglob("*.xml"))
    yield from sorted((ROOT / "tests" / "config" / "bad").glob("*.xml"))
    yield from sorted((ROOT / "tests" / "config" / "rules").rglob("*.xml"))


def loads(path: Path) -> Document | None:
    """The document, or None if the file breaks a rule of loading."""
    try:
        return read_document(path, environment=ENVIRONMENT, fragment=True)
    except ConfigError:
        return None


def check_round_trip(path: Path, again: Path) -> bool:
    """Print and read again; return whether the file can be printed."""
    document = loads(path)
    if document is None or document.fragment:
        return False
    root = document.root
    again.write_text("\n".join(show.format_xml(show.build_expanded_items(document), origins=True)), encoding="utf-8")
    written = read_document(again, environment={}, root=root)
    assert show.build_values(show.build_expanded_items(written)) == show.build_values(
        show.build_expanded_items(document)
    )
    try:
        before = show.build_typed_items(document)
    except ConfigError:
        return False
    for origins in (False, True):
        again.write_text("\n".join(show.format_xml(before, origins=origins)), encoding="utf-8")
        after = show.build_typed_items(read_document(again, environment={}, root=root))
        assert list(find_differences(before, after)) == []
        assert show.build_values(after) == show.build_values(before)
    had = {finding.id for finding in validate_config(path, environment=ENVIRONMENT)}
    assert {finding.id for finding in validate_config(again, environment={})} <= had
    if not had:
        one = load_instance(path, environment=ENVIRONMENT, root=root)
        other = load_instance(again, environment={}, root=root)
        assert one == other
        assert (one.modules, one.functions, one.actions) == (other.modules, other.functions, other.actions)
    return True


@pytest.mark.parametrize("path", list(configurations()), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_what_is_printed_means_the_same(path: Path, tmp_path: Path) -> None:
    check_round_trip(path, tmp_path / "again.xml")


def test_configurations_in_the_wild(shared: Path, tmp_path: Path) -> None:
    files = sorted((shared / "conformance/configs/real").glob("*.xml"))
    printed = [file.name for file in files if check_round_trip(file, tmp_path / "again.xml")]
    assert len(printed) >= 20, printed


def test_every_good_sample_is_printed(tmp_path: Path) -> None:
    good = [path for path in configurations() if path.parent.name in ("seeds", "demo")]
    assert sum(check_round_trip(path, tmp_path / "again.xml") for path in good) >= 35


def typed(path: Path, **environment: str) -> Any:
    return show.build_values(show.build_typed_items(read_document(path, environment=environment)))


def topic(instance: Write, inner: str, **more: str) -> dict[str, Any]:
    text = f"<Topic><Name>a</Name><MessageType>json</MessageType><FileName>f</FileName>{inner}</Topic>"
    found: dict[str, Any] = typed(instance(text, **more))["SOW"][0]
    return found


def test_values_have_types(instance: Write) -> None:
    found = topic(
        instance,
        "<Key>/a/b</Key><SlabSize>2mb</SlabSize><Expiration>1.5H</Expiration><ExpectedKeyCountHint>2k"
        "</ExpectedKeyCountHint><Duration>TRANSIENT</Duration>",
    )
    assert found == {
        "element": "Topic",
        "Name": "a",
        "MessageType": "json",
        "FileName": "f",
        "Key": ["/a/b"],
        "SlabSize": 2 << 20,
        "Expiration": 5_400_000_000_000,
        "ExpectedKeyCountHint": 2000,
        "Durability": "transient",
        "KeyDomain": "a",
        "RecoveryPoint": "epoch",
        "InitialSlabCount": 1,
    }


def test_defaults_depend_on_neighbours(instance: Write) -> None:
    queue = "<Name>q</Name><MessageType>json</MessageType>"
    path = instance(
        f"<Queue>{queue}</Queue><Queue>{queue}<Semantics>at-most-once</Semantics>"
        "<UnderlyingTopic>^x.*</UnderlyingTopic></Queue>"
    )
    first, second = typed(path)["SOW"]
    assert (first["UnderlyingTopic"], first["DefaultPublishTarget"], first["FairnessModel"]) == (
        "q",
        "q",
        "proportional",
    )
    assert "DefaultPublishTarget" not in second
    assert (second["FairnessModel"], second["MaxPerSubscriptionBacklog"]) == ("round-robin", 1)
    assert "KeyDomain" not in topic(instance, "")
    sizes = topic(instance, "<RecordSize>1KB</RecordSize><IncrementSize>1k</IncrementSize>")
    assert (sizes["SlabSize"], sizes["InitialSlabCount"]) == (1024 * 1000, 3)


def test_sections_that_are_absent_are_not_made_up(write: Write) -> None:
    found = typed(write("<AMPSConfig><Name>x</Name><Replication/></AMPSConfig>"))
    assert {"Admin", "TransactionLog", "SOW"}.isdisjoint(found)
    assert (found["Group"], found["Replication"], found["RegexTopicSupport"]) == ("x", {}, True)
    assert found["ConfigCycleDetectionThreshold"] == 5 << 20


def test_options_of_actions_are_typed_and_those_of_modules_are_not(write: Write) -> None:
    found = typed(
        write(
            "<AMPSConfig><Name>x</Name><Modules><Module><Name>m</Name><Library>l</Library>"
            "<Options><Age>60m</Age></Options></Module></Modules><Actions><Action>"
            "<On><Module>amps-action-on-startup</Module></On><Do><Module>amps-action-do-remove-journal</Module>"
            "<Options><Age>60m</Age></Options></Do></Action></Actions></AMPSConfig>"
        )
    )
    assert found["Modules"]["Module"] == [{"Name": "m", "Library": "l", "Options": {"Age": "60m"}}]
    assert found["Actions"]["Action"] == [
        [
            {"element": "On", "Module": "amps-action-on-startup"},
            {"element": "Do", "Module": "amps-action-do-remove-journal", "Options": {"Age": 3_600_000_000_000}},
        ]
    ]


def test_origins(write: Write) -> None:
    write("<Topic><Name>a</Name>\n<MessageType>json</MessageType><FileName>${DIR}/f</FileName></Topic>", "a.xml")
    path = write("<AMPSConfig>\n<Name>x</Name><SOW><Include>a.xml</Include></SOW></AMPSConfig>")
    item = show.build_typed_items(read_document(path, environment={"DIR": "d"}))
    found = show.build_values(item, origins=True)
    assert found["Name"] == {"value": "x", "file": str(path), "line": 2}
    assert found["Group"] == {"value": "x", "default": True}
    included = str(path.parent / "a.xml")
    assert found["SOW"][0]["FileName"] == {"value": "d/f", "file": included, "line": 2, "variables": ["DIR"]}
    lines = {line.name: (line.depth, line.value, str(line.origin)) for line in show.format_outline(item)}
    assert lines["FileName"] == (2, "d/f", f"{included}:2 ${{DIR}}")
    assert lines["SlabSize"] == (2, "5MB", "default")
    assert lines["SOW"][:2] == (0, None)
    text = "\n".join(show.format_xml(item, origins=True))
    assert f"<FileName>d/f</FileName> <!-- {included}:2 ${{DIR}} -->" in text
    assert "<Group>x</Group> <!-- default -->" in text


def test_expanded_keeps_what_was_written(write: Write) -> None:
    write("<TopicDefinition><Topic>a</Topic><SlabSize>5M</SlabSize></TopicDefinition>", "a.xml")
    path = write("<AMPSConfig><Name>${N}</Name><SOW><Include>a.xml</Include></SOW><Odd b='1'>x</Odd></AMPSConfig>")
    item = show.build_expanded_items(read_document(path, environment={"N": "a<b & c"}))
    assert "\n".join(show.format_xml(item)) == (
        '<?xml version="1.0" encoding="UTF-8"?>\n<AMPSConfig>\n  <Name>a&lt;b &amp; c</Name>\n  <SOW>\n'
        "    <TopicDefinition>\n      <Topic>a</Topic>\n      <SlabSize>5M</SlabSize>\n    </TopicDefinition>\n"
        '  </SOW>\n  <Odd b="1">x</Odd>\n</AMPSConfig>'
    )
    assert show.build_values(item)["SOW"] == [{"element": "TopicDefinition", "Topic": "a", "SlabSize": "5M"}]


def test_a_comment_with_an_origin_is_a_comment(write: Write) -> None:
    path = write("<AMPSConfig>\n<Name>x</Name></AMPSConfig>", "a--b-\n-.xml")
    text = "\n".join(show.format_xml(show.build_typed_items(read_document(path, environment={})), origins=True))
    again = write(text, "again.xml")
    assert read_document(again, environment={}).top.find_text("Name") == "x"


def test_what_cannot_be_typed_is_an_error(instance: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        topic(instance, "<SlabSize>much</SlabSize>")
    assert (caught.value.code, caught.value.exit_status) == ("SOW-CFG-127", 4)


def test_nothing_but_errors_stops_it(instance: Write) -> None:
    path = instance(
        top="<Transports><Transport><Name>t</Name><Type>tcp</Type><ReuseAddr>1</ReuseAddr></Transport></Transports>"
    )
    assert typed(path)["Transports"]["Transport"][0]["ReuseAddr"] == "1"
