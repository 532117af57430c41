"""The records of a source ordered by some of their fields, to compare states with different SOW keys.

Records of two topics never share SOW keys, because each topic has its own key domain. Here records get a key computed
only from field texts, and are sorted by it in bounded memory. Records with the same texts are distinguished by a
number.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

from sowctl.engine.fold.spill import SortBuckets
from sowctl.identity.keys import build_domain_prefix, compute_key_digest, digest_key
from sowctl.store.codec import extract_payloads

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs, Source
    from sowctl.messages.base import MessageType
    from sowctl.values.paths import Path

SORT_MEMORY_BYTES = 32 << 20
"""Maximum bytes of stored values sorted in memory."""
ASSUMED_STATE_BYTES = 1 << 30
"""Assumed size of a state of unknown size: an overestimate only costs more files."""
_VALUE_OVERHEAD_BYTES = 64
"""Approximate overhead of a stored value in bytes, without its payload."""


def sort_by_fields(source: Source, kind: MessageType, paths: Sequence[Path], size: int) -> Iterator[Pairs]:
    """Yield all records in batches of at most ``size``, ascending by keys of 12 bytes computed from the texts at
    ``paths``.

    Keys of records with equal texts differ in the last four bytes, their number in SOW-key order.
    """
    texts_of, domain = kind.build_key_extractor(paths), build_domain_prefix("")
    stored = source.base_source.stored_source
    expected = (
        stored.meta.payload_bytes + _VALUE_OVERHEAD_BYTES * stored.meta.records
        if stored is not None
        else ASSUMED_STATE_BYTES
    )
    with SortBuckets(FilePath(tempfile.gettempdir()), expected, SORT_MEMORY_BYTES) as buckets:
        for _, values in source.read_batches(size):
            rows, _ = texts_of(extract_payloads(values))
            buckets.add_values(b"".join([digest_key(compute_key_digest(domain, row)) for row in rows]), list(values))
        last, number = b"", 0
        for keys, values in buckets.iterate_sorted(size):
            unique = []
            for key in keys:
                number = number + 1 if key == last else 0
                last = key
                unique.append(key + number.to_bytes(4, "big"))
            yield unique, values
