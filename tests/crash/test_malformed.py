"""Malformed files of every kind under every reading verb: reported errors only, no crash, no wrong data.

Each variant is read in a separate process, which reports its progress. LMDB trusts its own pages: some damaged ones
crash the process that reads them. That is rare here (see DEATHS), and the check, which reads in a separate process,
reports every one of them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sowctl.engine.instance import Instance
from sowctl.engine.options import PublishOptions, QueryOptions, ReplayOptions
from sowctl.engine.sources.digest import compute_digest
from sowctl.engine.topics.targets import Target, resolve_targets
from sowctl.engine.verbs.check import check_instance
from sowctl.engine.verbs.info import list_topic_info
from sowctl.engine.verbs.journal import EntryFilter, dump_entries, list_files
from sowctl.engine.verbs.publish import publish_messages
from sowctl.engine.verbs.query import start_query
from sowctl.engine.verbs.replay import replay_topics
from sowctl.engine.writing.batches import ListSource
from sowctl.errors import SowError
from sowctl.findings import Level
from sowctl.identity.keys import build_domain_prefix, compute_key_digest
from sowctl.store.check import check_store
from tests.support.instances import SECOND
from tests.support.processes import Child
from tests.support.verbs import LOGGED, TOPICS, Plot, behind, grown, put_files

ALLOWED = {3, 4, 5, 7, 8, 9, 10}
"""Exit statuses allowed for damaged files; 8 is a store of another definition."""
DEATHS = 0.04
"""Maximum share of heavily damaged stores that may crash the process of a verb; about 0.005 did."""
Harm = Callable[[random.Random, bytes, dict[str, bytes]], bytes]


def random_bytes(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    return chance.randbytes(chance.choice([1, 15, 100, 4096, 8192, 20_000]))


def empty(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    return b""


def truncated(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    return good[: chance.randrange(len(good))]


def truncated_at_pages(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    return good[: chance.randrange(1 + len(good) // 4096) * 4096]


def extended(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    return good + chance.choice([bytes(100), chance.randbytes(5000), good])


def flipped(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    data = bytearray(good)
    for _ in range(chance.choice([1, 1, 1, 3, 50])):  # type: ignore[assignment]
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def flipped_in_front(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    data = bytearray(good)
    data[chance.randrange(min(200, len(data)))] ^= 1 << chance.randrange(8)
    return bytes(data)


def flipped_in_page_headers(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    """Change what LMDB reads without a check: page numbers, flags, bounds, node offsets."""
    data = bytearray(good)
    page = chance.randrange(max(1, len(data) // 4096)) * 4096
    data[min(page + chance.randrange(64), len(data) - 1)] ^= 1 << chance.randrange(8)
    return bytes(data)


def overwritten(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    at, size = chance.randrange(len(good)), chance.choice([1, 8, 512, 4096])
    piece = chance.choice([bytes(size), b"\xff" * size, chance.randbytes(size)])
    return good[:at] + piece[: len(good) - at] + good[at + size :]


def pages_exchanged(chance: random.Random, good: bytes, _: dict[str, bytes]) -> bytes:
    pages = [good[at : at + 4096] for at in range(0, len(good), 4096)]
    one, two = chance.randrange(len(pages)), chance.randrange(len(pages))
    pages[one], pages[two] = pages[two], pages[one]
    return b"".join(pages)


def another_file(chance: random.Random, good: bytes, files: dict[str, bytes]) -> bytes:
    return chance.choice([content for content in files.values() if content != good])


HARMS: list[Harm] = [
    random_bytes,
    empty,
    truncated,
    truncated_at_pages,
    extended,
    flipped,
    flipped_in_front,
    flipped_in_page_headers,
    overwritten,
    pages_exchanged,
    another_file,
]


def _rows(instance: Instance, target: Target, **options: object) -> list[str]:
    result = start_query(instance, [target], QueryOptions(**options))  # type: ignore[arg-type]
    return sorted(record.payload.decode() for record in result.iterate_records())


def verbs(plot: Plot, topic_names: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield every reading verb on some topics, then the writing ones: names and functions."""
    try:
        instance = plot.lab.open(lock_wait=0.5)
    except SowError as error:
        assert error.exit_status == 4, error
        return
    targets = [Target(topic=topic) for topic in instance.topics if topic.name in topic_names]
    configs = [target.topic for target in targets if target.topic is not None]
    yield "info", lambda: list_topic_info(instance)
    for target in targets:
        assert target.topic is not None
        name = target.topic.name
        yield f"query {name}", lambda target=target: _rows(instance, target)
        present = str(
            int.from_bytes(compute_key_digest(build_domain_prefix(target.topic.key_domain), [b"7"])[:8], "big")
        )
        yield f"get {name}", lambda target=target, key=present: _rows(instance, target, sow_keys=("1", key))
        yield f"order {name}", lambda target=target: _rows(instance, target, order_by="/v DESC", filter="/id > 2")
        yield f"at {name}", lambda target=target: _rows(instance, target, at=plot.lab.clock.at - 8 * SECOND)
        yield f"hash {name}", lambda target=target: compute_digest(instance, target).digest
        path = target.topic.file
        yield f"file {name}", lambda path=path: [_rows(instance, one) for one in resolve_targets(instance, str(path))]
    yield "journal list", lambda: list_files(instance)
    yield "journal dump", lambda: [len(batch.records) for batch in dump_entries(instance, EntryFilter())]
    yield "verify", lambda: replay_topics(instance, configs, ReplayOptions(verify=True))
    yield "plan", lambda: replay_topics(instance, configs, ReplayOptions(dry_run=True))
    for target in targets:
        assert target.topic is not None
        name = target.topic.name
        message = json.dumps({"id": 1, "v": -1}).encode()
        yield (
            f"publish {name}",
            lambda name=name, message=message: publish_messages(
                instance, name, [("in", ListSource([message]))], PublishOptions(batch=1)
            ),
        )
        yield (
            f"replay {name}",
            lambda target=target: replay_topics(instance, [target.topic], ReplayOptions()),  # type: ignore[list-item]
        )


