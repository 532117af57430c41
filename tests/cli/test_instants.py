"""All options with an instant accept the same forms, and a txid means the state after its entry.

Each is tested with some of them, others in every run; ``--deep`` tests all.
"""

from __future__ import annotations

import io
import json
import random
import shutil
from pathlib import Path

import pytest

from sowctl.cli.main import main
from sowctl.cli.parsing.loader import load_command
from sowctl.cli.parsing.table import COMMANDS
from tests.cli.conftest import Cli, Result
from tests.support.instances import config_xml, topic_xml

NOW = "2026-01-06T12:00:00Z"
WHEN = ["now", "NOW", "today", "midnight", "yesterday", "10:00", "yesterday 10:00", "-15m", "2026-01-06", "5", "txid:5"]
TRIES = 4
"""Instants with which an option is tested."""
SAME = {
    "today": "2026-01-06",
    "midnight": "2026-01-06T00:00:00Z",
    "Yesterday": "2026-01-05",
    "yesterday noon": "2026-01-05T12:00:00Z",
    "yesterday 9:20": "2026-01-05T09:20:00Z",
    "10:00": "2026-01-06T10:00:00Z",
    "10:00:00.5Z": "2026-01-06T10:00:00.5Z",
    "now": NOW,
}
WORDS: dict[str, list[str]] = {
    "blame --at": ["blame", "t", "1", "--at"],
    "bookmark rewind --to": ["bookmark", "rewind", "marks", "--to"],
    "export --at": ["export", "t", "x.csv", "--force", "--at"],
    "get --at": ["get", "t", "1", "--at"],
    "hash --at": ["hash", "t", "--at"],
    "journal bisect --since": ["journal", "bisect", "--topic", "t", "--count", ">= 0", "--since"],
    "journal bisect --until": ["journal", "bisect", "--topic", "t", "--count", ">= 0", "--until"],
    "journal dump --since": ["journal", "dump", "--since"],
    "journal dump --until": ["journal", "dump", "--until"],
    "journal prune --before": ["journal", "prune", "--dry-run", "--before"],
    "journal search --since": ["journal", "search", "--since"],
    "journal search --until": ["journal", "search", "--until"],
    "query --at": ["query", "t", "--at"],
    "replay --until": ["replay", "t", "--into", "out", "--until"],
    "schema --at": ["schema", "t", "--at"],
    "snapshot --at": ["snapshot", "t", "--output", "x.sow", "--force", "--at"],
    "stats --at": ["stats", "t", "--at"],
    "stats --since": ["stats", "--journal", "--since"],
    "stats --until": ["stats", "--journal", "--until"],
}
"""By option: the words before its value."""
ON_SPARK = {"pipeline export --since", "pipeline export --until", "pipeline rebuild --until", "pipeline snapshot --at"}
OTHERS: dict[str, list[str]] = {
    "diff": ["diff", "t", "t@{}"],
    "diff range": ["diff", "t@1..{}"],
    "now": ["query", "t", "--now"],
    "publish --timestamp": ["publish", "new", "m.json", "--dry-run", "--timestamp"],
    "subscribe --bookmark": ["subscribe", "t", "--no-sow", "--until-now", "--bookmark"],
}
"""Other parameters that take an instant; not all of them take a txid."""
OF_TIMES_ALONE = {"now", "publish --timestamp"}


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance to be copied: ten entries of an older topic, then two with earlier times."""
    place = tmp_path_factory.mktemp("instants")
    marks = "<Topic><Name>marks</Name><MessageType>json</MessageType><Key>/clientName</Key><Key>/subId</Key>"
    marks += "<FileName>sow/%n.sow</FileName></Topic>"
    topics = topic_xml("t") + topic_xml("u") + topic_xml("new") + marks
    (place / "sowctl.xml").write_text(config_xml(topics, ("t", "u", "new")))
    (place / "m.json").write_text('{"id":1}\n')

    def publish(topic: str, number: int, now: str) -> None:
        streams = {"stdin": io.BytesIO(b'{"id":%d}' % number), "stdout": io.BytesIO(), "stderr": io.BytesIO()}
        environ = {"SOWCTL_CONFIG": str(place / "sowctl.xml"), "SOWCTL_NOW": now}
        assert main(["publish", topic], environ=environ, **streams) == 0

    for minute in range(10):
        publish("t", minute, f"2026-01-05T09:{minute:02}:30Z")
    for minute in range(2):
        publish("u", minute, f"2026-01-05T08:{minute:02}:00Z")
    return place


@pytest.fixture
def shop(tmp_path: Path, cli: Cli, published: Path) -> Cli:
    """A copy of the instance."""
    shutil.copytree(published, tmp_path, dirs_exist_ok=True)

    def call(*argv: str, stdin: bytes = b"", now: str = NOW) -> Result:
        return cli(*argv, stdin=stdin, environ={"SOWCTL_CONFIG": "sowctl.xml", "SOWCTL_NOW": now})

    return call


def _list_options(metavar: str) -> set[str]:
    return {
        f"{command.name} {parameter.declared.names[0]}"
        for command in COMMANDS
        for parameter in load_command(command).parameters
        if parameter.declared.metavar == metavar and hasattr(parameter.declared, "names")
    }


def test_all_options_with_an_instant_are_tested() -> None:
    assert _list_options("WHEN") == WORDS.keys() | ON_SPARK


@pytest.mark.parametrize("option", sorted(WORDS))
def test_every_option_takes_every_instant(option: str, shop: Cli, seed: int, deep: bool) -> None:
    for when in WHEN if deep else random.Random(seed).sample(WHEN, TRIES):
        done = shop(*WORDS[option], when)
        # Some have no entry at that instant; the directory out exists the second time.
        assert done.status in (0, 1, 8, 10) or "SOW-UPK-044" in done.err, (when, done.err)
    wrong = shop(*WORDS[option], "10:60")
    assert wrong.status == 2 and ("SOW-VAL-010" in wrong.err or "SOW-IDN-001" in wrong.err)


@pytest.mark.parametrize("place", sorted(OTHERS))
def test_other_places_take_them_too(place: str, shop: Cli, seed: int, deep: bool) -> None:
    for when in WHEN if deep else random.Random(seed).sample(WHEN, TRIES):
        if place in OF_TIMES_ALONE and when in ("5", "txid:5"):
            continue
        words = [word.format(when) for word in OTHERS[place]]
        done = shop(*words, *([] if "{}" in "".join(OTHERS[place]) else [when]))
        assert done.status in (0, 1), (when, done.err)


@pytest.mark.parametrize(("word", "time"), SAME.items())
def test_words_mean_these_times(word: str, time: str, shop: Cli) -> None:
    for command in (["journal", "search", "--until"], ["query", "t", "--at"], ["stats", "--journal", "--since"]):
        assert shop(*command, word).out == shop(*command, time).out


def test_a_range_of_txids_is_no_time_of_day(shop: Cli) -> None:
    found = shop("subscribe", "t", "--no-sow", "--data-only", "--bookmark", "[03:05]")
    assert [json.loads(line)["id"] for line in found.out.splitlines()] == [2, 3, 4]


def test_messages_have_no_words_for_times(shop: Cli) -> None:
    for word in ("10:00", "today"):
        line = json.dumps({"id": 1, "at": word}).encode()
        assert shop("publish", "u", "--timestamp-field", "/at", "--dry-run", stdin=line).status == 3


def test_a_txid_names_the_state_after_its_entry(shop: Cli) -> None:
    assert shop("diff", "t@11", "t").status == 0
    assert shop("query", "t", "--at", "11", "--count").out == "10\n"
    assert shop("query", "t", "--at", "2026-01-05T08:00:00Z", "--count").out == "0\n"
    assert shop("hash", "t", "--at", "txid:12").out == shop("hash", "t").out
    assert shop("get", "t", "9", "--at", "12").out == '{"id":9}\n'
    assert shop("blame", "t", "9", "--at", "12").status == 0
    assert shop("diff", "t@3..5", "--stat").status == 1
    changed = shop("diff", "t@3..11", "--format", "json").out
    assert changed.count('"added"') == 7
    written = shop("diff", "t@2..4", "t", "--format", "json").out
    assert written.count('"added"') == 8 and '"removed"' not in written
    assert shop("snapshot", "t", "--at", "11", "--output", "x.sow", "--summary", "json").status == 0
    assert shop("query", "x.sow", "--count").out == "10\n"
