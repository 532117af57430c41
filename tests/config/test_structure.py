"""The element table and the checks that use only it: names, multiplicity, values, ranges, old spellings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sowctl.config.elements.element import Element, walk_rows
from sowctl.config.elements.instance import INSTANCE
from sowctl.config.elements.modules import ACTION_MODULES
from sowctl.config.expression_texts import _CONTEXTS
from sowctl.config.kinds import CONTAINER_KINDS, VALUE_KINDS, read_value
from sowctl.config.validate import inspect_config
from sowctl.findings import Level

Write = Callable[..., Path]
TOPIC = "<Topic><Name>a</Name><MessageType>json</MessageType><FileName>a</FileName>{}</Topic>"
QUEUE = "<Queue><Name>q</Name><MessageType>json</MessageType>{}</Queue>"
RECORDED = "<Topic><Name>q</Name><MessageType>json</MessageType></Topic>"


def told(path: Path) -> list[tuple[str, str]]:
    return [
        (finding.id, finding.level.name) for finding in inspect_config(path, environment={}) if finding.id[0] != "B"
    ]


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        ("<Key>id</Key>", "S034"),
        ("<Key>/a + /b</Key>", "S034"),
        ("<KeyDomain> </KeyDomain><Key>/a</Key>", "S009"),
        ("<KeyGenerator/>", "S033"),
        ("<Durability>volatile</Durability>", "S023"),
        ("<RecoveryPoint>yesterday</RecoveryPoint>", "S024"),
        ("<RecoveryPoint>creation</RecoveryPoint>", "S024"),
        ("<Expiration>never</Expiration>", "S025"),
        ("<Expiration>-5s</Expiration>", "S026"),
        ("<Expiration>1h30m</Expiration>", "S026"),
        ("<Expiration></Expiration>", "S026"),
        ("<SlabSize>-1</SlabSize>", "S027"),
        ("<SlabSize>1025MB</SlabSize>", "S040"),
        ("<InitialSlabCount>1.5</InitialSlabCount>", "S028"),
        ("<InitialSlabCount>0</InitialSlabCount>", "S041"),
        ("<InitialSlabCount>2k</InitialSlabCount>", "S041"),
        ("<HashIndex></HashIndex>", "S031"),
        ("<Index>a</Index>", "S034"),
        ("<ExpectedKeyCountHint>many</ExpectedKeyCountHint>", "S028"),
        ("<History><Window>1d</Window></History>", "S030"),
        ("<Preprocessing/>", "S032"),
        ("<Enrichment><Field>/a</Field></Enrichment>", "S036"),
        ("<Enrichment><Field>/a OF PREVIOUS AS /b</Field><Field>x</Field></Enrichment>", "S036"),
        ("<Preprocessing><Field>/a OF PREVIOUS AS /b</Field></Preprocessing>", "F015"),
        ("<Preprocessing><Field>[t]./a AS /b</Field></Preprocessing>", "F016"),
        ("<Preprocessing><Field>SUM(/a) AS /b</Field></Preprocessing>", "F017"),
        ("<Pattern>^(</Pattern>", "S063"),
        ("<IncrementSize>0</IncrementSize>", "S028"),
        ("<FileName>b</FileName>", "S003"),
        ("<Filter>/a = 1</Filter>", "S001"),
        ("<Expiratoin>1s</Expiratoin>", "S002"),
        ("<key>/a</key>", "S002"),
        ("<Nothing/>", "S002"),
        ("<Durability><Key>/a</Key></Durability>", "S075"),
    ],
)
def test_topic(instance: Write, inner: str, rule: str) -> None:
    errors = [row for row in told(instance(TOPIC.format(inner))) if row[1] == "ERROR"]
    assert errors == [(rule, "ERROR")]


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        ("<Semantics>at-most_once</Semantics>", "S047"),
        ("<Expiration>enabled</Expiration>", "S025"),
        ("<Expiration>5min</Expiration>", "S026"),
        ("<ExpirationModel>last</ExpirationModel>", "S048"),
        ("<Leasing>loose</Leasing>", "S048"),
        ("<FairnessModel>fair</FairnessModel>", "S048"),
        ("<FileBackedMetadata>disabled</FileBackedMetadata>", "S049"),
        ("<TargetQueueDepth>999</TargetQueueDepth>", "S045"),
        ("<Filter>UNIX_TIMESTAMP() &gt; /t</Filter>", "F018"),
        ("<Filter>/a LIKE '('</Filter>", "S035"),
        ("<BarrierExpression>LAST_READ() = 1</BarrierExpression>", "F018"),
        ("<Priority>/a *</Priority>", "S035"),
        ("<Key>/a</Key>", "S001"),
        ("<RecoveryPoint>x</RecoveryPoint>", "S024"),
    ],
)
def test_queue(instance: Write, inner: str, rule: str) -> None:
    assert told(instance(QUEUE.format(inner), log=RECORDED)) == [(rule, "ERROR")]


@pytest.mark.parametrize(
    ("top", "rule"),
    [
        ("<Queues/>", "S001"),
        ("<Transport/>", "S001"),
        ("<Name>again</Name>", "S003"),
        ("<Extensions/>", "S002"),
        ("<MiniDumpFileMask>0999</MiniDumpFileMask>", "S067"),
        ("<ClientMaxCapacity>150%</ClientMaxCapacity>", "S068"),
        ("<RegexTopicSupport>maybe</RegexTopicSupport>", "S029"),
        ("<Admin><InetAddr>localhost</InetAddr></Admin>", "S011"),
        ("<Admin><InetAddr>70000</InetAddr></Admin>", "S011"),
        ("<Admin><Interval>500ms</Interval></Admin>", "S071"),
        ("<Admin><AnonymousPaths>(</AnonymousPaths></Admin>", "S063"),
        ("<Logging><Target><Protocol>tape</Protocol></Target></Logging>", "S062"),
        ("<Logging><Target><Protocol>stdout</Protocol><Level>loud</Level></Target></Logging>", "S061"),
        ("<Modules><Module><Name>m</Name></Module></Modules>", "S054"),
        ("<UserDefinedFunctions><Function><Name>f</Name><Module/></Function></UserDefinedFunctions>", "S009"),
        ("<Actions><Action><On><Module>amps-action-on-startup</Module></On></Action></Actions>", "S055"),
        ("<Tuning><Queue><QueueDeliveryFlushInterval>1ns</QueueDeliveryFlushInterval></Queue></Tuning>", "S073"),
        ("<MessageTypes><MessageType><Name>fix</Name><AMPSVersionCompliance>3</AMPSVersionCompliance></MessageType>"
         "</MessageTypes>", "S074"),
        ("<MessageTypes><MessageType><Name>s</Name><Module>struct</Module><Field>/a = s</Field></MessageType>"
         "</MessageTypes>", "S052"),
    ],
)  # fmt: skip
def test_top_level(instance: Write, top: str, rule: str) -> None:
    assert rule in [id_ for id_, level in told(instance(top=top)) if level == "ERROR"]


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        ("<PreallocatedJournalFiles>0</PreallocatedJournalFiles>", "S046"),
        ("<FlushInterval>2s</FlushInterval>", "S043"),
        ("<FlushInterval>999ns</FlushInterval>", "S043"),
        ("<O_DIRECT>perhaps</O_DIRECT>", "S072"),
        ("<Topic><Name>a</Name></Topic>", "S065"),
        ("<Topic><Name>a[</Name><MessageType>json</MessageType></Topic>", "S063"),
        ("<JournalDirectory>again</JournalDirectory>", "S003"),
    ],
)
def test_transaction_log(instance: Write, inner: str, rule: str) -> None:
    assert told(instance(log=inner)) == [(rule, "ERROR")]


def test_a_small_journal_is_a_warning(instance: Write) -> None:
    assert told(instance(log="<JournalSize>9MB</JournalSize>")) == [("S044", "WARNING")]
    assert told(instance(log="<JournalSize>10000000</JournalSize>")) == []


def test_a_literal_topic_is_no_pattern(instance: Write) -> None:
    inner = "<Topic><Name>a[</Name><MessageType>json</MessageType></Topic>"
    assert told(instance(log=inner, top="<RegexTopicSupport>false</RegexTopicSupport>")) == []


@pytest.mark.parametrize(
    ("entry", "rows"),
    [
        (TOPIC.format("<RecordSize>512</RecordSize>"), [("D008", "WARNING")]),
        (TOPIC.format("").replace("<Name>a</Name>", "<Topic>a</Topic>"), [("D002", "INFO")]),
        (TOPIC.format("").replace("Topic>", "TopicDefinition>"), [("D001", "WARNING")]),
        (TOPIC.format("<Duration>persistent</Duration>"), [("D007", "WARNING")]),
        (TOPIC.format("stray"), [("X011", "WARNING")]),
        (TOPIC.format("<ReuseAddr>true</ReuseAddr>"), [("S002", "WARNING")]),
        (TOPIC.format("<Expiration>30</Expiration>"), [("S026", "WARNING")]),
        (TOPIC.format("<Expiration>0</Expiration>"), []),
        (TOPIC.format("<Key path='/a'>/a</Key>"), [("X012", "WARNING")]),
        (TOPIC.format("<SlabSize>1024MB</SlabSize>"), []),
        (TOPIC.format("<SlabSize>1000000000</SlabSize>"), []),
        (TOPIC.format("<RecoveryPoint>2026-01-02T03:04:05Z</RecoveryPoint>"), [("F029", "INFO")]),
        (TOPIC.format("<RecoveryPoint>13948331409633568391|7|</RecoveryPoint>"), [("F029", "INFO")]),
    ],
)
def test_what_is_no_error(instance: Write, entry: str, rows: list[tuple[str, str]]) -> None:
    assert told(instance(entry)) == rows


def test_suggestions(instance: Write) -> None:
    def hint(inner: str) -> str:
        (finding,) = [
            f for f in inspect_config(instance(TOPIC.format(inner)), environment={}) if f.level is Level.ERROR
        ]
        return f"{finding.message} | {finding.hint}"

    assert "did you mean Granularity?" in hint("<History><Window>1d</Window><Granularity>1s</Granularity>"
                                               "<Granularty>1s</Granularty></History>")  # fmt: skip
    assert "it belongs in SOW" in hint("<View/>")


@pytest.mark.parametrize(
    ("above", "inner"),
    [
        ("TransactionLog/Topic", "<Name>a</Name><MessageType>json</MessageType>{}"),
        ("TransactionLog", "<JournalDirectory>j</JournalDirectory>{}"),
        ("SOW", "{}"),
    ],
)
@pytest.mark.parametrize("tag", ["Expiration", "Key", "FileName", "JournalDirectory", "LeasePeriod", "Destination"])
def test_a_misplaced_element_is_sent_where_it_may_stand(tmp_path: Path, above: str, inner: str, tag: str) -> None:
    """The suggestion is never the current position, whatever its elements are called; hint and message agree."""
    text = inner.format(f"<{tag}>x</{tag}>")
    for name in reversed(above.split("/")):
        text = f"<{name}>{text}</{name}>"
    path = tmp_path / "sowctl.xml"
    path.write_text(f"<AMPSConfig><Name>t</Name>{text}</AMPSConfig>")
    found = [one for one in inspect_config(path, environment={}) if one.id == "S001"]
    assert bool(found) == ((above, tag) != ("TransactionLog", "JournalDirectory"))
    if not found:
        return
    (finding,) = found
    assert f" in {above};" in finding.message
    places = finding.message.partition("belongs in ")[2].removesuffix(" and others").split(" or ")
    assert above not in places
    for place in places:
        row: Element | None = INSTANCE
        for name in place.split("/"):
            assert row is not None
            row = row.find_child(name)
        assert row is not None and row.find_child(tag) is not None
    assert str(finding.hint).endswith(f" {places[0]}") is (len(places) == 1)


class TestTable:
    def test_kinds_are_known(self) -> None:
        texts = {*_CONTEXTS, "regex", "join", "grouping", "enum"}
        for parent, row in walk_rows(INSTANCE):
            assert row.kind in CONTAINER_KINDS | VALUE_KINDS.keys() | texts, f"{parent}/{row.tag}"
            assert row.times in ("1", "0..1", "1..n", "0..n")
            assert bool(row.values) == (row.kind == "enum")
            assert (row.low is None and row.high is None) == (row.bounds is None)

    def test_defaults_are_legal(self) -> None:
        referring = {"Name", "UnderlyingTopic"}
        for _, row in walk_rows(INSTANCE):
            if row.default is not None and row.default not in referring:
                read_value(row, row.default)

    def test_names_are_unambiguous(self) -> None:
        def names(row: Element) -> list[str]:
            return [name for child in row.children for name in (child.tag, *(other for other, _ in child.synonyms))]

        for _, row in walk_rows(INSTANCE):
            assert len(names(row)) == len(set(names(row))), row.tag

    def test_action_options_have_known_kinds(self) -> None:
        kinds = {
            kind for steps in ACTION_MODULES.values() for module in steps.values() for kind in module.options.values()
        }
        assert kinds <= VALUE_KINDS.keys() | {"", "filter", "regex"}