def read_all(plot: Plot, topic_names: str = "jhqab", with_check: bool = False) -> Child:
    """Start a child that tries every verb and reports the results."""

    def work(child: Child) -> None:
        for name, act in verbs(plot, topic_names):
            child.say(f"try {name}")
            try:
                value = act()
            except SowError as error:
                child.say(f"end {json.dumps([name, error.exit_status, error.code])}")
            except BaseException as surprise:
                import traceback

                text = "".join(traceback.format_exception(surprise)[-3:])
                child.say(f"end {json.dumps([name, -1, text])}")
            else:
                rows = value if name.split()[0] in ("query", "get", "at", "order") else None
                child.say(f"end {json.dumps([name, 0, rows])}")
        if with_check:
            child.say("try check")
            worst = max((finding.level for finding in check_instance(plot.lab.open())), default=Level.INFO)
            child.say(f"end {json.dumps(['check', 0, int(worst)])}")

    return Child(work)


def outcome(
    plot: Plot, topic_names: str = "jhqab", with_check: bool = False
) -> tuple[dict[str, tuple[int, object]], str | None]:
    """Return each verb's exit status and rows; and the fault, None if there is none."""
    with read_all(plot, topic_names, with_check) as child:
        status = child.join(timeout=60)
        lines = [line.decode() for line in child.lines]
    ends = [json.loads(line[4:]) for line in lines if line.startswith("end ")]
    results = {name: (code, rest) for name, code, rest in ends}
    last = next((line[4:] for line in reversed(lines) if line.startswith("try ")), "the start")
    if status < 0:
        return results, f"{last}: died of {signal.Signals(-status).name}"
    if status:
        return results, f"{last}: the child failed with {status}"
    for name, (code, rest) in results.items():
        # A page with a length beyond its end makes LMDB's own write incomplete, which LMDB reports as an I/O error.
        if code and code not in ALLOWED and not (code == 6 and name.startswith("publish")):
            return results, f"{name}: exit {code}, {rest}"
    return results, None


