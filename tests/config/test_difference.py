"""Which differences between two configurations count, and which do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.difference import Difference, find_differences
from sowctl.config.load import read_document
from sowctl.config.show import build_typed_items

Write = Callable[..., Path]
TOPIC = "<Topic><Name>{}</Name><MessageType>json</MessageType><FileName>{}</FileName>{}</Topic>"
VIEW = (
    "<View><Name>v</Name><MessageType>json</MessageType><UnderlyingTopic>{}</UnderlyingTopic>"
    "<Projection>{}</Projection><Grouping>{}</Grouping>{}</View>"
)


def compare(write: Write, before: str, after: str) -> list[Difference]:
    items = [
        build_typed_items(
            read_document(write(f"<AMPSConfig><Name>x</Name>{text}</AMPSConfig>", name), environment={"V": "5"})
        )
        for name, text in (("a.xml", before), ("b.xml", after))
    ]
    found = list(find_differences(*items))
    assert [difference[:4] for difference in find_differences(items[0], items[0])] == []
    mirrored = {"added": "removed", "removed": "added"}
    back = sorted(d.change for d in find_differences(items[1], items[0]))
    assert back == sorted(mirrored.get(d.change, d.change) for d in found)
    return found


def topic(inner: str, name: str = "a", file: str = "f") -> str:
    return f"<SOW>{TOPIC.format(name, file, inner)}</SOW>"


def view(
    source: str = "a", fields: str = "<Field>/b</Field>", grouping: str = "<Field>/b</Field>", more: str = ""
) -> str:
    return f"<SOW>{VIEW.format(source, fields, grouping, more)}</SOW>"


def fields(*texts: str) -> str:
    return "".join(f"<Field>{text}</Field>" for text in texts)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<Group>x</Group><RegexTopicSupport>TRUE</RegexTopicSupport>", "<Replication/><Actions></Actions>"),
        (topic("<SlabSize>5MB</SlabSize>"), topic("<SlabSize>5120k</SlabSize>")),
        (topic("<SlabSize>${V}MB</SlabSize>"), topic("")),
        (topic("<Expiration>90m</Expiration>"), topic("<Expiration>1.5h</Expiration>")),
        (topic("<Expiration>Disabled</Expiration><Durability>PERSISTENT</Durability>"), topic("")),
        (
            topic("<RecordSize>1KB</RecordSize><IncrementSize>1k</IncrementSize>"),
            topic("<SlabSize>1024000</SlabSize><InitialSlabCount>3</InitialSlabCount>"),
        ),
        (topic("", file="./sow//f"), topic("", file="sow/f")),
        (topic("<Index>/a</Index><Index>/b</Index>"), topic("<Index>/b</Index><Index>/a</Index>")),
        (
            topic("<HashIndex><Key>/a</Key><Key>/b</Key></HashIndex>"),
            topic("<HashIndex><Key>/b</Key><Key>/a</Key></HashIndex>"),
        ),
        (
            "<SOW>" + TOPIC.format("a", "a", "") + TOPIC.format("b", "b", "") + "</SOW>",
            "<TopicMetaData><TopicDefinition><FileName>b</FileName><MessageType>json</MessageType><Topic>b</Topic>"
            "<Duration>persistent</Duration></TopicDefinition>" + TOPIC.format("a", "a", "") + "</TopicMetaData>",
        ),
        (view(more="<Filter>/a = 1 and (/b &gt; 2)</Filter>"), view(more="<Filter>/a=1 AND /b>2</Filter>")),
        (view(fields=fields("/b", "SUM(/c) as /d")), view(fields=fields("/b AS /b", "sum( /c ) AS\n/d"))),
        (view(source="<Join>[a]./x = [b]./x</Join>"), view(source="<Join>[a]./x=[b]./x</Join>")),
        (
            "<Transports><Transport><Name>a</Name><Type>tcp</Type><Protocol>json</Protocol></Transport>"
            "<Transport><Name>b</Name><Type>tcp</Type></Transport></Transports>",
            "<Transports><Transport><Name>b</Name><Type>tcp</Type></Transport>"
            "<Transport><Name>a</Name><Type>TCP</Type><Protocol>amps</Protocol></Transport></Transports>",
        ),
        (
            "<Logging><Target><Protocol>stdout</Protocol><Level>debug</Level></Target>"
            "<Target><Protocol>syslog</Protocol></Target></Logging>",
            "<Logging><Target><Protocol>syslog</Protocol></Target>"
            "<Target><Protocol>stdout</Protocol><Level>info</Level></Target></Logging>",
        ),
    ],
)  # fmt: skip
def test_the_same_meaning(write: Write, before: str, after: str) -> None:
    assert compare(write, before, after) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("", "<Group>y</Group>", [("changed", "/Group", "x", "y")]),
        ("", "<ProcessName>p</ProcessName>", [("added", "/ProcessName", None, "p")]),
        (topic(""), "", [("removed", "/SOW", None, None)]),
        (topic(""), topic("<SlabSize>8MB</SlabSize>"), [("changed", "/SOW/Topic[a json]/SlabSize", "5MB", "8MB")]),
        (
            topic(""),
            topic("", name="b"),
            [("removed", "/SOW/Topic[a json]", None, None), ("added", "/SOW/Topic[b json]", None, None)],
        ),
        (
            topic("<Key>/a</Key><Key>/b</Key>"),
            topic("<Key>/b</Key><Key>/a</Key>"),
            [("added", "/SOW/Topic[a json]/Key[1]", None, "/b"), ("removed", "/SOW/Topic[a json]/Key[2]", "/b", None)],
        ),
        (
            topic("<Index>/a</Index><Index>/b</Index>"),
            topic("<Index>/b</Index><Index>/c</Index>"),
            [("changed", "/SOW/Topic[a json]/Index[1]", "/a", "/c")],
        ),
        (
            view(fields=fields("/b", "SUM(/c) AS /d")),
            view(fields=fields("/b", "MAX(/c) AS /d")),
            [("changed", "/SOW/View[v json]/Projection/Field[2]", "SUM(/c) AS /d", "MAX(/c) AS /d")],
        ),
        (
            view(more="<Filter>/a = 1</Filter>"),
            view(more="<Filter>/a = '1'</Filter>"),
            [("changed", "/SOW/View[v json]/Filter", "/a = 1", "/a = '1'")],
        ),
        (
            view(more="<Filter>/a = (</Filter>"),
            view(more="<Filter>/a  = (</Filter>"),
            [],
        ),
    ],
)
def test_differences(write: Write, before: str, after: str, expected: list[tuple[str, ...]]) -> None:
    assert [found[:4] for found in compare(write, before, after)] == expected


def test_a_difference_knows_both_places(write: Write) -> None:
    (found,) = compare(write, "", "\n<Group>y</Group>")
    assert str(found.before_origin) == "default"
    assert str(found.after_origin).endswith("b.xml:2")


def test_the_order_of_a_pattern_and_what_it_would_take(write: Write) -> None:
    pattern = TOPIC.format("all", "p", "<Pattern>^a</Pattern>")
    exact, other = TOPIC.format("a1", "e", ""), TOPIC.format("b1", "o", "")
    first = f"<SOW>{exact}{other}{pattern}</SOW>"
    assert compare(write, first, f"<SOW>{other}{exact}{pattern}</SOW>") == []
    assert compare(write, first, f"<SOW>{exact}{pattern}{other}</SOW>") == []
    (found,) = compare(write, first, f"<SOW>{pattern}{exact}{other}</SOW>")
    assert found[:4] == ("moved", "/SOW/Topic[a1 json]", "before all", "after all")


def action(event: str, module: str) -> str:
    return (
        f"<Action><On><Module>amps-action-on-{event}</Module></On>"
        f"<Do><Module>amps-action-do-{module}</Module></Do></Action>"
    )


def test_the_order_of_actions_counts_where_they_run_in_it(write: Write) -> None:
    def both(event: str, *modules: str) -> str:
        return f"<Actions>{''.join(action(event, module) for module in modules)}</Actions>"

    assert compare(write, both("minidump", "nothing", "rotate-logs"), both("minidump", "rotate-logs", "nothing")) == []
    (found,) = compare(write, both("startup", "nothing", "rotate-logs"), both("startup", "rotate-logs", "nothing"))
    assert found[:2] == ("moved", "/Actions/Action")


def test_the_steps_of_an_action_are_a_sequence(write: Write) -> None:
    one, two = (
        "<Do><Module>amps-action-do-nothing</Module></Do>",
        "<Do><Module>amps-action-do-rotate-logs</Module></Do>",
    )
    on = "<On><Module>amps-action-on-startup</Module></On>"
    found = compare(
        write,
        f"<Actions><Action>{on}{one}{two}</Action></Actions>",
        f"<Actions><Action>{on}{two}{one}</Action></Actions>",
    )
    assert sorted(d.change for d in found) == ["added", "removed"]


def test_the_same_name_several_times_is_compared_one_by_one(write: Write) -> None:
    module = "<Module><Name>m</Name><Library>{}</Library></Module>"
    one, two, three = (module.format(name) for name in ("1", "2", "3"))
    found = compare(write, f"<Modules>{one}{two}</Modules>", f"<Modules>{two}{three}</Modules>")
    assert [d[:4] for d in found] == [("changed", "/Modules/Module[m]/Library", "1", "3")]
