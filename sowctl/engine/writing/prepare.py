"""Prepares messages before any lock is taken, as :class:`PreparedMessages`: keys, lifetimes, own times, refusals.

A batch is processed by columns. Only values of the messages themselves (of envelopes, of a time field) need a column of
Python values; otherwise one value applies to all. This module depends neither on the source of messages nor on the
records of the topic. Steps that depend on these (time of the clock, keys of chains, enrichment, delta merge) follow
under the locks, in :func:`sowctl.engine.writing.entries.build_topic_entries`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.keys.keymaker import KeyMaker, Keys, derive_logical_keys
from sowctl.engine.keys.modes import build_key_maker
from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.expiration import choose_default_lifetime, compute_lifetime
from sowctl.engine.writing.outcome import ExpirationInstant, Lifetime, Reason
from sowctl.errors import InputError, SowError, UsageError
from sowctl.identity.keys import (
    build_domain_prefix,
    compute_key_digest,
    compute_user_key_digest,
    concatenate_digests,
    encode_key_text,
    parse_sow_key,
)
from sowctl.messages.base import REPLACEMENT_CHARACTER, KeyTexts, MessageType
from sowctl.messages.types import get_type
from sowctl.values.fields import Number, Refusal, Slot
from sowctl.values.paths import parse_path
from sowctl.values.times import EPOCH_UNITS, Micros, parse_epoch, parse_instant, parse_time

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.engine.writing.enrichment import EnrichmentPhase
    from sowctl.messages.framing.envelope import Envelope

T = TypeVar("T")

_NUMBER_PATTERN = re.compile(r"-?[0-9]+(\.[0-9]+)?")
_ENVELOPE_COMMANDS = (None, "publish", "delta_publish")
DELETE_OPERATION = "delete"
"""The operation of a journal entry that deletes the record of its SOW key; it has no message."""
DELETE_COMMAND = "sow_delete"
"""The command of an envelope that deletes the record with the key of its message."""
_ENTRY_OPERATIONS = (None, "publish", DELETE_OPERATION)
RECORD_OVERHEAD_BYTES = 64
"""Bytes that a record needs in a slab in addition to its payload (``behaviour`` 1.9)."""


class PreparedMessages(Struct):
    """Accepted messages of one topic in input order, by columns. ``digests`` are key and check word, 16 bytes each.

    ``places`` are indexes into the batch. A column of times or lifetimes is None if no message has its own. ``deltas``
    marks deltas, ``deletes`` messages that delete a record; None: there are none. ``texts`` are the field texts of the
    keys, if any; with keys from chains, digests are empty until they are assigned under the locks. Columns of optional
    texts are named as in :class:`~sowctl.journal.entries.EntryBatch`; ``logical_topics`` is set for a Pattern topic.
    ``stored``: the payloads as journal blocks store them, if they were compressed ahead.
    """

    places: Sequence[int]
    payloads: list[bytes]
    digests: Sequence[bytes]
    times: list[Micros | None] | None = None
    lifetimes: list[Lifetime] | None = None
    user_keys: list[bytes | None] | None = None
    correlation_ids: list[bytes | None] | None = None
    deltas: list[bool] | None = None
    deletes: list[bool] | None = None
    texts: list[KeyTexts] | None = None
    clients: list[str | None] | None = None
    logical_topics: list[bytes] | None = None
    stored: list[bytes] | None = None


class Preparer:
    """Prepares the messages of one topic.

    Raises UsageError for options that the topic does not support, ConfigError for an unusable key generator or
    constructed fields.
    """

    def __init__(
        self, instance: Instance, topic: TopicConfig, options: PublishOptions, *, deletes: bool = False
    ) -> None:
        """``deletes``: envelopes may delete records, which the caller handles."""
        self.topic = topic
        self._takes_deletes = deletes
        self.clock = clock = instance.clock
        self.type: MessageType = instance.find_message_type(topic.message_type)
        # A server could not store a larger message, and a topic must stay within its configuration (behaviour 1.9).
        self.max_payload = topic.slab_size - RECORD_OVERHEAD_BYTES
        self.expiration = options.expiration
        self.options = options
        self.keys: KeyMaker = build_key_maker(instance, topic, self.type, options)
        if options.skip_unchanged and (topic.key_mode == "none" or self.keys.chains is not None):
            why = "has no SOW" if topic.key_mode == "none" else "has keys from chains"
            raise UsageError(
                "SOW-PUB-030",
                f"topic {topic.name!r} {why}, so unchanged messages cannot be skipped",
                hint="remove --skip-unchanged",
            )
        self.preprocessing: EnrichmentPhase | None = None
        self.enrichment: EnrichmentPhase | None = None
        if topic.preprocessing or topic.enrichment:
            from sowctl.engine.writing.enrichment import compile_phases

            # Compiled once per run; topics without constructed fields do not load the expression language.
            self.preprocessing, self.enrichment = compile_phases(instance, topic, self.type, options.client)
        self._fixed_time = parse_instant(options.timestamp, clock) if options.timestamp is not None else None
        self.raises_times = False
        """Whether a time before the topic's latest time is raised to it, instead of refused."""
        self._time_of, self._time_unit = None, None
        if options.timestamp_field:
            path, self._time_unit = split_time_unit(options.timestamp_field)
            self._time_of = self.type.build_extractor((Slot(parse_path(path)),))

    def prepare(
        self,
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None,
        logicals: list[bytes] | None = None,
        ahead: PreparedMessages | None = None,
    ) -> tuple[PreparedMessages, list[Refusal]]:
        """Return the accepted messages and the refusals; indexes refer to ``payloads``.

        ``logicals``: the logical topics of the messages, if known; ``ahead``: their digests and stored payloads, if
        computed ahead (:meth:`compute_digests`).

        Raises UsageError ``SOW-ENG-032`` if neither the command nor envelopes name logical topics of a Pattern topic.
        """
        refused: dict[int, Refusal] = {}
        given = payloads
        # Other systems order records by partition, not by time. All envelopes of an input have the same form.
        self.raises_times = envelopes is not None and any(map(is_foreign_envelope, envelopes[:1]))
        if logicals is None and self.topic.pattern is not None:
            from sowctl.engine.sources.logical_topics import resolve_logical_names

            logicals = resolve_logical_names(self.topic, len(payloads), envelopes, refused)
        gone = _find_deleted_entries(envelopes)
        if self.preprocessing is not None:
            # The order is that of behaviour 1.7: Preprocessing sees only the message, and the key is computed from its
            # result.
            payloads = self._preprocess_payloads(self.preprocessing, payloads, envelopes, refused, gone)
        # One pass over the lengths of the batch; messages are checked one by one only if one of them is too large.
        if max(map(len, payloads), default=0) > self.max_payload:
            self._refuse_too_large(payloads, refused)
        # Refused messages included: columns keep the length of the batch, and few messages are refused.
        made = self._make_message_keys(payloads, envelopes, refused, gone) if ahead is None else Keys(ahead.digests)
        digests, user_keys, texts = made
        if self.preprocessing is not None and texts is not None:
            self._refuse_half_surrogates(self.preprocessing, given, texts, refused)
        if logicals is not None:
            # In a Pattern topic, a record is identified by its logical topic and its key values (behaviour 1.8).
            digests = derive_logical_keys(self.topic, made, logicals)
        if gone:
            digests = self._name_digests(digests, envelopes or (), gone, refused)
        deletes = self._find_deletes(envelopes, refused)
        deltas = self._find_deltas(len(payloads), envelopes, refused)
        times = self._read_times(payloads, envelopes, refused, gone)
        lifetimes = self._read_lifetimes(envelopes, refused)
        correlations = [_encode_text(envelope.correlation_id) for envelope in envelopes] if envelopes else None
        # Refused messages are removed from the columns once, at the end: until here an index means the same message in
        # all of them.
        places: Sequence[int] = range(len(payloads))
        if refused:
            places = [index for index in places if index not in refused]
        ready = PreparedMessages(
            places,
            list(payloads) if not refused else [payloads[i] for i in places],
            digests if not refused else [digests[i] for i in places],
            _select_places(times, places),
            _select_places(lifetimes, places),
            _select_places(user_keys, places),
            _select_places(correlations if correlations and any(correlations) else None, places),
            _select_places(deltas, places),
            _select_places(deletes, places),
            _select_places(texts, places),
            _select_places([e.client for e in envelopes], places)
            if envelopes and self.enrichment is not None
            else None,
            _select_places(logicals, places),
            ahead.stored if ahead is not None and not refused else None,
        )
        return ready, sorted(refused.values(), key=lambda refusal: refusal.index)

    def _make_message_keys(
        self,
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None,
        refused: dict[int, Refusal],
        gone: Set[int],
    ) -> Keys:
        """Return the keys of all messages, except at the indexes ``gone``: deletions without a message, of which only
        tombstones get a key here."""
        if not gone or envelopes is None:
            return self.keys.make_keys(payloads, envelopes, refused)
        places = [index for index in range(len(payloads)) if index not in gone]
        own = {at: refused[index] for at, index in enumerate(places) if index in refused}
        made = self.keys.make_keys([payloads[index] for index in places], [envelopes[index] for index in places], own)
        refused.update((places[at], replace(one, index=places[at])) for at, one in own.items())
        digests = [bytes(16)] * len(payloads)
        user_keys: list[bytes | None] | None = None if made.user_keys is None else [None] * len(payloads)
        texts: list[KeyTexts] | None = None if made.texts is None else [()] * len(payloads)
        for at, index in enumerate(places):
            digests[index] = made.digests[at]
            if user_keys is not None and made.user_keys is not None:
                user_keys[index] = made.user_keys[at]
            if texts is not None and made.texts is not None:
                texts[index] = made.texts[at]
        for index in gone:
            if index not in refused and is_tombstone(envelopes[index]):
                self._name_record(Keys(digests, user_keys, texts), index, envelopes[index], refused)
        return Keys(digests, user_keys, texts)

    def _name_record(self, keys: Keys, index: int, envelope: Envelope, refused: dict[int, Refusal]) -> None:
        """Set the key of the record that a tombstone deletes in ``keys``."""
        from sowctl.messages.framing.foreign_envelope import find_key_members, find_key_text

        text: str = getattr(envelope, "record_key")  # noqa: B009  # only of foreign envelopes
        if self.topic.key_mode == "user":
            key = encode_key_text(find_key_text(text))
            if keys.user_keys is not None:
                keys.user_keys[index] = key
            keys.digests[index] = compute_user_key_digest(key)  # type: ignore[index]  # a list, made above
            return
        if self.topic.key_mode == "none":
            return
        if self.topic.key_mode != "fields" or keys.texts is None:
            words = "the topic generates its keys, so the key of a tombstone does not identify a record"
            refused[index] = Refusal(index, "SOW-PUB-028", words)
            return
        members = find_key_members(text)
        row: KeyTexts = (encode_key_text(find_key_text(text)),)
        if members is not None:
            rows, refusals = get_type("json").build_key_extractor(self.topic.keys)([members])
            row = (None,) if refusals else rows[0]
        if len(row) != len(self.topic.keys) or None in row:
            fields = ", ".join(map(str, self.topic.keys))
            words = f"the key of the tombstone, {text[:80]!r}, does not have the key fields {fields}"
            refused[index] = Refusal(index, "SOW-PUB-028", words)
            return
        keys.texts[index] = row
        keys.digests[index] = compute_key_digest(  # type: ignore[index]  # a list, made above
            build_domain_prefix(self.topic.key_domain), row
        )

    def _name_digests(
        self, digests: Sequence[bytes], envelopes: Sequence[Envelope], gone: Set[int], refused: dict[int, Refusal]
    ) -> list[bytes]:
        """Return the digests with those of deleting entries set from their SOW keys; their check words, zero here, are
        those of the records."""
        found = list(digests)
        for index in gone:
            if envelopes[index].operation != DELETE_OPERATION:
                continue
            # A deleting entry has only the SOW key, also if publishers choose keys.
            key = parse_sow_key(envelopes[index].sow_key or "")
            if key is None:
                words = f"its sow_key {envelopes[index].sow_key!r} is invalid, so it identifies no record to delete"
                refused.setdefault(index, Refusal(index, "SOW-PUB-028", words))
            else:
                found[index] = key + bytes(8)
        return found

    @property
    def can_read_ahead(self) -> bool:
        """Return whether keys depend only on payloads, so that another process can compute them."""
        return self.topic.key_mode == "fields" and self.topic.pattern is None and self.preprocessing is None

    def compute_digests(self, payloads: Sequence[bytes]) -> bytes | None:
        """Return the concatenated digests of messages, None if any is refused: :meth:`prepare` finds the reason."""
        refused: dict[int, Refusal] = {}
        digests = self.keys.make_keys(payloads, None, refused).digests
        return None if refused else concatenate_digests(digests)

    @property
    def default_lifetime(self) -> Micros | None:
        """The lifetime of messages without their own: of the option, else of the topic; None: they do not expire."""
        return choose_default_lifetime(self.topic.expiration, self.expiration)

    def describe_too_large(self, payload: bytes) -> Reason:
        """Return the reason for refusing a message that does not fit into a slab."""
        text = (
            f"the message has {len(payload)} bytes; with SlabSize {self.topic.slab_size}, the "
            f"maximum is {self.max_payload}"
        )
        return "SOW-PUB-001", text

    def _refuse_too_large(self, payloads: Sequence[bytes], refused: dict[int, Refusal]) -> None:
        for index, payload in enumerate(payloads):
            if len(payload) > self.max_payload and index not in refused:
                refused[index] = Refusal(index, *self.describe_too_large(payload))

    def _preprocess_payloads(
        self,
        phase: EnrichmentPhase,
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None,
        refused: dict[int, Refusal],
        gone: Set[int],
    ) -> list[bytes]:
        places = [index for index in range(len(payloads)) if index not in refused and index not in gone]
        chosen = [envelopes[index] for index in places] if envelopes else None
        written, refusals = phase.apply([payloads[index] for index in places], self.clock(), envelopes=chosen)
        refused.update((places[r.index], Refusal(places[r.index], r.code, r.message, r.offset)) for r in refusals)
        # Refused messages stay unchanged: a rejects file has the original messages.
        changed = list(payloads)
        for index, payload in zip(places, written, strict=True):
            changed[index] = payload
        return changed

    def _refuse_half_surrogates(
        self, phase: EnrichmentPhase, payloads: Sequence[bytes], texts: Sequence[KeyTexts], refused: dict[int, Refusal]
    ) -> None:
        """Refuse messages whose key field was constructed from a field with half a surrogate pair.

        Expressions read half a pair as U+FFFD, and write that: only the original message shows whether U+FFFD was
        meant. Keys with U+FFFD are rare, so few messages are read again.
        """
        doubtful = [
            index
            for index, row in enumerate(texts)
            if index not in refused and any(one is not None and REPLACEMENT_CHARACTER in one for one in row)
        ]
        for refusal in phase.find_half_surrogates([payloads[index] for index in doubtful]):
            place = doubtful[refusal.index]
            refused[place] = Refusal(place, refusal.code, refusal.message)

    def _find_deletes(self, envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]) -> list[bool] | None:
        if not self._takes_deletes or envelopes is None or not any(map(_is_delete_envelope, envelopes)):
            return None
        found = list(map(_is_delete_envelope, envelopes))
        why = None
        if self.topic.key_mode == "none":
            why = "the topic has no SOW, so it has no record to delete"
        elif self.keys.chains is not None:
            why = (
                "the topic has keys from chains, so the message does not identify a record; sowctl "
                "delete --sow-key does"
            )
        if why is not None:
            for index, delete in enumerate(found):
                if delete:
                    refused.setdefault(index, Refusal(index, "SOW-PUB-028", why))
        return found

    def _find_deltas(
        self, count: int, envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> list[bool] | None:
        for index, envelope in enumerate(envelopes or ()):
            if envelope.operation not in _ENTRY_OPERATIONS or (
                envelope.operation == DELETE_OPERATION and not self._takes_deletes
            ):
                what = "a deletion" if envelope.operation == DELETE_OPERATION else "an entry of a queue"
                text = f"its operation {envelope.operation!r} is {what}, not a message"
                refused.setdefault(index, Refusal(index, "SOW-PUB-019", text))
        if envelopes is None or all(one.command is None and one.operation is None for one in envelopes):
            # With None for "no deltas", the merge under the locks is skipped.
            return [True] * count if self.options.delta else None
        for index, envelope in enumerate(envelopes):
            if envelope.command not in _ENVELOPE_COMMANDS and not (
                self._takes_deletes and envelope.command == DELETE_COMMAND
            ):
                # A file of envelopes may have other commands, which must not be published as messages.
                last = f", delta_publish nor {DELETE_COMMAND}" if self._takes_deletes else " nor delta_publish"
                text = f"its command {envelope.command!r} is neither publish{last}"
                refused.setdefault(index, Refusal(index, "SOW-PUB-019", text))
        # Deltas of journal entries are merged already.
        found = [
            e.command == "delta_publish" or (e.command is None and e.operation is None and self.options.delta)
            for e in envelopes
        ]
        return found if any(found) else None

    def _read_times(
        self,
        payloads: Sequence[bytes],
        envelopes: Sequence[Envelope] | None,
        refused: dict[int, Refusal],
        gone: Set[int],
    ) -> list[Micros | None] | None:
        texts: list[str | None]
        if self._time_of is not None:
            # Read after Preprocessing, which may construct the time field.
            rows, refusals = self._time_of(payloads)
            refused.update((r.index, r) for r in refusals if r.index not in refused and r.index not in gone)
            texts = [None if index in gone else _format_time_value(row[0]) for index, row in enumerate(rows)]
        elif envelopes is not None and any(e.timestamp is not None for e in envelopes):
            texts = [e.timestamp for e in envelopes]
        else:
            # None means the time of the clock, read under the locks, so that a batch that waits for them gets a current
            # time.
            return None if self._fixed_time is None else [self._fixed_time] * len(payloads)
        times: list[Micros | None] = []
        for index, text in enumerate(texts):
            try:
                times.append(self._parse_time(text))
            except SowError as error:
                # The column keeps its length: None is removed together with the refused message.
                times.append(None)
                words = f"its time is invalid: {error.message}"
                if self._time_of is not None and self._time_unit is None and text and _NUMBER_PATTERN.fullmatch(text):
                    words += f"; a number requires a unit: --timestamp-field {self.options.timestamp_field}:ms"
                refused.setdefault(index, Refusal(index, "SOW-PUB-004", words))
        return times

    def _parse_time(self, text: str | None) -> Micros | None:
        if text is None:
            return self._fixed_time
        return parse_time(text, self.clock) if self._time_unit is None else parse_epoch(text, self._time_unit)

    def _read_lifetimes(
        self, envelopes: Sequence[Envelope] | None, refused: dict[int, Refusal]
    ) -> list[Lifetime] | None:
        if envelopes is None or all(e.expiration is None and not _is_stored_envelope(e) for e in envelopes):
            return None
        found: list[Lifetime] = []
        for index, envelope in enumerate(envelopes):
            try:
                # Stored records have a known expiration: without one they do not expire.
                given = envelope.expiration
                found.append(self._parse_lifetime(0 if given is None and _is_stored_envelope(envelope) else given))
            except SowError as error:
                found.append(None)
                refused.setdefault(index, Refusal(index, "SOW-PUB-005", f"its expiration is invalid: {error.message}"))
        return found

    def _parse_lifetime(self, given: str | float | None) -> Lifetime:
        """Parse the lifetime of an envelope: an instant as text, or seconds; 0 means no expiration."""
        if given is None:
            return None
        if isinstance(given, str):
            # An instant is not converted to a lifetime: the start of the lifetime is not known before the locks are
            # held.
            return ExpirationInstant(parse_time(given, self.clock))
        if given < 0:
            raise InputError("SOW-PUB-005", "a lifetime must not be negative")
        # 0 means no expiration. A lifetime below a microsecond must not become 0, so :func:`compute_lifetime` returns
        # at least 1.
        return compute_lifetime(given) if given else 0


def _is_delete_envelope(envelope: Envelope) -> bool:
    return envelope.command == DELETE_COMMAND or envelope.operation == DELETE_OPERATION


def _is_stored_envelope(envelope: Envelope) -> bool:
    """Return whether an envelope is an entry or a record, as written by ``--meta`` and dumps."""
    return envelope.operation is not None or (envelope.txid is not None and envelope.command is None)


def _find_deleted_entries(envelopes: Sequence[Envelope] | None) -> Set[int]:
    """Return the indexes of envelopes without a message: journal entries that delete or belong to queues, and
    tombstones."""
    if envelopes is None:
        return frozenset()
    return {index for index, one in enumerate(envelopes) if one.operation not in (None, "publish") or is_tombstone(one)}


def is_foreign_envelope(envelope: Envelope) -> bool:
    """Return whether an envelope is a record of another system."""
    return hasattr(envelope, "record_key")


def is_tombstone(envelope: Envelope) -> bool:
    """Return whether an envelope is a foreign record without a message, whose key identifies the record to delete."""
    return envelope.command == DELETE_COMMAND and getattr(envelope, "record_key", None) is not None


def split_time_unit(field: str) -> tuple[str, str | None]:
    """Split a time field into its path and the unit of its numbers (s, ms, us, ns): ``/ts:ms``; ``/ts`` has no unit.

    A field whose own name ends like this is written in brackets: ``[/a:ms]``.
    """
    path, colon, unit = field.rpartition(":")
    return (path, unit) if colon and path and unit in EPOCH_UNITS else (field, None)


def _format_time_value(value: object) -> str | None:
    if isinstance(value, Number):
        return value.text.decode()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return value or None
    return None if value is None else str(value)


def _encode_text(text: str | None) -> bytes | None:
    return text.encode() if text else None


def _select_places(column: list[T] | None, places: Sequence[int]) -> list[T] | None:
    if column is None or len(column) == len(places):
        return column
    return [column[index] for index in places]