def wrong_rows(results: dict[str, tuple[int, object]], good: dict[str, tuple[int, object]]) -> str | None:
    """Return a read that succeeded with other rows than the intact instance returns.

    A single record may be an older one: an older copy of its page is valid in itself, and only a scan counts.
    """
    for name, (code, rows) in results.items():
        if code == 0 and name.startswith("get "):
            if not rows:
                return f"{name} gave nothing instead of {str(good[name][1])[:200]}"
            continue
        if code == 0 and rows is not None and name != "check" and rows != good[name][1]:
            return f"{name} gave {str(rows)[:200]} instead of {str(good[name][1])[:200]}"
    return None


def trial(
    plot: Plot, files: dict[str, bytes], name: str, content: bytes, topic_names: str = "jhqab", with_check: bool = False
) -> tuple[dict[str, tuple[int, object]], str | None]:
    """Return the outcome with one file changed."""
    put_files(plot.root, files | {name: content})
    return outcome(plot, topic_names, with_check)


@pytest.fixture
def plot(memory: Path) -> Plot:
    plot = Plot(memory / "lab")
    grown(plot)
    plot.lab.open().topic("j").publish([json.dumps({"id": n, "v": n, "x": "x" * 900}).encode() for n in range(60, 90)])
    plot.save()
    return plot


