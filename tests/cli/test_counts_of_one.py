"""Output of commands on an instance with one of everything: a count of one is followed by a singular."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

_CONFIG = """\
<AMPSConfig><Name>one</Name>
<SOW>
  <Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName>
    <History><Window>1d</Window><Granularity>1s</Granularity></History></Topic>
  <View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
    <Projection><Field>/client</Field><Field>SUM(/qty) AS /total</Field></Projection>
    <Grouping><Field>/client</Field></Grouping></View>
  <ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
    <Interval>1s</Interval></ConflatedTopic>
  <Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
    <LeasePeriod>1h</LeasePeriod><MaxCancels>1</MaxCancels></Queue>
</SOW>
<TransactionLog><JournalDirectory>journal</JournalDirectory>
  <Topic><Name>orders</Name><MessageType>json</MessageType></Topic></TransactionLog>
</AMPSConfig>
"""
_NOT_NOUNS = {"as", "has", "is", "ms", "was", "s"}
_PLURAL_OF_ONE = re.compile(r"(?<![\w.,:/|-])1 (?!of )(?:[a-z]+ )?([a-z]*s|entries|indexes|leaves|are)\b")

_SUBSCRIBE = "subscribe orders --until-now --store places.bookmarks --client c --sub-id s --commit"
_COMMANDS = (
    "query orders",
    "query orders --explain",
    "query orders /qty=5 --explain",
    "query orders /qty=5 --explain --count",
    "query totals",
    "query slow",
    "query orders --meta -v",
    "export orders one.parquet",
    "export orders one.csv",
    "export orders one.sqlite",
    "check",
    "store check orders --read-data 50%",
    "store check orders",
    "journal check",
    "doctor",
    "info",
    "info -v",
    "view list",
    "view show totals",
    "view refresh",
    "view check",
    "conflate slow",
    "stats orders",
    "stats --journal",
    "stats --journal --interval 1h",
    "schema orders",
    "history orders 1",
    "history orders 1 --diff",
    "blame orders 1",
    "diff orders@0 orders",
    "diff orders@0 orders --stat",
    "hash orders",
    "journal list",
    "journal search --filter 1=1",
    "journal tail",
    "journal rotate",
    "journal compress",
    "export orders changes.ndjson --changes",
    "journal prune --keep-for 1d --dry-run",
    "journal repair --dry-run",
    "journal bisect --topic orders --filter /qty=5",
    "queue list",
    "queue info work",
    "queue depth work",
    "queue peek work",
    "queue run work --until-empty -- true",
    "queue requeue work --dead",
    "queue purge work --yes",
    "snapshot orders --at 2040-01-01 --output one.sow",
    "backup copy",
    "restore copy --to again",
    "restore copy --to other --dry-run",
    "replay orders --verify",
    "replay orders --rebuild",
    "store compact orders",
    "store reindex orders",
    "store repair orders --yes",
    "store clean",
    "expire orders",
    _SUBSCRIBE,
    "bookmark list places.bookmarks",
    "bookmark check places.bookmarks",
    "bookmark purge places.bookmarks --all --dry-run",
    "upkeep list",
    "lint sowctl.xml",
    "validate sowctl.xml",
    "delete orders --filter 1=1 --dry-run",
    "delete orders --filter 1=1 --yes",
    "check",
    "info",
    "replay --rekey orders --dry-run",
)
_PROMPTS = ("queue purge work", "bookmark purge places.bookmarks --all", "delete orders --filter 1=1")


def find_plurals_of_one(text: str) -> list[str]:
    """The counts of one in ``text`` that are followed by a plural."""
    return [found[0] for found in _PLURAL_OF_ONE.finditer(text) if found[1] not in _NOT_NOUNS]


@pytest.fixture
def one(cli: Cli, tmp_path: Path) -> Cli:
    (tmp_path / "sowctl.xml").write_text(_CONFIG)
    (tmp_path / "one.ndjson").write_text('{"id":1,"client":"a","qty":5}\n')
    done = cli("publish", "orders", "one.ndjson", "--client", "p")
    assert (done.status, find_plurals_of_one(done.out + done.err)) == (0, [])
    return cli


@pytest.mark.parametrize("tty", ["", "in out err"])
def test_a_count_of_one_is_followed_by_a_singular(one: Cli, tty: str) -> None:
    wrong = {}
    progress = ("--progress", "always") if tty else ()
    for command in _COMMANDS:
        done = one(*progress, *command.split(), tty=tty, stdin=b"n\n")
        assert done.status in (0, 1), (command, done)
        if found := find_plurals_of_one(done.out + done.err):
            wrong[command] = found
    assert wrong == {}


def test_a_prompt_about_one_thing_is_a_singular(one: Cli) -> None:
    one(*_SUBSCRIBE.split())
    for command in _PROMPTS:
        done = one(*command.split(), tty="in out err", stdin=b"n\n")
        assert (done.status, find_plurals_of_one(done.err)) == (8, []), done.err
