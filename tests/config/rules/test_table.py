"""Every rule of the table: documented, listed once, broken by one configuration and kept by its neighbour."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from inspect import getmembers, isfunction
from pathlib import Path
from pkgutil import iter_modules
from typing import NamedTuple

import pytest

import sowctl.config.rules as rules_package
from sowctl.config.rules.pages import page_of, read_page, severity, written
from sowctl.config.rules.rule import Rule
from sowctl.config.rules.table import RULES, find
from sowctl.config.validate import inspect

Write = Callable[..., Path]
DIFFERENT = {"X004": "error", "F030": "warning / error", "R011": "warning / error"}
"""Where our severity is not the published one: a document type is refused, so its entities cannot be a warning; of the
others the description has two severities."""


class Case(NamedTuple):
    """``bad`` breaks the rule alone; ``good`` is the same without the fault. Both are (sow, log, top)."""

    rule: str
    bad: tuple[str, str, str]
    good: tuple[str, str, str]


def topic(name: str = "a", inner: str = "", kind: str = "json", file: str = "<FileName>%n</FileName>") -> str:
    return f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType>{file}{inner}</Topic>"


def view(source: str, inner: str = "", name: str = "v", kind: str = "json", fields: str = "", group: str = "/a") -> str:
    fields = fields or "<Field>/a</Field>"
    return (
        f"<View><Name>{name}</Name><MessageType>{kind}</MessageType><UnderlyingTopic>{source}</UnderlyingTopic>"
        f"<Projection>{fields}</Projection><Grouping><Field>{group}</Field></Grouping>{inner}</View>"
    )


def conflated(source: str, inner: str = "", kind: str = "json") -> str:
    return (
        f"<ConflatedTopic><Name>c</Name><MessageType>{kind}</MessageType>"
        f"<UnderlyingTopic>{source}</UnderlyingTopic>{inner}</ConflatedTopic>"
    )


def queue(inner: str = "", tag: str = "Queue", name: str = "q") -> str:
    return f"<{tag}><Name>{name}</Name><MessageType>json</MessageType>{inner}</{tag}>"


def logged(name: str = "q", kind: str = "json") -> str:
    return f"<Topic><Name>{name}</Name><MessageType>{kind}</MessageType></Topic>"


def transport(
    inner: str = "", name: str = "t", kind: str = "tcp", port: str = "1", protocol: str = "<Protocol>amps</Protocol>"
) -> str:
    address = f"<InetAddr>{port}</InetAddr>" if port else ""
    return f"<Transport><Name>{name}</Name><Type>{kind}</Type>{address}{protocol}{inner}</Transport>"


def transports(*parts: str) -> str:
    return f"<Transports>{''.join(parts)}</Transports>"


def message_type(inner: str) -> str:
    return f"<MessageTypes><MessageType><Name>m</Name>{inner}</MessageType></MessageTypes>"


def action(do: str, options: str = "", on: str = "startup", on_options: str = "") -> str:
    def step(tag: str, module: str, inner: str) -> str:
        wrapped = f"<Options>{inner}</Options>" if inner else ""
        return f"<{tag}><Module>amps-action-{tag.lower()}-{module}</Module>{wrapped}</{tag}>"

    return f"<Actions><Action>{step('On', on, on_options)}{step('Do', do, options)}</Action></Actions>"


def destination(topic: str, naming: str = "<Name>other</Name>") -> str:
    return (
        f"<Replication><Destination>{naming}<SyncType>sync</SyncType><Topic><Name>{topic}</Name>"
        "<MessageType>json</MessageType></Topic><Transport><Type>amps-replication</Type><InetAddr>h:1</InetAddr>"
        "</Transport></Destination></Replication>"
    )


def sow(rule: str, bad: str, good: str, log: str = "") -> Case:
    return Case(rule, (bad, log, ""), (good, log, ""))


def log(rule: str, bad: str, good: str, entries: str = "") -> Case:
    return Case(rule, (entries, bad, ""), (entries, good, ""))


def top(rule: str, bad: str, good: str, entries: str = "", journal: str = "") -> Case:
    return Case(rule, (entries, journal, bad), (entries, journal, good))


HISTORY = "<History><Window>{}</Window><Granularity>{}</Granularity></History>"
PATTERN = topic("p", "<Pattern>^/p/</Pattern>")
JOIN = "<Join>[a]./x = [b]./x</Join>"
TWO = topic("a") + topic("b")
QUALIFIED = {"fields": "<Field>[a]./a</Field>", "group": "[a]./a"}
UNION = "<FairnessModel>{}</FairnessModel><Semantics>at-most-once</Semantics>"
ENRICH = "<Enrichment>{}</Enrichment>"
LOOKUP = "<Enrichment><Field>VALUE_LOOKUP('t', /a) AS /b</Field></Enrichment>"
LOOKUP_MODULE = (
    "<Modules><Module><Name>u</Name><Library>libamps_udf_experimental.so</Library>"
    "<Options><Lookup>t;1;json;x;/y;/z</Lookup></Options></Module></Modules>"
)
DELETE = "<Topic>{}</Topic><MessageType>json</MessageType><Filter>{}</Filter>"
TLS = "<Certificate>c</Certificate><PrivateKey>k</PrivateKey>"
REPLICATION = {"kind": "amps-replication", "protocol": ""}
SQL = "<Admin><SQLTransport>t</SQLTransport></Admin>"
STATISTICS = "<Admin><FileName>{}</FileName></Admin>"

CASES = [
    sow("S022", topic(file=""), topic(file="", inner="<Durability>transient</Durability>")),
    sow("F001", topic(inner=HISTORY.format("1d", "1m") + "<Expiration>1s</Expiration>"),
        topic(inner=HISTORY.format("1d", "1m") + "<Expiration>disabled</Expiration>")),
    sow("F002", topic(inner="<Pattern>^x</Pattern>" + HISTORY.format("1d", "1m")),
        topic(inner="<Pattern>^x</Pattern>")),
    sow("F003", topic(inner="<KeyDomain>d</KeyDomain>"), topic(inner="<Key>/a</Key><KeyDomain>d</KeyDomain>")),
    Case("F004",
         (topic(inner="<Key>/a</Key><KeyGenerator><Module>u</Module></KeyGenerator>"), "", LOOKUP_MODULE),
         (topic(inner="<KeyGenerator><Module>u</Module></KeyGenerator>"), "", LOOKUP_MODULE)),
    sow("F033", topic(inner=HISTORY.format("0s", "0s")), topic(inner=HISTORY.format("1s", "0s"))),
    sow("F033", topic(inner=HISTORY.format("1m", "1h")), topic(inner=HISTORY.format("1h", "1h"))),
    sow("R020", topic() + topic(file="<FileName>b</FileName>"), topic() + topic(kind="xml")),
    sow("R021", topic(file="<FileName>./x/../f</FileName>") + topic("b", file="<FileName>f</FileName>"),
        topic(file="<FileName>f</FileName>") + topic("b", file="<FileName>g</FileName>")),
    sow("F005", topic(kind="binary", inner="<Key>/a</Key>"), topic(kind="binary")),
    sow("F005", topic(kind="binary") + view("[binary].[a]", fields="<Field>[binary].[a]./a</Field>",
                                            group="[binary].[a]./a"), topic() + view("a")),
    Case("F019", (topic(inner=LOOKUP), "", ""), (topic(inner=LOOKUP), "", LOOKUP_MODULE)),
    Case("F019", (topic(inner=LOOKUP + "<Durability>transient</Durability>", file=""), "", LOOKUP_MODULE),
         (topic(inner=LOOKUP + "<Durability>transient</Durability><RecoveryPoint>now</RecoveryPoint>", file=""), "",
          LOOKUP_MODULE)),
    sow("F021", topic(kind="binary", inner=ENRICH.format("<Field>'x' AS /b</Field>")),
        topic(inner=ENRICH.format("<Field>'x' AS /b</Field>"))),
    sow("F038", topic(inner=ENRICH.format("<Field>/a AS /x</Field><Field>/b AS /x</Field>")),
        topic(inner=ENRICH.format("<Field>/a AS /x</Field><Field>/b AS /y</Field>"))),
    sow("F038", topic() + view("a", fields="<Field>/x</Field><Field>SUM(/b) AS /x</Field>"),
        topic() + view("a", fields="<Field>/x</Field><Field>SUM(/b) AS /y</Field>")),
    sow("R001", topic(kind="jsn"), topic()),
    log("R001", logged(kind="jsn"), logged()),
    top("R001", message_type("<Module>composite-local</Module><MessageType>x</MessageType>"),
        message_type("<Module>composite-local</Module><MessageType>xml</MessageType>")),
    Case("R002", (topic(inner="<KeyGenerator><Module>u</Module></KeyGenerator>"), "", ""),
         (topic(inner="<KeyGenerator><Module>u</Module></KeyGenerator>"), "", LOOKUP_MODULE)),
    top("R002", "<Authentication><Module>x</Module></Authentication>",
        "<Authentication><Module>amps-implicit-authentication-module</Module></Authentication>"),
    top("R003", transports(transport(protocol="<Protocol>web</Protocol>")), transports(transport())),
    top("R013", transports(transport(), transport(port="2")), transports(transport(), transport(name="u", port="2"))),
    sow("F006", TWO + view(JOIN, "<Filter>/x = 1</Filter>", **QUALIFIED), TWO + view(JOIN, **QUALIFIED)),
    sow("F020", topic() + view("[json].[a]", kind="binary", fields="<Field>[json].[a]./a</Field>",
                               group="[json].[a]./a"), topic() + view("a")),
    sow("F022", topic() + view("a", kind="xml"),
        topic() + view("[json].[a]", kind="xml", fields="<Field>[json].[a]./a</Field>", group="[json].[a]./a")),
    sow("F022", topic() + view("[json].[a]", kind="xml", group="[json].[a]./a"), topic() + view("[json].[a]")),
    sow("F034", TWO + view("a" + JOIN, **QUALIFIED), TWO + view(JOIN, **QUALIFIED)),
    sow("F036", TWO + view(JOIN, group="[a]./a"), TWO + view(JOIN, **QUALIFIED)),
    sow("R004", topic() + view("A"), topic() + view("a")),
    sow("R004", topic() + conflated("A"), topic() + conflated("a")),
    sow("R005", view("a") + topic(), topic() + view("a")),
    sow("R005", conflated("a") + topic(), topic() + conflated("a")),
    sow("R006", PATTERN + view("p"), topic("p") + view("p")),
    sow("R017", topic() + view(JOIN, **QUALIFIED), TWO + view(JOIN, **QUALIFIED)),
    sow("R018", topic() + view("a", fields="<Field>SUM([b]./x) AS /x</Field>"),
        topic() + view("a", fields="<Field>SUM([a]./x) AS /x</Field>")),
    sow("R027", view("w") + view("v", name="w"), topic() + view("a") + view("v", name="w")),
    sow("R030", topic() + view("a", "<HashIndex><Key>/b</Key></HashIndex>"),
        topic() + view("a", "<HashIndex><Key>/a</Key></HashIndex>")),
    sow("F014", PATTERN + conflated("p"), PATTERN + conflated("p", "<TopicFormat>%n-C</TopicFormat>")),
    sow("F014", PATTERN + conflated("p", "<TopicFormat>C</TopicFormat>"),
        PATTERN + conflated("p", "<TopicFormat>C/%n</TopicFormat>")),
    sow("F014", PATTERN + conflated("p", "<TopicFormat>%n.C</TopicFormat>"),
        PATTERN + conflated("p", "<TopicFormat>%n_C</TopicFormat>")),
    sow("F014", topic() + conflated("a", "<TopicFormat>%n-C</TopicFormat>"), topic() + conflated("a")),
    sow("R007", topic() + conflated("a", kind="xml"), topic() + conflated("a")),
    sow("F007", queue("<Priority>/p</Priority><BarrierExpression>/b = 1</BarrierExpression>"),
        queue("<BarrierExpression>/b = 1</BarrierExpression>"), logged()),
    sow("F008", queue("<Priority>/p</Priority><TargetQueueDepth>1000</TargetQueueDepth>"),
        queue("<TargetQueueDepth>1000</TargetQueueDepth>"), logged()),
    sow("F009", queue(tag="GroupLocalQueue"), queue("<InitialOwner>x</InitialOwner>", "GroupLocalQueue"), logged()),
    sow("F010", queue("<InitialOwner>x</InitialOwner>"), queue(), logged()),
    sow("F011", queue("<UnderlyingTopic>q.*</UnderlyingTopic>"),
        queue("<UnderlyingTopic>q.*</UnderlyingTopic><DefaultPublishTarget>q</DefaultPublishTarget>"), logged()),
    sow("R026", queue("<DefaultPublishTarget>x</DefaultPublishTarget>"),
        queue("<DefaultPublishTarget>q</DefaultPublishTarget>"), logged()),
    sow("F012", queue(UNION.format("fast")), queue(UNION.format("round-robin")), logged()),
    sow("R008", queue(), queue("<UnderlyingTopic>x</UnderlyingTopic>"), logged("x")),
    log("R009", logged(kind="xml"), logged(), queue()),
    top("S007", transports(transport(port="")), transports(transport())),
    top("S008", transports(transport(protocol="")), transports(transport(**REPLICATION))),
    top("S012", transports(transport(kind="tcps")), transports(transport(TLS, kind="tcps"))),
    top("S013", transports(transport(kind="amps-unix", port="")),
        transports(transport("<FileName>s</FileName>", kind="amps-unix", port=""))),
    top("S014", transports(transport("<VerifyClient>True</VerifyClient>")),
        transports(transport("<VerifyClient>True</VerifyClient><CAPath>c</CAPath>"))),
    top("F023", transports(transport(protocol="<Protocol>fix</Protocol>")),
        transports(transport("<MessageType>fix</MessageType>", protocol="<Protocol>fix</Protocol>"))),
    top("F024", transports(transport(**REPLICATION), transport(name="u", port="2", **REPLICATION)),
        transports(transport(**REPLICATION), transport(name="u", port="2"))),
    top("R012", transports(transport(), transport(name="u", port="0.0.0.0:1")),
        transports(transport(port="10.0.0.1:1"), transport(name="u", port="10.0.0.2:1"))),
    top("S050", message_type("<Module>composite-global</Module>"),
        message_type("<Module>composite-global</Module><MessageType>json</MessageType>")),
    top("S051", message_type("<Module>protobuf</Module><Type>T</Type><ProtoPath>p</ProtoPath>"),
        message_type("<Module>protobuf</Module><Type>T</Type><ProtoPath>p</ProtoPath><ProtoFile>f</ProtoFile>")),
    top("S053", message_type("<Module>struct</Module>"),
        message_type("<Module>struct</Module><Field>/a = &lt;4s</Field>")),
    log("F030", "<JournalArchiveDirectory>journals</JournalArchiveDirectory>",
        "<JournalArchiveDirectory>archive</JournalArchiveDirectory>"),
    top("S060", "<Logging><Target><Protocol>gzip</Protocol></Target></Logging>",
        "<Logging><Target><Protocol>stdout</Protocol></Target></Logging>"),
    top("F032", "<RequiredMinimumVersion>5.4</RequiredMinimumVersion>",
        "<RequiredMinimumVersion>5.3.5.9</RequiredMinimumVersion>"),
    top("R010", transports(transport()) + SQL, transports(transport(protocol="<Protocol>websocket</Protocol>")) + SQL),
    top("R024", STATISTICS.format("./a.json"), STATISTICS.format("./b"), entries=topic()),
    top("S056", action("explode"), action("nothing")),
    top("D019", action("delete-files"), action("minidump")),
    top("S057", action("delete-sow", "<Topic>a</Topic><MessageType>json</MessageType>"),
        action("delete-sow", DELETE.format("a", "1=1")), entries=topic()),
    top("S057", action("remove-journal"), action("remove-journal", "<Age>1d</Age>")),
    top("S058", action("nothing", on="schedule", on_options="<Every>daily</Every>"),
        action("nothing", on="schedule", on_options="<Every>Sunday at 23:59Z</Every>")),
    top("S059", action("nothing").replace("<Do>", "<If><Module>amps-action-if-file-system-usage</Module><Options>"
        "<Path>/</Path><GreaterThan>90</GreaterThan></Options></If><Do>"),
        action("nothing").replace("<Do>", "<If><Module>amps-action-if-file-system-usage</Module><Options>"
        "<Path>/</Path><GreaterThan>90%</GreaterThan></Options></If><Do>")),
    top("S026", action("remove-journal", "<Age>7 days</Age>"), action("remove-journal", "<Age>{{AGE}}</Age>")),
    top("S035", action("delete-sow", DELETE.format("a", "/b = 'x")),
        action("delete-sow", DELETE.format("a", "/b = {{X}}")), entries=topic()),
    top("S063", action("delete-sow", DELETE.format("a[", "1=1")), action("delete-sow", DELETE.format("a.*", "1=1"))),
    top("F027", action("execute-event"), action("execute-event", "<Event>e</Event>")),
    top("F028", action("compact-sow", "<Topic>a</Topic>"), action("compact-sow"), entries=topic()),
    top("F031", action("archive-journal", "<Age>1d</Age>"), action("compress-journal", "<Age>1d</Age>"), journal=" "),
    top("R011", action("delete-sow", DELETE.format("b", "1=1")), action("delete-sow", DELETE.format("a", "1=1")),
        entries=topic()),
    top("S069", destination("q", ""), destination("q", "<Group>g</Group>"), journal=logged()),
    top("R014", destination("q"), destination("x"), journal=logged("x")),
    top("F025", destination("q"), destination("x"), entries=queue(tag="LocalQueue"), journal=logged() + logged("x")),
]  # fmt: skip
COMPANIONS = {"D019": {"S056"}, "R027": {"R005"}}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.rule)
def test_a_rule_is_broken_and_kept(instance: Write, case: Case) -> None:
    def broken(parts: tuple[str, str, str]) -> set[str]:
        entries, journal, top_level = parts
        findings = inspect(instance(entries, log=journal, top=top_level), environment={})
        return {finding.id for finding in findings if finding.id[0] != "B"}

    assert broken(case.bad) == {case.rule} | COMPANIONS.get(case.rule, set())
    assert broken(case.good) == set()


def test_ids_and_titles_are_unique() -> None:
    assert len({rule.id for rule in RULES}) == len({rule.title for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.title) and len(rule.title) <= 40, rule


def test_every_rule_has_one_page_and_every_page_a_rule() -> None:
    pages = {rule.id: page_of(rule) for rule in RULES}
    for rule, page in pages.items():
        assert all(part.endswith((".", "``")) and part.count("``") % 2 == 0 for part in page), (rule, page)
    assert len({page.what for page in pages.values()}) == len(pages)
    assert written() <= set(pages)


def test_rules_are_the_published_ones(shared: Path) -> None:
    text = (shared / "spec/config.md").read_text(encoding="utf-8")
    published = dict(re.findall(r"^\| ([XSFRDB]\d{3}) \| ([a-z /]+?) \|", text, re.MULTILINE))
    assert len(published) == 236
    ours = {rule.id: severity(rule).replace(" or ", " / ") for rule in RULES if len(rule.id) == 4}
    different = {rule: levels for rule, levels in ours.items() if published[rule] != levels}
    assert different == DIFFERENT


def test_the_table_lists_every_rule_function_once() -> None:
    listed = [path for rule in RULES for path in dict.fromkeys(path for _, path in rule.checks)]
    written_here = {
        f"{module.name}.{name}"
        for module in iter_modules(rules_package.__path__)
        if not module.ispkg
        for name, function in getmembers(import_module(f"sowctl.config.rules.{module.name}"), isfunction)
        if function.__module__ == f"sowctl.config.rules.{module.name}" and (function.__doc__ or "").startswith("What:")
    }
    assert sorted(listed) == sorted(written_here)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.checks], ids=lambda rule: rule.id)
def test_every_function_explains_itself(rule: Rule) -> None:
    for _, function in rule.functions():
        read_page(function.__doc__ or "", rule.id)


@pytest.mark.parametrize("word", ["S022", "s022", "SOW-CFG-122", "sow-cfg-122", "persistent-without-file"])
def test_a_rule_is_found_by_id_code_and_title(word: str) -> None:
    found = find(word)
    assert found is not None and found.id == "S022"


def test_a_limit_is_found_by_its_code_and_an_unknown_word_is_not() -> None:
    found = find("SOW-CFG-020")
    assert found is not None and found.title == "file-too-large"
    assert find("S999") is None
