"""Publishing over stored records: enrichment with the previous record, then the merge of deltas.

Called by :func:`sowctl.engine.writing.entries.build_topic_entries` under the locks, only for topics with Enrichment
and batches with deltas. Messages of one batch with the same key see one another, as if each had been published alone:
the first message of every key is in the first round, the second in the second round, and so on. Specified in
``behaviour`` 1.3 and 1.7.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from sowctl.engine.topics.expiration import is_expired
from sowctl.engine.writing.outcome import NO_RECORD_REASON, compute_expiration, describe_collision
from sowctl.errors import SowError
from sowctl.identity.keys import digest_check, digest_key
from sowctl.store.codec import CORRELATION_FLAG, KEY_CHECK_SLICE, decode_record, extract_payloads
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.engine.writing.enrichment import EnrichmentPhase
    from sowctl.engine.writing.prepare import PreparedMessages, Preparer
    from sowctl.engine.writing.topicwriter import TopicWriter
    from sowctl.expressions.environment import Header


class PreviousRecord(Struct, frozen=True):
    """A record as the next message of its key meets it. ``gone``: it has expired, and only its check word counts."""

    check: bytes
    payload: bytes
    correlation_id: bytes | None
    gone: bool = False


def enrich_and_merge(
    writer: TopicWriter,
    preparer: Preparer,
    ready: PreparedMessages,
    keep: Sequence[int],
    times: Sequence[int],
    stored: dict[bytes, bytes],
    now: int,
    over: Set[bytes] = frozenset(),
) -> list[Refusal]:
    """Enrich and merge the messages ``keep`` of ``ready`` in place; return the refusals of those that fail.

    ``stored`` are the live records by key; they are decoded on demand. Those of the keys ``over`` were written in this
    run, which takes effect as a whole, and have expired.
    """
    return _MessageFinisher(writer, preparer, ready, times, stored, now, over).run(keep)


class _MessageFinisher:
    """The state of one batch: the current records by key, and the refused messages."""

    def __init__(
        self,
        writer: TopicWriter,
        preparer: Preparer,
        ready: PreparedMessages,
        times: Sequence[int],
        stored: dict[bytes, bytes],
        now: int,
        over: Set[bytes],
    ) -> None:
        self.writer = writer
        self.over = over
        self.preparer = preparer
        self.ready = ready
        self.times = times
        self.stored = stored
        self.now = now
        self.current: dict[bytes, PreviousRecord | None] = {}
        self.refused: list[Refusal] = []
        # A copy: the batch may be tried again without some of its messages, and then starts from their own ids.
        self.correlations = list(ready.correlation_ids or [None] * len(ready.places))

    def run(self, keep: Sequence[int]) -> list[Refusal]:
        """Enrich messages and merge deltas, round by round; return the refusals."""
        # Keys of a round are distinct, so all of its messages can be enriched together. The number of passes is the
        # number of messages of the most frequent key, which is usually one.
        deletes = self.ready.deletes
        for indexes in self._split_rounds(keep):
            if deletes is not None:
                # A message after a deletion meets no record.
                self.current.update(
                    {digest_key(self.ready.digests[index]): None for index in indexes if deletes[index]}
                )
                indexes = [index for index in indexes if not deletes[index]]
            owned = [(index, before) for index in indexes if self._is_owner(index, before := self._get_previous(index))]
            # A record that this batch wrote and that has expired is no PREVIOUS and accepts no delta (behaviour 11.40).
            live = [(index, None if before is None or before.gone else before) for index, before in owned]
            for index, before, payload in self._enrich_messages(live):
                self._merge_delta(index, before, payload)
        if any(text is not None for text in self.correlations):
            self.ready.correlation_ids = self.correlations
        return self.refused

    def _split_rounds(self, keep: Sequence[int]) -> list[list[int]]:
        """Return the indexes of the first message of every key, then of the second, and so on."""
        rounds: list[list[int]] = []
        seen: dict[bytes, int] = {}
        for index in keep:
            key = digest_key(self.ready.digests[index])
            number = seen[key] = seen.get(key, -1) + 1
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(index)
        return rounds

    def _get_previous(self, index: int) -> PreviousRecord | None:
        key = digest_key(self.ready.digests[index])
        found = self.current.get(key)
        # The record as this batch left it takes precedence over the stored one.
        if key not in self.current and key in self.stored:
            value = self.stored[key]
            correlation = decode_record(key, value).correlation_id if value[0] & CORRELATION_FLAG else None
            found = self.current[key] = PreviousRecord(
                value[KEY_CHECK_SLICE], extract_payloads((value,))[0], correlation, key in self.over
            )
        return found

    def _is_owner(self, index: int, before: PreviousRecord | None) -> bool:
        digest = self.ready.digests[index]
        if before is None or before.check == digest_check(digest):
            return True
        self._refuse_message(index, *describe_collision(int.from_bytes(digest_key(digest), "big")))
        return False

    def _enrich_messages(
        self, live: list[tuple[int, PreviousRecord | None]]
    ) -> list[tuple[int, PreviousRecord | None, bytes]]:
        texts = [self.ready.payloads[index] for index, _ in live]
        phase = self.preparer.enrichment
        if phase is not None and live:
            previous = [before.payload if before is not None else None for _, before in live]
            headers = self._build_headers(phase, [index for index, _ in live], texts) if phase.uses_header else None
            texts, refusals = phase.apply(texts, self.now, previous=previous, headers=headers)
            bad = {refusal.index for refusal in refusals}
            for refusal in refusals:
                self._refuse_message(live[refusal.index][0], refusal.code, refusal.message)
            live = [one for place, one in enumerate(live) if place not in bad]
            texts = [text for place, text in enumerate(texts) if place not in bad]
        return [(index, before, text) for (index, before), text in zip(live, texts, strict=True)]

    def _build_headers(self, phase: EnrichmentPhase, indexes: list[int], texts: list[bytes]) -> list[Header]:
        """Build the headers of messages whose keys are known."""
        headers = []
        users, clients = self.ready.user_keys, self.ready.clients
        for index, header in zip(indexes, phase.build_headers(texts, None), strict=True):
            number = str(int.from_bytes(digest_key(self.ready.digests[index]), "big"))
            own = users[index] if users is not None else None
            headers.append(
                replace(
                    header,
                    sow_key=own.decode() if own is not None else number,
                    sow_key_hash=number,
                    correlation_id=self.correlations[index],
                    client_name=header.client_name or (clients[index] if clients is not None else None),
                )
            )
        return headers

    def _merge_delta(self, index: int, before: PreviousRecord | None, payload: bytes) -> None:
        """Merge one message if it is a delta; the result is the previous record of the next message of its key."""
        preparer, ready = self.preparer, self.ready
        if ready.deltas is not None and ready.deltas[index]:
            if before is None and preparer.options.update_only:
                self._refuse_message(index, *NO_RECORD_REASON)
                return
            # Without a record, or in a type that does not support deltas, a delta is an ordinary message (behaviour
            # 1.3).
            if before is not None and preparer.type.mergeable:
                try:
                    set_nulls = preparer.options.delta_null == "set"
                    payload = preparer.type.merge_delta(before.payload, payload, set_nulls=set_nulls)
                except SowError as error:
                    self._refuse_message(index, error.code, error.message)
                    return
            if before is not None and self.correlations[index] is None:
                # A delta without a correlation id keeps the record's (behaviour C25).
                self.correlations[index] = before.correlation_id
        # The merged message is stored, so its size counts (behaviour 1.9).
        if len(payload) > preparer.max_payload:
            self._refuse_message(index, *preparer.describe_too_large(payload))
            return
        # The journal gets the merged message, never the delta, so a replay needs no previous record (behaviour C26).
        ready.payloads[index] = payload
        digest, gone = ready.digests[index], self.writer.expires and self._is_expired_at_publish(index)
        # The next message of this key, in the next round, meets this record.
        self.current[digest_key(digest)] = PreviousRecord(digest_check(digest), payload, self.correlations[index], gone)

    def _is_expired_at_publish(self, index: int) -> bool:
        """Return whether a message has expired as soon as it is published."""
        lifetimes = self.ready.lifetimes
        lifetime = lifetimes[index] if lifetimes is not None else None
        # The entry gets its stamp from the same function, so both agree on whether it has expired.
        stamp = compute_expiration(self.times[index], lifetime, self.preparer.default_lifetime)
        return is_expired(self.writer.config.expiration, stamp, self.now)

    def _refuse_message(self, index: int, code: str, message: str) -> None:
        self.refused.append(Refusal(self.ready.places[index], code, message))
