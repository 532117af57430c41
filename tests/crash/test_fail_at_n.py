"""The n-th call of a verb fails, once or permanently: exit 6, acknowledged messages survive, a repetition completes."""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest

from sowctl.engine.reports import PublishReport
from sowctl.errors import DamageError, SowError
from sowctl.findings import Level
from sowctl.seam import SEAM, Seam
from tests.support.faults import CountingSeam, FailAt, ShortWriteAt
from tests.support.metawrites import FAULTS, FailsAtMeta, LmdbWrites, can_fail
from tests.support.verbs import CASES, IDS, Plot, Start, Template, Verb, problems, rebuilt_is_live

FAILURES = [
    (errno.EIO, False, False),
    (errno.ENOSPC, True, False),
    (errno.EINTR, False, False),
    (errno.EIO, False, True),
    (errno.EIO, True, False),
    (errno.ENOSPC, False, False),
    (errno.EINTR, True, False),
]

STRIDE = 131
"""In the short form every STRIDE-th call fails, starting at a random one; in the long form every call. Each call fails
with one of the failures in turn, which differs between runs: all failures at every call take four hours."""
STRIDE_WRITES = 6
"""The same for writes, for writes of meta pages and for commits; here the long form tries all failures."""
LEAST = 3
"""The minimum number of calls tried, even for a verb with few calls."""


