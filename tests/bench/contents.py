"""What a store holds, as a number that does not depend on the order: the rule under which engines are compared."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from xxhash import xxh3_128_intdigest


class Contents(NamedTuple):
    """How many records, and the sum modulo 2**128 of xxh3-128 over key and payload of each."""

    records: int
    digest: str


class _Order(msgspec.Struct):
    orderId: int  # noqa: N815 - the name in the data


key_of = msgspec.json.Decoder(_Order).decode


def of_pairs(pairs: Iterable[tuple[int, bytes]]) -> Contents:
    """The contents of records that are there once each."""
    total = count = 0
    for key, payload in pairs:
        total += xxh3_128_intdigest(key.to_bytes(8, "big") + payload)
        count += 1
    return Contents(count, f"{total % (1 << 128):032x}")


def of_output(text: bytes) -> Contents:
    """The contents that a query printed, one payload a line."""
    return of_pairs((key_of(line).orderId, line) for line in text.splitlines())


def of_lines(lines: Iterable[bytes]) -> Contents:
    """The contents after messages, one a line: the last one of every key."""
    last: dict[int, bytes] = {}
    for line in lines:
        payload = line.rstrip(b"\n")
        last[key_of(payload).orderId] = payload
    return of_pairs(last.items())
