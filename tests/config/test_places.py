"""Every text that is an expression or a pattern is parsed at its position, and its error is shown inside the XML."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.elements.element import walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.kinds import CONTAINER_KINDS, VALUE_KINDS
from sowctl.config.validate import validate_config

Write = Callable[..., Path]
NAMED = "<Name>n</Name><MessageType>json</MessageType>"
TOPIC = f"<SOW><Topic>{NAMED}<FileName>f</FileName>{{}}</Topic></SOW>"
VIEW = (
    f"<SOW><Topic><Name>t</Name><MessageType>json</MessageType><FileName>f</FileName></Topic><View>{NAMED}"
    "<UnderlyingTopic>{}</UnderlyingTopic><Projection><Field>{}</Field></Projection><Grouping><Field>{}</Field>"
    "</Grouping>{}</View></SOW>"
)
COPY = (
    "<SOW><Topic><Name>t</Name><MessageType>json</MessageType><FileName>f</FileName></Topic>"
    f"<ConflatedTopic>{NAMED}<UnderlyingTopic>t</UnderlyingTopic>{{}}</ConflatedTopic></SOW>"
)
LOG = (
    "<TransactionLog><JournalDirectory>j</JournalDirectory><Topic>{}<MessageType>json</MessageType></Topic>"
    "</TransactionLog>"
)
TARGET = "<DefaultPublishTarget>n</DefaultPublishTarget>"
QUEUE = f"<SOW><Queue>{NAMED}{{}}</Queue></SOW>" + LOG.format("<Name>n</Name>")
SENT = (
    "<Replication><Destination><Name>d</Name><SyncType>sync</SyncType><Topic>" + NAMED + "{}</Topic>{}"
    "<Transport><Type>amps-replication</Type><InetAddr>h:1</InetAddr></Transport></Destination></Replication>"
) + LOG.format("<Name>n</Name>")
DO = (
    "<Actions><Action><On><Module>amps-action-on-startup</Module></On><Do><Module>amps-action-do-delete-sow</Module>"
    "<Options><Topic>t</Topic><MessageType>json</MessageType><Filter>{}</Filter></Options></Do></Action></Actions>"
    "<SOW><Topic><Name>t</Name><MessageType>json</MessageType><FileName>f</FileName></Topic></SOW>"
)
FAULTS = {
    "filter": ("/a &gt; 1 AND\n  <![CDATA[/b <]]> 2 )", ")"),
    "value": ("/a &gt; 1 AND\n  LENGHT(/b)", "LENGHT"),
    "field": ("/a * &#50; +\n  ) AS /c", ")"),
    "bare": ("/a,\n  %b", "%"),
    "join": ("[t]./a =\n  7", "7"),
    "regex": ("^a.*\n(b", "b"),
}


@pytest.mark.parametrize(
    ("around", "kind", "rule"),
    [
        (TOPIC.format("<Preprocessing><Field>{}</Field></Preprocessing>"), "field", "S036"),
        (TOPIC.format("<Enrichment><Field>{}</Field></Enrichment>"), "field", "S036"),
        (TOPIC.format("<Pattern>{}</Pattern>"), "regex", "S063"),
        (VIEW.format("t", "{}", "/a", ""), "field", "S036"),
        (VIEW.format("t", "/a", "{}", ""), "bare", "S034"),
        (VIEW.format("<Join>{}</Join>", "[t]./a", "[t]./a", ""), "join", "S038"),
        (VIEW.format("t", "/a", "/a", "<Filter>{}</Filter>"), "filter", "S035"),
        (VIEW.format("t", "/a", "/a", "<Filter>{}</Filter>"), "value", "S035"),
        (COPY.format("<Filter>{}</Filter>"), "filter", "S035"),
        (COPY.format("<Enrichment><Field>{}</Field></Enrichment>"), "field", "S036"),
        (QUEUE.format("<Filter>{}</Filter>"), "filter", "S035"),
        (QUEUE.format("<Priority>{}</Priority>"), "filter", "S035"),
        (QUEUE.format("<BarrierExpression>{}</BarrierExpression>"), "value", "S035"),
        (QUEUE.format(f"<UnderlyingTopic>{{}}</UnderlyingTopic>{TARGET}"), "regex", "S063"),
        (SENT.format("<Filter>{}</Filter>", ""), "filter", "S035"),
        (SENT.format("", "<PassThrough>{}</PassThrough>"), "regex", "S063"),
        (LOG.format("<Name>{}</Name>"), "regex", "S063"),
        ("<Admin><AnonymousPaths>{}</AnonymousPaths></Admin>", "regex", "S063"),
        (DO, "filter", "S035"),
    ],
)  # fmt: skip
def test_a_fault_is_shown_where_it_is(write: Write, around: str, kind: str, rule: str) -> None:
    text, fault = FAULTS[kind]
    path = write(f"<AMPSConfig>\n<Name>x</Name>\n{around.replace('{}', text)}\n</AMPSConfig>")
    found = [finding for finding in validate_config(path, environment={}) if finding.id == rule]
    assert found
    place = found[0].place
    lines = path.read_text().splitlines()
    assert place.line == 4
    assert lines[3][(place.column or 0) - 1 :].startswith(fault)
    assert found[0].excerpt is not None
    source, caret = found[0].excerpt.splitlines()
    assert source[caret.index("^") :].startswith(fault)


def test_every_kind_of_text_is_among_them() -> None:
    kinds = {row.kind.partition(":")[0] for _, row in walk_rows(INSTANCE)} - set(VALUE_KINDS) - CONTAINER_KINDS
    kinds -= {kind.partition(":")[0] for kind in VALUE_KINDS}
    assert kinds == {
        *("enum", "filter", "priority", "preprocessing", "enrichment", "projection", "grouping", "join", "regex"),
    }
    deep = {
        kind for modules in ACTION_MODULES.values() for module in modules.values() for kind in module.options.values()
    }
    assert deep <= {"", "every", "usage", "interval", "filter", "regex"}
