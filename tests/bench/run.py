"""Runs the benchmarks; see the package's docstring."""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from tests.bench.facts import facts
from tests.bench.place import Place
from tests.bench.rounds import Wrong

NAMES = (
    *("publish", "replay", "scan", "query", "grouping", "views", "indexes", "figures", "startup", "idle", "memory"),
    *("output", "messages", "spark", "planning", "pipeline", "queues", "following", "latency", "merging", "backup"),
    *("exchange", "inputs"),
)
SIZED = ("idle", "spark", "pipeline", "views")


def main() -> int:
    """Read the arguments and run what they name."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.run")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default all")
    parser.add_argument("--small", action="store_true", help="100,000 messages instead of 1,000,000")
    parser.add_argument("--big", action="store_true", help="idle, views: ten times as many, Spark's: five times")
    parser.add_argument("--dir", help="keep inputs and stores here; default a temporary directory")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of the long benchmarks, at least 3")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(NAMES)
    if unknown or chosen.rounds < 3:
        parser.error(f"no such benchmark: {', '.join(unknown)}" if unknown else "fewer than 3 rounds prove nothing")
    held = nullcontext(chosen.dir) if chosen.dir else tempfile.TemporaryDirectory(prefix="sowctl-bench-")
    with held as directory:
        root = Path(directory).resolve()
        root.mkdir(parents=True, exist_ok=True)
        print(facts(root))
        place = Place(root, 100_000 if chosen.small else 1_000_000)
        for name in chosen.names or NAMES:
            module = importlib.import_module(f"tests.bench.{name}")
            print(f"\n{module.TITLE}  [{place.count:,} messages]")
            try:
                module.run(place, chosen.rounds, **({"big": chosen.big} if name in SIZED else {}))
            except Wrong as error:
                print(f"  WRONG  {error}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
