"""Output messages of a conflated topic: enrichment, and names of its logical topics.

The same message and instant always produce the same output: the clock of an enrichment is the end of the interval, and
its random bytes are derived from key and instant. Called by :mod:`sowctl.engine.views.conflation.conflated_source`,
:mod:`sowctl.engine.views.conflation.conflation_store` and :mod:`sowctl.engine.views.conflation.source_changes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from xxhash import xxh3_128_digest

from sowctl.engine.search.matcher import build_headers
from sowctl.errors import InputError
from sowctl.store.codec import decode_record, encode_record

if TYPE_CHECKING:
    from sowctl.config.derived_entries import ConflatedTopic
    from sowctl.engine.instance import Instance
    from sowctl.engine.views.conflation.timeline import KeyChange
    from sowctl.engine.writing.enrichment import EnrichmentPhase


class TopicOutputs:
    """Builds the outputs of one conflated topic. Raises ConfigError if its enrichment is invalid."""

    def __init__(self, instance: Instance, entry: ConflatedTopic) -> None:
        self._entry = entry
        self._seed = b""
        self._phase: EnrichmentPhase | None = None
        if entry.enrichment:
            from sowctl.engine.writing.enrichment import compile_conflated_phase

            self._phase = compile_conflated_phase(replace(instance, random=self._random), entry)

    def _random(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            self._seed = xxh3_128_digest(self._seed)
            found += self._seed
        return found[:count]

    def apply_output(self, change: KeyChange) -> KeyChange:
        """Return the change with its value replaced by the output."""
        return change if change.value is None else change._replace(value=self.build_value(change))

    def build_value(self, change: KeyChange) -> bytes:
        """Build the stored value of the output for a change. Raises InputError ``SOW-QRY-004``."""
        time, key, value = change
        assert value is not None
        form = self._entry.topic_format
        if self._phase is None and form is None:
            # No transformation: return the stored bytes with their checksum.
            return value
        record = decode_record(key, value)
        payload, logical = record.payload, record.logical_topic
        if self._phase is not None:
            self._seed = key + time.to_bytes(8, "big", signed=True)
            headers = build_headers([key], [value], self._entry.underlying)
            [payload], refused = self._phase.apply([payload], time, headers=headers)
            if refused:
                number = str(int.from_bytes(key, "big"))
                raise InputError(
                    "SOW-QRY-004",
                    f"record {number} cannot be enriched: {refused[0].message}",
                    place=self._entry.name,
                    sow_key=number,
                )
        if form is not None and logical is not None:
            logical = form.encode().replace(b"%n", logical)
        stamps = record.txid, record.time, record.expiration
        optional = record.user_key, record.correlation_id, logical
        return encode_record(key, record.check, *stamps, record.flags, payload, optional)
