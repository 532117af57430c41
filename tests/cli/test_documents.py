"""The declared documents against the output of commands, and the law that a member has one meaning everywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import decode

from sowctl.cli.documents.description import build_json_schema, iterate_members
from sowctl.cli.documents.meanings import MEANINGS
from sowctl.cli.documents.shapes import Document
from sowctl.cli.documents.table import list_documented_commands, list_documents
from sowctl.cli.manual.commandpages import build_command_page, build_main_page
from sowctl.cli.manual.roff import format_roff
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS
from tests.cli.conftest import Cli
from tests.cli.test_store_upkeep import spoil
from tests.engine.maintenance.retention.test_actions import ARCHIVE, REMOVE, fill, lab_of
from tests.support.instances import Lab, config_xml, message, topic_xml
from tests.support.queues import queue_xml

HISTORY = "<History><Window>1h</Window><Granularity>1s</Granularity></History>"
PLACES = topic_xml("marks", key="/clientName</Key><Key>/subId")
DERIVED = (
    "<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic><Projection>"
    "<Field>/a</Field><Field>SUM(/n) AS /sum</Field></Projection><Grouping><Field>/a</Field></Grouping></View>"
    "<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>t</UnderlyingTopic>"
    "<Interval>100ms</Interval></ConflatedTopic>"
)
MESSAGES = b'{"id":1,"a":"x","n":1}\n{"id":2,"a":"y","n":2.5}\n{"id":3,"a":"y","n":null}\n'
WHO = "--client c --sub-id 1"

SOUND = """
publish t rows.ndjson --client p --sequence 1
publish t rows.ndjson
publish u rows.ndjson
publish u rows.ndjson --tee
delete t --key 3 --yes
delete ^[tu]$ '1_=_1' --dry-run --regex
expire
query t
query t --meta
query ^[tu]$ --count
query t '/a=1' --explain
query t '/a=1' --explain --analyze
query t --key nobody
get t 1 2
get t 1 --meta
get t nobody
export t out.csv
sql 'SELECT_*_FROM_t'
subscribe t --until-now
subscribe t --bookmark 0 --until-now
tail t --until-now --bookmark 0
history t 1 2 3
history t 1 2 3 --journal
history t 1 2 3 --journal --meta
history t 1 3 --journal --diff
blame t 1
blame t nobody
diff t u
diff t t
diff t u --stat
snapshot t --at now
snapshot t --meta --at now
snapshot t --at now --output s.sow
snapshot .* --at now --to stores
hash --all
replay
replay --verify t
info
schema t
stats t
stats --journal
hash t
key t rows.ndjson
eval /a rows.ndjson
eval --filter /n>1 rows.ndjson
functions
view list
view show totals
view refresh
view check
view list
conflate
bookmark get marks {WHO}
bookmark set marks 0 {WHO}
bookmark list marks
bookmark check marks
bookmark rewind marks --to 0
bookmark purge marks --all --yes
publish work rows.ndjson
queue list
queue lease work -n 2
queue peek work -n 0
queue info work
queue depth work
queue ack work 1
queue cancel work 1
queue renew work 1
queue expire work 1
queue requeue work --dead
publish tasks rows.ndjson
queue run tasks --until-empty -- true
queue purge work --yes
journal list
journal dump
journal tail
journal search
journal bisect --topic t --filter /id=2
journal rotate
journal compress
journal archive
journal prune --before now --dry-run
journal repair --yes
journal check
check
store check
store repair --yes
store clean
store compact
store reindex --drop
backup copies
backup copies --list
restore copies --to there
upkeep run
upkeep list
validate
lint
lint --list
lint --explain B001
config show
config diff sowctl.xml other.xml
config init new.xml --topic x=/id
config add topic x=/id
config add view sums --source t --projection 'SUM(/n)_AS_/n' --grouping /a
config add queue jobs --source t
config add expiration u 1h --dry-run
config add history u 1h --dry-run
config schema
doctor
demo morning
explain
explain 11
""".replace("{WHO}", WHO)
FOLLOWING = ("query t --follow", "journal tail --follow")
"""Endless commands that print something immediately."""
WITHOUT_RUN = {
    # Prints only changes, with the members of the other document.
    ("conflate", "--follow"),
    # On Spark; a report is compared with the document below.
    ("pipeline stream", "--console"),
    *((f"pipeline {job}", "") for job in ("load", "rebuild", "snapshot", "view", "export", "stream")),
}  # fmt: skip


def find_document(line: str) -> tuple[str, Document]:
    """Return the name of the command in a line, and the document selected by its options."""
    names = sorted((one.name for one in COMMANDS if f"{line} ".startswith(f"{one.name} ")), key=len)
    documents = list_documents(names[-1])
    words = line.split()
    for document in documents:
        option = document.condition.partition(" ")[0]
        if option in words and (" FILE" not in document.condition or ".sow" in line):
            return names[-1], document
    return names[-1], next(one for one in documents if not one.condition)


def hold(out: str, document: Document) -> int:
    """Decode output as the document declares it; return the number of elements."""
    if document.form == "lines":
        return len([decode(line, type=document.element) for line in out.splitlines()])
    kind = list[document.element] if document.form == "array" else document.element  # type: ignore[name-defined]
    found = decode(out, type=kind)
    return len(found) if document.form == "array" else 1


def run_line(cli: Cli, line: str) -> int:
    words = [word.strip("'").replace("_", " ") if "'" in word else word for word in line.split()]
    cut = words.index("--") if "--" in words else len(words)
    result = cli(*words[:cut], "--json", *words[cut:])
    assert result.status in (0, 1, 3, 5), (line, result.err)
    try:
        return hold(result.out, find_document(line)[1])
    except Exception as error:
        raise AssertionError(f"{line}: {error}: {result.out[:2000]}") from error


def test_every_command_prints_what_is_declared(cli: Cli) -> None:
    topics = topic_xml("t", HISTORY) + topic_xml("u") + PLACES + DERIVED + queue_xml(underlying=None)
    topics += queue_xml(name="tasks", underlying=None)
    text = config_xml(topics, ("t", "u", "marks", "work", "tasks"))
    archive = "<JournalArchiveDirectory>old</JournalArchiveDirectory>"
    Path("sowctl.xml").write_text(text.replace("</JournalDirectory>", f"</JournalDirectory>{archive}"))
    Path("other.xml").write_text(config_xml(topics, ("t", "u", "work", "tasks")))
    Path("rows.ndjson").write_bytes(MESSAGES)
    for line in filter(None, SOUND.splitlines()):
        run_line(cli, line)
    for line in FOLLOWING:
        argv = [sys.executable, "-m", "sowctl", *line.split(), "--json"]
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env={"PATH": "/usr/bin"}
        ) as process:
            assert process.stdout is not None
            printed = process.stdout.readline().decode()
            process.terminate()
            process.stdout.read()
        assert hold(printed, find_document(line)[1]) == 1, line


def test_every_document_is_printed_by_a_line_above() -> None:
    run = {
        (name, document.condition)
        for name, document in map(find_document, (*filter(None, SOUND.splitlines()), *FOLLOWING))
    }
    declared = {(name, one.condition) for name in list_documented_commands() for one in list_documents(name)}
    assert declared - run == WITHOUT_RUN
    having = {
        command.name
        for command in COMMANDS
        if any("--json" in getattr(one.declared, "names", ()) for one in load_command(command).parameters)
    }
    assert having == list_documented_commands()


def test_findings_and_damage_print_what_is_declared(cli: Cli, tmp_path: Path) -> None:
    lab = Lab(tmp_path, config_xml(topic_xml("t") + topic_xml("u"), ("t",)))
    for topic in "tu":
        lab.publish(topic, *(message(id=number) for number in range(100)))
        spoil(lab, topic)
    assert run_line(cli, "check") == 1
    assert '"findings":[]' not in cli("check", "--json").out
    assert run_line(cli, "store check") == 1
    assert run_line(cli, "store repair --dry-run") == 2
    assert run_line(cli, "store repair --yes") == 2
    lab.journals()[0].write_bytes(lab.journals()[0].read_bytes()[:-9] + b"\xff" * 9)
    assert run_line(cli, "journal check") == 1
    assert run_line(cli, "journal repair --dry-run") == 1
    Path("bad.xml").write_text("<AMPSConfig><SOW><Topic/></SOW></AMPSConfig>")
    for command in ("validate", "lint"):
        found = cli(command, "bad.xml", "--json")
        hold(found.out, list_documents(command)[0])
        assert json.loads(found.out)["findings"]


def test_files_of_the_journal_print_what_is_declared(cli: Cli, tmp_path: Path) -> None:
    lab = lab_of(tmp_path, ARCHIVE, REMOVE)
    fill(lab, 8)
    now = f"--config {lab.config} --now 2026-01-05T08:05:00Z"
    assert run_line(cli, f"journal compress --keep 2 {now}") > 0
    assert run_line(cli, f"journal archive --keep 1 {now}") > 0
    assert run_line(cli, f"journal prune --before now --yes {now}") > 0
    assert run_line(cli, f"upkeep run {now}") > 0
    assert run_line(cli, f"upkeep list {now}") > 0


def test_jobs_print_their_report() -> None:
    from sowctl.output.reports import encode_report
    from sowctl.spark.jobs.report import JobReport

    report = JobReport("load", ("t",), seconds=1.5, details={"commit": {"topic": "t"}})
    assert hold(encode_report(report), list_documents("pipeline load")[0]) == 1


def test_schemas_are_those_of_json(cli: Cli) -> None:
    for name in list_documented_commands():
        for document in list_documents(name):
            schema = build_json_schema(document)
            json.dumps(schema)
            assert document.form != "array" or schema["type"] == "array"
            assert document.text or list(iterate_members(document.element)), name


TWO_TYPES = {
    "action": "number of a configured action, or what was done",
    "after": "value, or name of a side",
    "archived": "new place of a file, or number of files",
    "before": "value, or name of a side",
    "compressed": "new place of a file, or number of files",
    "expired": "number, or numbers by reason",
    "fields": "changes, or number of changes by field",
    "journalled": "number of messages, or whether the topic is in the journal",
    "maximum": "of a field's numbers, or of an element, with its unit",
    "minimum": "of a field's numbers, or of an element, with its unit",
    "notes": "number of findings, or remarks",
    "null": "number of values, or effect of NULL",
    "removed": "number, or whether the file was removed",
    "steps": "steps of a plan, or their names in one text",
    "stored": "bytes, or time",
    "topics": "number, names or reports of topics",
    "value": "value of a field, or kind of value",
    "values": "number of values, or allowed values",
}
"""Members with more than one type, and their meanings. Nothing may be added: new members get another name."""


def iterate_named_types() -> Any:
    for command in sorted(list_documented_commands()):
        for document in list_documents(command):
            for member in iterate_members(document.element):
                yield member.name.rpartition(".")[2], member.type_text, command


def test_a_member_has_one_type_everywhere() -> None:
    """Except whether it may be null or absent."""
    found: dict[str, dict[str, str]] = {}
    for name, text, command in iterate_named_types():
        plain = text.replace(", or absent", "").replace(" or null", "")
        found.setdefault(name, {})[plain] = command
    different = {name: kinds for name, kinds in found.items() if len(kinds) > 1}
    assert different.keys() == TWO_TYPES.keys(), different


def test_units_are_in_the_meanings() -> None:
    for name, meaning in MEANINGS.items():
        if name == "bytes" or name.endswith("_bytes"):
            assert "bytes" in meaning, name
        if name.endswith("seconds") and name != "milliseconds":
            assert "seconds" in meaning, name


def test_meanings_are_used() -> None:
    assert MEANINGS.keys() <= {name for name, _, _ in iterate_named_types()}


@pytest.mark.parametrize("command", ["publish", "diff", "journal dump"])
def test_a_document_with_another_member_is_refused(command: str) -> None:
    document = list_documents(command)[0]
    with pytest.raises(ValueError, match="unknown field"):
        hold('[{"other":1}]' if document.form == "array" else '{"other":1}', document)


def test_pages_tell_documents_from_events(cli: Cli) -> None:
    for command in COMMANDS:
        sections = {one.title: one for one in build_command_page(command).sections}
        assert ("JSON" in sections) is bool(list_documents(command.name)), command.name
        text = format_roff(build_command_page(command))
        names = {one.name for document in list_documents(command.name) for one in iterate_members(document.element)}
        assert all(name.replace("-", "\\-") in text for name in names), command.name
    assert "progress json" in cli("publish", "--help").out + format_roff(build_main_page()).replace("\\-", "-")
