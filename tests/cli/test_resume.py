"""The resume advice of a publish that ends early: following it publishes each good message once.

The advice is followed literally: its ``tail`` command is run, files named after ``then`` follow, and the numbers of
``--sequence`` are those of the advice. Bad messages are skipped.
"""

from __future__ import annotations

import errno
import io
import json
import os
import random
import re
import shlex
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sowctl.cli.main import main
from sowctl.seam import SEAM, Seam
from tests.cli.conftest import Cli
from tests.support.faults import CountingSeam, FailAt

CONFIG = """\
<AMPSConfig>
  <Name>test</Name>
  <SOW>
    <Topic><Name>logged</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
    <Topic><Name>alone</Name><MessageType>json</MessageType><Key>/id</Key><FileName>sow/%n.sow</FileName></Topic>
  </SOW>
  <TransactionLog>
    <JournalDirectory>journal</JournalDirectory>
    <Topic><Name>logged</Name><MessageType>json</MessageType></Topic>
  </TransactionLog>
</AMPSConfig>
"""
BAD = (b"{bad", b"\xff", b'{"x":1}', b"[]")
NOTHING_LEFT = "the complete input was published"
ENDS = {"lines": b"\n", "envelope": b"\n", "nul": b"\0"}


def written(numbers: Sequence[int | None], framing: str, chance: random.Random) -> bytes:
    """A file of messages; None is a bad one. Blank ones are between lines, and the last line end may be missing."""
    parts = []
    for number in numbers:
        if number is None:
            parts.append(chance.choice(BAD))
        else:
            message = b'{"id":%d}' % number
            parts.append(b'{"data":%s}' % message if framing == "envelope" else message)
        if framing != "nul" and chance.random() < 0.15:
            parts.append(b"  ")
    end = ENDS[framing]
    return end.join(parts) + (end if chance.random() < 0.7 and parts else b"")


def published(*argv: str, stdin: bytes = b"", seam: Seam = SEAM) -> tuple[int, dict[str, object] | None]:
    """The exit status of a publish and the error that it reported, if any."""
    err = io.BytesIO()
    status = main(
        ["publish", "--error-format", "json", "-q", *argv],
        environ={"SOWCTL_NOW": "2026-01-05T12:00:00Z"},
        stdin=io.BytesIO(stdin),
        stdout=io.BytesIO(),
        stderr=err,
        seam=seam,
    )
    rows = [json.loads(line) for line in err.getvalue().splitlines()]
    return status, next((row for row in rows if row["level"] == "error"), None)


def follow(advice: str, options: Sequence[str]) -> None:
    """Follow the advice, with the same options."""
    if advice == NOTHING_LEFT:
        return
    advice, _, sequence = advice.partition("; with --sequence ")
    options = list(options)
    if sequence:
        options[options.index("--sequence") + 1] = sequence
    advice, _, later = advice.partition(", then ")
    files = shlex.split(later)
    if found := re.fullmatch(r"the rest begins at (?:line|byte) \d+: (tail .*)", advice):
        rest = subprocess.run(shlex.split(found[1]), check=True, capture_output=True).stdout
        status, error = published("logged", "-", *files, *options, stdin=rest)
    else:
        found = re.fullmatch(r"the rest begins with (.*)", advice)
        assert found is not None, advice
        status, error = published("logged", *shlex.split(found[1]), *files, *options)
    assert status in (0, 3), error


def journalled(cli: Cli) -> list[int]:
    """The ids in the journal, with repetitions."""
    if not Path("journal").exists():
        return []
    return sorted(json.loads(line)["data"]["id"] for line in cli("journal", "dump").out.splitlines())


def run_and_resume(cli: Cli, names: Sequence[str], options: Sequence[str], mode: Sequence[str], seam: Seam) -> str:
    """Publish, then resume as the error advises, or publish all again without advice; returns the advice."""
    status, error = published("logged", *names, *options, *mode, seam=seam)
    if error is None:
        assert status in (0, 3)
        return ""
    advice = error.get("resume")
    if advice is not None:
        follow(str(advice), [*options, "--on-error", "skip"])
    else:
        # Without advice all messages must be published again, so there must be none.
        assert not journalled(cli)
        assert published("logged", *names, *options, "--on-error", "skip")[0] in (0, 3)
    return str(advice)


@pytest.mark.parametrize("seed", range(40))
def test_each_good_message_is_published_once(seed: int, cli: Cli) -> None:
    chance = random.Random(seed)
    Path("sowctl.xml").write_text(CONFIG)
    framing = chance.choice(list(ENDS))
    numbers = iter(range(1, 1000))
    share = chance.choice((0.0, 0.1, 0.3))
    files = [
        [None if chance.random() < share else next(numbers) for _ in range(chance.choice((0, 1, 5, 20)))]
        for _ in range(chance.randint(1, 3))
    ]
    names = [f"in {place}.txt" for place in range(len(files))]
    for name, content in zip(names, files, strict=True):
        Path(name).write_bytes(written(content, framing, chance))
    options = ["--framing", framing, "--batch", str(chance.choice((1, 2, 3, 7, 1000)))]
    if chance.random() < 0.4:
        options += ["--client", "c", "--sequence", "5"]
    mode = ["--on-error", chance.choice(("stop", "skip", "abort"))]
    if mode[1] == "skip" and chance.random() < 0.7:
        mode += ["--max-errors", str(chance.randint(1, 3))]
    seam = SEAM
    if chance.random() < 0.6:
        number = chance.randint(1, 12)
        points = chance.choice((("file.write",), ("file.sync",)))
        seam = FailAt(number, errno.ENOSPC, True, after=chance.random() < 0.3, points=points)
    advice = run_and_resume(cli, names, options, mode, seam)
    good = sorted(number for content in files for number in content if number is not None)
    assert journalled(cli) == good, (options, mode, seam, advice)


