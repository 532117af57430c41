"""Running items in turn, and the table of medians, ranges and ratios."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Sample:
    """One run: seconds on the clock and of CPU (user and system)."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Item:
    """Something to time. ``prepare`` runs before every run and is not timed; ``run`` measures itself."""

    name: str
    run: Callable[[], Sample]
    prepare: Callable[[], object] = lambda: None


class Wrong(Exception):
    """A benchmark's outputs are not what they must be: nothing is ranked."""


def process(argv: Sequence[str], *, feed: Path | None = None, out: int | IO[bytes] = subprocess.DEVNULL) -> Sample:
    """Run a process to its end; ``feed`` reaches its standard input through a pipe. Raises Wrong when it fails."""
    source = subprocess.Popen(["cat", str(feed)], stdout=subprocess.PIPE) if feed is not None else None
    begin = time.perf_counter()
    stdin = source.stdout if source is not None else subprocess.DEVNULL
    child = subprocess.Popen(argv, stdin=stdin, stdout=out, stderr=subprocess.PIPE, cwd=ROOT)
    if source is not None and source.stdout is not None:
        source.stdout.close()
    assert child.stderr is not None
    said = child.stderr.read().decode()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if source is not None:
        source.wait()
    if child.returncode:
        raise Wrong(f"{' '.join(argv)[:200]} ended with status {child.returncode}:\n{said}")
    return Sample(wall, usage.ru_utime + usage.ru_stime)


def output_of(argv: Sequence[str], feed: Path | None = None) -> bytes:
    """What a process writes to its standard output."""
    with feed.open("rb") if feed is not None else open(os.devnull, "rb") as stdin:  # noqa: PTH123
        return subprocess.run(argv, stdin=stdin, stdout=subprocess.PIPE, check=True, cwd=ROOT).stdout


def timed(function: Callable[[], object]) -> Sample:
    """Time a call in this process; the CPU time of processes that it waits for counts."""
    cpu, begin = read_cpu_seconds(), time.perf_counter()
    function()
    return Sample(time.perf_counter() - begin, read_cpu_seconds() - cpu)


def read_cpu_seconds() -> float:
    """User and system time of this process and of the processes that it has waited for."""
    # Not os.times(), which counts hundredths of a second.
    both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in both)


def race(items: Sequence[Item], rounds: int) -> dict[str, list[Sample]]:
    """Every item once per round; the first one leads."""
    found: dict[str, list[Sample]] = {item.name: [] for item in items}
    for number in range(rounds):
        shift = number % len(items)
        for item in [*items[shift:], *items[:shift]]:
            item.prepare()
            found[item.name].append(item.run())
            if sys.stderr.isatty():
                print(f"\r  round {number + 1} of {rounds}: {item.name:34}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 60, end="\r", file=sys.stderr)
    return found


def ratios(found: dict[str, list[Sample]], name: str, base: str) -> list[float]:
    """How many times the wall time of ``base`` the item ``name`` took, round by round."""
    return [one.wall / other.wall for one, other in zip(found[name], found[base], strict=True)]


def show(found: dict[str, list[Sample]], *, base: str, count: int = 0, unit: str = "msg") -> None:
    """Print the table; with ``count``, how many of ``unit`` a second that is. ``base``: what ratios refer to."""
    scale, word = (1, "s") if max(s.wall for runs in found.values() for s in runs) > 2 else (1000, "ms")
    rate = f"{unit}/s" if count else ""
    print(f"  {'':34}{'wall ' + word:>10} {'range':>17}{'cpu ' + word:>10}{rate:>12}   time / {base} (range), cpu")
    base_cpu = statistics.median(run.cpu for run in found[base])
    for name, runs in found.items():
        walls = [run.wall * scale for run in runs]
        cpu = statistics.median(run.cpu for run in runs)
        middle = statistics.median(walls)
        more = cpu / base_cpu if base_cpu else 0.0
        each = ratios(found, name, base)
        speed = f"{count / middle * scale:12,.0f}" if count else f"{'':12}"
        print(
            f"  {name:34}{middle:10.2f} {f'({min(walls):.2f}-{max(walls):.2f})':>17}{cpu * scale:10.2f}{speed}"
            f"   {statistics.median(each):.2f} ({min(each):.2f}-{max(each):.2f}), {more:.2f}"
        )


def judge(text: str, value: float, limit: float, *, most: bool = False) -> None:
    """Print a target with the value it got: at least ``limit``, or with ``most`` at most."""
    held = value <= limit if most else value >= limit
    sign = "<=" if most else ">="
    print(f"  {'met ' if held else 'MISSED'}  {text}: {value:,.2f} (target {sign} {limit:,.2f})")
