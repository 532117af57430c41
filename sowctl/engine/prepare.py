"""Messages to entries, before any lock is taken: keys, times, expirations, and what is wrong with a message.

A batch stays in columns all the way. Only what a message brings itself (an envelope, a time field) makes a column of
Python values; otherwise a column is one value for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from sowctl.engine.lifetime import stamp
from sowctl.engine.options import PublishOptions
from sowctl.errors import SowError, UsageError
from sowctl.identity.keys import batch_digester, is_user_key, user_key_digest
from sowctl.messages.base import MessageType
from sowctl.values.fields import Number, Refusal, Slot
from sowctl.values.paths import parse_path
from sowctl.values.times import Micros, parse_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.messages.envelope import Envelope

T = TypeVar("T")

RECORD_OVERHEAD = 64
"""Bytes that a record needs in a slab besides its payload (``semantics`` 1.9)."""


@dataclass(slots=True)
class Prepared:
    """Good messages of one topic in input order, by columns. ``digests`` are key and check word, 16 bytes each.

    ``places`` are indexes into the batch. A column of times or lifetimes is None where no message brings its own;
    ``lifetimes`` are seconds or, as ``("at", micros)``, instants.
    """

    places: list[int]
    payloads: list[bytes]
    digests: list[bytes]
    times: list[Micros | None] | None = None
    lifetimes: list[float | tuple[str, Micros] | None] | None = None
    user_keys: list[bytes | None] | None = None
    correlation_ids: list[bytes | None] | None = None


class Preparer:
    """Prepares the messages of one topic. Raises UsageError for options that do not fit the topic."""

    def __init__(self, instance: Instance, topic: TopicConfig, options: PublishOptions) -> None:
        self.topic = topic
        self.clock = clock = instance.clock
        self.type: MessageType = instance.type_of(topic.message_type)
        self.max_payload = topic.slab_size - RECORD_OVERHEAD
        self.expiration = options.expiration
        self._sow_key = options.sow_key
        self._null_keys = options.allow_null_key
        self._fixed_time = parse_time(options.timestamp, clock) if options.timestamp is not None else None
        self._time_of = (
            self.type.extractor((Slot(parse_path(options.timestamp_field)),)) if options.timestamp_field else None
        )
        if topic.key_mode == "module":
            raise UsageError("SOW-PUB-010", f"topic {topic.name!r} uses a key generator that is not registered")
        if topic.key_mode == "fields":
            if options.sow_key is not None:
                raise UsageError(
                    "SOW-PUB-011",
                    f"topic {topic.name!r} makes its keys from {', '.join(map(str, topic.keys))}",
                    hint="leave --sow-key out: it is for topics without Key elements",
                )
            self._texts = self.type.key_texts(topic.keys)
            self._digest = batch_digester(topic.key_domain, len(topic.keys))

    def prepare(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None
    ) -> tuple[Prepared, list[Refusal]]:
        """Good messages and refusals; indexes count in ``payloads``."""
        refused: dict[int, Refusal] = {}
        if max(map(len, payloads), default=0) > self.max_payload:
            self._refuse_large(payloads, refused)
        user_keys: list[bytes | None] | None = None
        if self.topic.key_mode == "fields":
            digests = self._field_digests(payloads, refused)
        else:
            digests, user_keys = self._user_digests(payloads, envelopes, refused)
        times = self._times(payloads, envelopes, refused)
        lifetimes = self._lifetimes(envelopes, refused)
        correlations = [_raw(envelope.correlation_id) for envelope in envelopes] if envelopes else None
        places = (
            [index for index in range(len(payloads)) if index not in refused] if refused else list(range(len(payloads)))
        )
        ready = Prepared(
            places,
            list(payloads) if not refused else [payloads[i] for i in places],
            digests if not refused else [digests[i] for i in places],
            _chosen(times, places),
            _chosen(lifetimes, places),
            _chosen(user_keys, places),
            _chosen(correlations if correlations and any(correlations) else None, places),
        )
        return ready, sorted(refused.values(), key=lambda refusal: refusal.index)

    def stamp(self, time: Micros, lifetime: float | tuple[str, Micros] | None) -> Micros:
        """The expiry of a message published at ``time``: its own lifetime, else the option's, else the topic's."""
        if isinstance(lifetime, tuple):
            return lifetime[1]
        return stamp(self.topic.expiration, time, self.expiration if lifetime is None else lifetime)

    def _refuse_large(self, payloads: Sequence[bytes], refused: dict[int, Refusal]) -> None:
        for index, payload in enumerate(payloads):
            if len(payload) > self.max_payload:
                text = (
                    f"the message has {len(payload)} bytes; SlabSize {self.topic.slab_size} leaves {self.max_payload}"
                )
                refused[index] = Refusal(index, "SOW-PUB-001", text)

    def _field_digests(self, payloads: Sequence[bytes], refused: dict[int, Refusal]) -> list[bytes]:
        texts, refusals = self._texts(payloads)
        refused.update((refusal.index, refusal) for refusal in refusals if refusal.index not in refused)
        try:
            return self._digest(texts)
        except TypeError:
            pass
        for index, parts in enumerate(texts):
            if None in parts and not self._null_keys and index not in refused:
                missing = ", ".join(str(p) for p, text in zip(self.topic.keys, parts, strict=True) if text is None)
                refused[index] = Refusal(index, "SOW-PUB-002", f"key field {missing} is missing or empty")
        return self._digest(texts, null=True)

    def _user_digests(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> tuple[list[bytes], list[bytes | None]]:
        given = [e.sow_key if e.sow_key is not None else self._sow_key for e in envelopes] if envelopes else None
        keys = [(key or "").encode() for key in given] if given else [(self._sow_key or "").encode()] * len(payloads)
        for index, key in enumerate(keys):
            if not is_user_key(key):
                text = (
                    "the topic needs a SOW key with every message" if not key else f"SOW key {key!r} is not Base64 text"
                )
                refused.setdefault(index, Refusal(index, "SOW-PUB-003", text))
        return [user_key_digest(key) for key in keys], list(keys)

    def _times(
        self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> list[Micros | None] | None:
        texts: list[str | None]
        if self._time_of is not None:
            rows, refusals = self._time_of(payloads)
            refused.update((r.index, r) for r in refusals if r.index not in refused)
            texts = [_time_text(row[0]) for row in rows]
        elif envelopes is not None and any(e.timestamp is not None for e in envelopes):
            texts = [e.timestamp for e in envelopes]
        else:
            return None if self._fixed_time is None else [self._fixed_time] * len(payloads)
        times: list[Micros | None] = []
        for index, text in enumerate(texts):
            try:
                times.append(parse_time(text, self.clock) if text is not None else self._fixed_time)
            except SowError as error:
                times.append(None)
                refused.setdefault(index, Refusal(index, "SOW-PUB-004", f"its time cannot be used: {error.message}"))
        return times

    def _lifetimes(
        self, envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> list[float | tuple[str, Micros] | None] | None:
        if envelopes is None or all(e.expiration is None for e in envelopes):
            return None
        found: list[float | tuple[str, Micros] | None] = []
        for index, envelope in enumerate(envelopes):
            given = envelope.expiration
            try:
                found.append(("at", parse_time(given, self.clock)) if isinstance(given, str) else given)
                if isinstance(given, (int, float)) and given < 0:
                    raise UsageError("SOW-PUB-005", "a lifetime is not negative")
            except SowError as error:
                found[index:] = [None]
                refused.setdefault(
                    index, Refusal(index, "SOW-PUB-005", f"its expiration cannot be used: {error.message}")
                )
        return found


def _time_text(value: object) -> str | None:
    if isinstance(value, Number):
        return value.text.decode()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value or None
    return None if value is None else str(value)


def _raw(text: str | None) -> bytes | None:
    return text.encode() if text else None


def _chosen(column: list[T] | None, places: list[int]) -> list[T] | None:
    if column is None or len(column) == len(places):
        return column
    return [column[index] for index in places]