def chosen(count: int, seed: int, stride: int) -> range:
    """Return the calls to try of ``count``, starting at 1: every ``stride``-th, or more if that is less than LEAST."""
    step = min(stride, max(1, count // LEAST))
    return range(1 + seed % step, count + 1, step)


_STARTS: dict[Template, Start] = {}
"""The results of templates in this process: building one again would take up to half of a test's time."""


def prepared(memory: Path, template: Template) -> Plot:
    plot = Plot(memory / "lab")
    if template in _STARTS:
        plot.take_over(_STARTS[template])
    else:
        template(plot)
        _STARTS[template] = plot.save()
    return plot


def calls(plot: Plot, verb: Verb, seam: CountingSeam) -> list[str]:
    """Return the calls that the verb makes if nothing fails."""
    plot.restore()
    verb(plot, seam)
    assert plot.book.judge(plot.contents(), plot.lab.clock.at) is None
    return seam.points


def attempt(plot: Plot, verb: Verb, seam: Seam) -> SowError | None:
    """Run the verb from the start and return its error. Anything except a reported error is a fault."""
    plot.restore()
    try:
        verb(plot, seam)
    except SowError as error:
        return error
    return None


def judge(plot: Plot, verb: Verb, problem: str, *, thorough: bool = False) -> None:
    """Check that the contents are as the book allows and valid, and that the verb, when repeated, completes."""
    now = plot.lab.clock.at
    try:
        found = plot.contents()
    except DamageError as error:
        assert Path(str(error.place)).read_bytes().startswith(b"not a store"), problem
    else:
        wrong = plot.book.judge(found, now)
        assert wrong is None, f"{problem}: {wrong}"
        if thorough:
            assert problems(plot.lab, Level.ERROR) == [], problem
            assert rebuilt_is_live(plot.lab) is None, problem
        plot.book.collapse(found, now)
    again(plot, verb, SEAM)
    assert plot.contents() == plot.book.final(now), problem
    assert problems(plot.lab) == [], problem
    if thorough:
        assert rebuilt_is_live(plot.lab) is None, problem


def again(plot: Plot, verb: Verb, seam: Seam) -> None:
    """Publish the same messages with the same clock again, after the existing ones."""
    _, plot.values, plot.lab.clock.at = plot.saved
    verb(plot, seam)


def check_report(plot: Plot, error: SowError, problem: str) -> None:
    """Check that the error has the exit status of a failing disk and reports how much is durable."""
    assert error.exit_status == 6, f"{problem}: {error.code} exit {error.exit_status} {error.message}"
    assert error.message, problem
    report = error.facts.get("report")
    if isinstance(report, PublishReport):
        told = sum(plot.book.acknowledged.values()) - sum(plot.saved[0].acknowledged.values())
        assert report.published <= told, problem
        if report.published:
            assert report.last_txid, problem


@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_the_nth_call_fails(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam())
    tries = chosen(len(points), seed, 1 if deep else STRIDE)
    reported = tried = 0
    for n in tries:
        code, forever, after = FAILURES[(n // tries.step + seed) % len(FAILURES)]
        seam = FailAt(n, code, forever, after=after)
        problem = f"call {n} of {len(points)} ({points[n - 1]}): {errno.errorcode[code]}, {forever=}, {after=}"
        try:
            error = attempt(plot, verb, seam)
        except BaseException as foreign:
            raise AssertionError(f"{problem}: {foreign!r}") from foreign
        tried += 1
        if error is not None:
            reported += 1
            check_report(plot, error, problem)
        judge(plot, verb, problem, thorough=deep or (tried + seed) % 3 == 0)
    # A few calls are no measure of the share.
    assert reported > (tried // 4 if deep else 0)


@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_the_nth_write_is_short(memory: Path, template: Template, verb: Verb, seed: int, deep: bool) -> None:
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam(("file.write", "file.pwrite")))
    for n in chosen(len(points), seed, 1 if deep else STRIDE_WRITES):
        for keep, then in [(None, errno.ENOSPC), (0, None), (1, None), (None, None), (1, errno.ENOSPC)]:
            if not deep and (n + seed + (keep or 0) + (then or 0)) % 5:
                continue
            problem = f"write {n} of {len(points)} cut to {keep}, then {then}"
            error = attempt(plot, verb, ShortWriteAt(n, keep=keep, then=then))
            if error is not None:
                check_report(plot, error, problem)
            judge(plot, verb, problem, thorough=deep)


@pytest.mark.skipif(not can_fail(), reason="LMDB's calls cannot be replaced here")
@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_the_nth_write_of_a_meta_page_fails(
    memory: Path, template: Template, verb: Verb, seed: int, deep: bool
) -> None:
    """In LMDB itself, in topics with and without a journal; every write and all kinds of failure with ``--deep``."""
    plot = prepared(memory, template)
    plot.restore()
    with LmdbWrites().in_place() as counted:
        verb(plot, SEAM)
    tries = chosen(counted.count, seed, 1 if deep else STRIDE_WRITES)
    for n in tries:
        for number, (name, faults) in enumerate(FAULTS.items()):
            if not deep and (n // tries.step + seed + number) % len(FAULTS):
                continue
            problem = f"write {n} of {counted.count} of a meta page: {name}"
            with LmdbWrites(n, faults).in_place():
                error = attempt(plot, verb, SEAM)
            if error is not None:
                check_report(plot, error, problem)
            judge(plot, verb, problem, thorough=deep)


@pytest.mark.parametrize(("template", "verb"), [case[1:] for case in CASES], ids=IDS)
def test_the_meta_page_of_the_nth_commit_is_left_mixed(
    memory: Path, template: Template, verb: Verb, seed: int, deep: bool
) -> None:
    """The same, simulated: the page as LMDB leaves it, after every commit in turn; in the short form after some."""
    plot = prepared(memory, template)
    commits = len(calls(plot, verb, CountingSeam(("lmdb.commit",))))
    for n in chosen(commits, seed, 1 if deep else STRIDE_WRITES):
        error = attempt(plot, verb, FailsAtMeta(n, plot.root))
        if error is not None:
            check_report(plot, error, f"commit {n} of {commits}")
        judge(plot, verb, f"commit {n} of {commits}", thorough=deep)


PAIRS, PAIRS_DEEP = 4, 150
"""Pairs of failing calls, drawn at random, in the short and in the long form. There are tens of thousands."""
TWICE = ["publish-behind", "publish-torn", "publish-missing", "catch-up", "catch-up-torn", "rebuild-damaged"]


@pytest.mark.parametrize("name", TWICE)
def test_recovery_fails_too(memory: Path, name: str, seed: int, deep: bool) -> None:
    """Two faults in a row: the verb fails at some call, and its repetition at another one."""
    _, template, verb = next(case for case in CASES if case[0] == name)
    plot = prepared(memory, template)
    points = calls(plot, verb, CountingSeam())
    chance = random.Random(f"{seed} {name}")
    for _ in range(PAIRS_DEEP if deep else PAIRS):
        first, second = chance.randint(1, len(points)), chance.randint(1, len(points))
        problem = f"call {first}, then call {second} of about {len(points)}"
        error = attempt(plot, verb, FailAt(first, errno.EIO, forever=first % 2 == 0))
        before = plot.lab.clock.at
        if error is not None:
            check_report(plot, error, problem)
        if name != "rebuild-damaged":
            plot.book.collapse(plot.contents(), before)
        try:
            again(plot, verb, FailAt(second, errno.ENOSPC, forever=second % 2 == 0))
        except SowError as other:
            check_report(plot, other, problem)
        judge(plot, verb, problem)
