"""The benchmark's input: NDJSON orders of about 220 bytes, every key drawn at random; same seed, same bytes.

``python tests/bench/data.py COUNT KEYS FILE`` writes COUNT messages over KEYS keys.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

SYMBOLS = [f"SYM{n:04d}" for n in range(2000)]
REGIONS = ("EMEA", "AMER", "APAC", "LATM")
DESKS = ("cash", "delta-one", "options", "program", "swaps")
NOTE = "client instruction on file; route as agreed by telephone"


def lines(count: int, keys: int, seed: int = 7) -> list[bytes]:
    """``count`` messages; ``orderId`` is uniform over ``keys`` values."""
    rng = random.Random(seed)
    choice, randrange, uniform = rng.choice, rng.randrange, rng.random
    return [
        (
            f'{{"orderId":{10_000_000 + randrange(keys)},"seq":{n},"symbol":"{choice(SYMBOLS)}",'
            f'"region":"{choice(REGIONS)}","price":{uniform() * 100:.4f},"qty":{randrange(1, 500) * 100},'
            f'"desk":"{choice(DESKS)}","trader":{{"id":{randrange(400)},"name":"trader-{randrange(400):03d}"}},'
            f'"note":"{NOTE}"}}'
        ).encode()
        for n in range(count)
    ]


def write(count: int, keys: int, path: Path, seed: int = 7) -> None:
    """Write the messages in slices, so that memory does not grow with their number."""
    with path.open("wb") as out:
        for start in range(0, count, 100_000):
            part = lines(min(100_000, count - start), keys, seed + start)
            out.write(b"\n".join(part) + b"\n")


if __name__ == "__main__":
    write(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