def test_stores(plot: Plot, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    plot.restore()
    files = dict(plot.files)
    good, problem = outcome(plot)
    assert problem is None
    assert all(good[f"get {name}"][1] for name in TOPICS)
    trials = 3000 if deep else 22
    died = []
    for number in range(trials):
        name = f"sow/{chance.choice(list(TOPICS))}.json.sow"
        harm = HARMS[number % len(HARMS)]
        with_check = number % 16 == 0
        changed = harm(chance, files[name], files)
        results, problem = trial(plot, files, name, changed, name[4], with_check)
        story = f"trial {number}: {harm.__name__} of {name}"
        if problem is not None and " died of SIG" in problem:
            died.append(f"{story}: {problem}")
            put_files(plot.root, files | {name: changed})
            worst = max((finding.level for finding in check_store(plot.root / name)), default=Level.INFO)
            assert worst == Level.ERROR or problem.startswith("publish"), f"{story}: {problem}, and no finding"
            problem = None
        assert problem is None, f"{story}: {problem}"
        # A leaf that replaces a branch page hides keys from a search for one; scans and the check report it.
        passed_over = ("publish", "replay", "get") if harm is pages_exchanged else ("publish", "replay")
        before_writing = {verb: result for verb, result in results.items() if verb.split()[0] not in passed_over}
        wrong = wrong_rows(before_writing, good)
        assert wrong is None, f"{story}: {wrong}"
        failed = [verb for verb, (code, _) in results.items() if code and verb.split()[0] in ("query", "hash")]
        if with_check and failed and "check" in results:
            repaired = name[4] in LOGGED
            assert repaired or results["check"][1] == Level.ERROR, story
    assert len(died) <= max(2, trials * DEATHS), died


def test_journals(plot: Plot, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    plot.restore()
    files = dict(plot.files)
    good, problem = outcome(plot)
    assert problem is None
    journals = [name for name in files if name.endswith((".journal", ".topics", ".lock"))]
    for number in range(3000 if deep else 20):
        name = journals[number % len(journals)]
        harm = HARMS[chance.randrange(len(HARMS))]
        if not files[name]:
            continue
        results, problem = trial(plot, files, name, harm(chance, files[name], files), "jha")
        story = f"trial {number}: {harm.__name__} of {name}"
        assert problem is None, f"{story}: {problem}"
        wrong = wrong_rows({k: v for k, v in results.items() if k.split()[0] in ("query", "get", "order", "at")}, good)
        assert wrong is None, f"{story}: {wrong}"


def test_journals_with_stores_behind(memory: Path, seed: int, deep: bool) -> None:
    """Here readers show the bytes of the journal: the result is a state that existed, or an error."""
    plot = Plot(memory / "lab")
    grown(plot)
    stood = plot.book.copy()
    plot.restore() if plot.files else None
    plot = Plot(memory / "behind")
    behind(plot)
    plot.save()
    plot.book.acknowledged = dict.fromkeys(plot.book.acknowledged, 0) | {
        log: len(events) for log, events in stood.events.items()
    }
    chance = random.Random(seed)
    files = dict(plot.files)
    journals = [name for name in files if name.endswith((".journal", ".topics"))]
    for number in range(2000 if deep else 12):
        name = journals[-1 - number % 4]
        harm = HARMS[chance.randrange(len(HARMS))]
        results, problem = trial(plot, files, name, harm(chance, files[name], files))
        story = f"trial {number}: {harm.__name__} of {name}"
        assert problem is None, f"{story}: {problem}"
        for topic in LOGGED:
            code, rows = results[f"query {topic}"]
            if code == 0:
                assert isinstance(rows, list)
                state = {json.loads(row)["id"]: row for row in rows}
                events = plot.book.events["journal"]
                counts = range(plot.book.acknowledged["journal"], len(events) + 1)
                now = plot.lab.clock.at
                assert any(plot.book.state("journal", n, now)[topic] == state for n in counts), f"{story}: {topic}"


def test_configurations(plot: Plot, seed: int, deep: bool) -> None:
    chance = random.Random(seed)
    plot.restore()
    files = dict(plot.files)
    for number in range(1000 if deep else 33):
        harm = HARMS[number % len(HARMS)]
        _, problem = trial(plot, files, "sowctl.xml", harm(chance, files["sowctl.xml"], files))
        assert problem is None or "exit 2" in problem, f"trial {number}: {harm.__name__}: {problem}"


def test_lock_and_gate_files(plot: Plot, seed: int, deep: bool) -> None:
    """Files used only for coordination may have any content: nothing is lost, nothing fails."""
    chance = random.Random(seed)
    plot.restore()
    files = dict(plot.files)
    good, _ = outcome(plot)
    names = [name for name in files if name.endswith(("-gate", "-writer", ".lock"))]
    names += ["sow/j.json.sow-lock", "sow/a.json.sow-lock"]
    for number in range(500 if deep else 12):
        name = names[number % len(names)]
        harm = chance.choice([random_bytes, empty, another_file])
        content = harm(chance, files.get(name, b""), files)
        results, problem = trial(plot, files, name, content, "ja")
        story = f"trial {number}: {harm.__name__} of {name}"
        assert problem is None, f"{story}: {problem}"
        assert {name: code for name, (code, _) in results.items() if code} == {
            name: code for name, (code, _) in good.items() if code and name in results
        }, story
        assert wrong_rows(results, good) is None, story


def test_directories_and_pipes_instead_of_files(plot: Plot, seed: int, deep: bool) -> None:
    plot.restore()
    kinds = ("directory", "fifo", "link")
    names = ("sow/j.json.sow", "sow/a.json.sow", "journal/test.0000000000.journal", "journal/test.topics")
    for number, name in enumerate(names):
        for kind in kinds if deep else [kinds[(number + seed) % len(kinds)]]:
            plot.restore()
            path = plot.root / name
            path.unlink()
            if kind == "directory":
                path.mkdir()
            elif kind == "fifo":
                os.mkfifo(path)
            else:
                path.symlink_to(plot.root / "nowhere")
            with read_all(plot) as child:
                status = child.join(timeout=30)
                ends = [json.loads(line[4:]) for line in child.lines if line.startswith(b"end ")]
            assert status == 0, (name, kind, child.lines[-1])
            surprises = [end for end in ends if end[1] not in ALLOWED | {0, 6}]
            assert surprises == [], (name, kind)
    assert sys.platform == "linux"