def test_every_failing_call_of_a_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("one").write_bytes(b"".join(b'{"id":%d}\n' % number for number in range(1, 8)))
    Path("two").write_bytes(b"".join(b'{"id":%d}\n' % number for number in range(8, 12)))
    options = ["--batch", "3"]
    counting = CountingSeam(("file.write", "file.sync", "lmdb."))
    for number in range(200):
        place = tmp_path / f"run{number}"
        place.mkdir()
        monkeypatch.chdir(place)
        Path("sowctl.xml").write_text(CONFIG)
        seam = counting if not number else FailAt(number, errno.EIO, points=counting.only)
        run_and_resume(cli, ["../one", "../two"], options, [], seam)
        assert journalled(cli) == list(range(1, 12)), number
        if number > counting.count:
            return


def shop(write: Callable[[], object] = lambda: None) -> None:
    Path("sowctl.xml").write_text(CONFIG)
    write()


def test_after_an_abort_nothing_is_to_be_resumed(cli: Cli) -> None:
    shop(lambda: Path("in").write_bytes(b'{"id":1}\n{bad\n'))
    for options in ((), ("--error-format", "json")):
        result = cli("publish", "logged", "in", "--on-error", "abort", *options)
        assert "Nothing was published" in result.err
        assert "rest" not in result.err
        assert "tail" not in result.err


def test_where_nothing_was_published_all_is_to_be_done_again(cli: Cli) -> None:
    shop(lambda: Path("in").write_bytes(b'\n{bad\n{"id":1}\n'))
    assert "rest" not in cli("publish", "logged", "in").err
    assert "rest" not in cli("publish", "logged", "in", "--dry-run").err
    Path("in").write_bytes(b'{"id":1}\n{bad\n')
    assert "rest" not in cli("publish", "logged", "in", "--dry-run").err


def test_an_abort_names_the_input_of_the_bad_message(cli: Cli) -> None:
    shop(lambda: Path("one").write_bytes(b'{"id":1}\n{"id":2}\n{"id":3}\n'))
    Path("two").write_bytes(b'{"id":4}\n{bad\n')
    Path("three").write_bytes(b"{bad\n")
    result = cli("publish", "logged", "one", "two", "three", "--on-error", "abort")
    assert result.err.startswith("error[SOW-MSG-002]: two:2:2: ")
    enveloped = ("--framing", "envelope", "--on-error", "abort")
    for name in ("one", "two", "three"):
        Path(name).write_bytes(b"".join(b'{"data":%s}\n' % line for line in Path(name).read_bytes().splitlines()))
    assert cli("publish", "logged", "one", "two", "three", *enveloped).err.startswith("error[SOW-INP-010]: two:2:10: ")


def test_a_stop_at_a_broken_envelope_loses_none_before_it(cli: Cli) -> None:
    lines = [b'{"data":{"id":%d}}\n' % number for number in range(1, 9)]
    shop(lambda: Path("in").write_bytes(b"".join([*lines[:5], b"{bad\n", *lines[5:]])))
    result = cli("publish", "logged", "in", "--framing", "envelope", "--batch", "2")
    assert "5 messages are durable" in result.err
    assert "tail -n +6 in\n" in result.err


def test_an_interrupt_says_it_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from sowctl.cli.commands.bodies.publish import PublishRun

    shop(lambda: Path("in").write_bytes(b'{"id":1}\n{"id":2}\n{"id":3}\n'))
    told = PublishRun.note_acknowledged

    def interrupted(self: PublishRun, batch: object) -> None:
        told(self, batch)  # type: ignore[arg-type]
        if self.published == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(PublishRun, "note_acknowledged", interrupted)
    result = cli("publish", "logged", "in", "--batch", "1")
    assert (result.status, "tail -n +3 in" in result.err) == (130, True)
    assert json.loads(cli("journal", "dump", "--txid", "2").out)["data"] == {"id": 2}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (b'{"id":1}\n{bad\n', "line 2 of (standard input), then in"),
        (b'{"id":1}\n', "line 2: tail -n +2 in"),
    ],
)
def test_standard_input_and_files(lines: bytes, words: str, cli: Cli) -> None:
    shop(lambda: Path("in").write_bytes(b'{"id":2}\n{bad\n'))
    assert f" {words}\n" in cli("publish", "logged", "-", "in", stdin=lines).err


def test_every_file_is_there_before_the_first_is_published(cli: Cli) -> None:
    shop(lambda: Path("in").write_bytes(b'{"id":1}\n'))
    for last, status, code in (("nofile", 10, "SOW-CLI-062"), (".", 2, "SOW-EXC-002")):
        result = cli("publish", "logged", "in", last)
        assert (result.status, result.err.startswith(f"error[{code}]: ")) == (status, True), result.err
        assert last in result.err
        assert not Path("journal").exists() or not journalled(cli)


def test_a_pipe_with_a_name_is_not_there_a_second_time(cli: Cli) -> None:
    Path("sowctl.xml").write_text(CONFIG)
    os.mkfifo("pipe")
    feeder = threading.Thread(target=lambda: Path("pipe").write_bytes(b'{"id":1}\n{bad\n{"id":2}\n'))
    feeder.start()
    said = cli("publish", "logged", "pipe")
    feeder.join()
    assert " line 2 of pipe" in said.err
    assert "tail" not in said.err
