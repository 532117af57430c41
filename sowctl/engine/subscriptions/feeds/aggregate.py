"""Aggregated subscriptions: one message per group of the matching records, delivered again after each change of the
group.

A changed record retracts its contribution to a group and adds another one (``expressions.rows.retraction``), so the
cost of a change does not depend on the size of the group. A group without records goes out of focus. The messages are
those of an aggregated query (``behaviour`` 3.4). A message is delivered even if it leaves the fields of its group
unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import load_functions
from sowctl.engine.search.aggregate import Aggregation
from sowctl.engine.search.matcher import build_environment, build_headers, evaluate_records
from sowctl.engine.subscriptions.feeds.feed import DeliveredFinder, Feed
from sowctl.engine.subscriptions.feeds.focus import FocusEvent, FocusFeed
from sowctl.errors import InputError
from sowctl.expressions.rows.groups import Contribution, ContributionReader, Group
from sowctl.expressions.rows.retraction import RetractableProjection
from sowctl.identity.keys import Digest, build_batch_digester, digest_check, digest_key
from sowctl.store.codec import TOMBSTONE_FLAG, encode_record, extract_payloads, read_stamps

if TYPE_CHECKING:
    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source
    from sowctl.engine.subscriptions.events import Delivery, EventReason
    from sowctl.engine.subscriptions.interest import Interest


class AggregatedFeed(FocusFeed):
    """Groups of one topic. Raises as :class:`~sowctl.engine.search.aggregate.Aggregation`."""

    def __init__(self, instance: Instance, wanted: Interest) -> None:
        super().__init__(instance, wanted)
        projection, grouping = wanted.options.projection, wanted.options.grouping
        assert projection is not None
        assert grouping is not None
        self._environment = build_environment(instance, endless=True)
        topic = wanted.config.name
        program = Aggregation(
            projection, grouping, wanted.kind, topic, self._environment, load_functions(instance)
        ).program
        self._program = program
        self._retractable = RetractableProjection(program)
        self._extract = wanted.kind.build_extractor(program.slots)
        self._digester = build_batch_digester(topic, 0)
        # The key fields of records are not fields of a group's message.
        self._keys = ()
        self._groups: dict[Digest, Group] = {}
        self._members: dict[Digest, set[bytes]] = {}
        self._messages: dict[Digest, bytes] = {}

    def deliver_records(
        self, source: Source | None, *, shown: bool, told: DeliveredFinder | None = None
    ) -> Iterator[Delivery]:
        """Deliver a message for each group."""
        if source is None:
            return
        for keys, values in Feed._find_matching(self, source):
            for key, value in zip(keys, values, strict=True):
                self._hold_record(key, value)
            for key, digest, part in zip(keys, *self._compute_contributions(keys, values), strict=True):
                self._update_group(key, digest, part, 1)
        order = sorted(self._groups)
        found = []
        for digest in order:
            group = self._groups[digest]
            self._messages[digest] = self._render_group(digest, group)
            txid, time = group.find_stamp(self._make_group_reader(digest))[:2]
            found.append(
                encode_record(digest_key(digest), digest_check(digest), txid, time, 0, 0, self._messages[digest])
            )
        if shown:
            yield from self._report_records(list(map(digest_key, order)), found, None)

    def _process_change(
        self, key: bytes, value: bytes, txid: int, time: int, place: int, *, matches: bool
    ) -> Sequence[FocusEvent]:
        before = self._held.get(key)
        now = value if matches and not value[0] & TOMBSTONE_FLAG else None
        if now is not None:
            self._hold_record(key, now)
        elif before is not None:
            self._drop_record(key)
        return self._update_groups(key, before, now, txid, time, place)

    def _process_removal(
        self, reason: EventReason, key: bytes, value: bytes, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        """Return the events of an expired record: it leaves its group, not the result."""
        return self._update_groups(key, value, None, txid, time, place)

    def _update_groups(
        self, key: bytes, before: bytes | None, now: bytes | None, txid: int, time: int, place: int | None
    ) -> Sequence[FocusEvent]:
        """Return the events of the groups that a record has left and entered."""
        values = [value for value in (before, now) if value is not None]
        if not values:
            return ()
        digests, parts = self._compute_contributions([key] * len(values), values)
        signs = [-1, 1] if len(values) == 2 else [1 if before is None else -1]
        # Remove and add before rendering: a record that stays in its group causes one message.
        for digest, part, sign in zip(digests, parts, signs, strict=True):
            self._update_group(key, digest, part, sign)
        rows: list[FocusEvent] = []
        for digest in dict.fromkeys(digests):
            last = self._messages.get(digest)
            group = self._groups[digest]
            if not group.size:
                del self._groups[digest], self._members[digest], self._messages[digest]
                assert last is not None
                rows += super()._process_removal(
                    "deleted",
                    digest_key(digest),
                    self._make_stored_message(digest, last, txid, time),
                    txid,
                    time,
                    place,
                )
                continue
            message = self._messages[digest] = self._render_group(digest, group)
            stored = self._make_stored_message(digest, message, txid, time)
            known = self._make_stored_message(digest, last, txid, time) if self._delta and last is not None else None
            rows += self._process_publish(digest_key(digest), stored, known, txid, time, place)
        return rows

    @staticmethod
    def _make_stored_message(digest: Digest, message: bytes, txid: int, time: int) -> bytes:
        return encode_record(digest_key(digest), digest_check(digest), txid, time, 0, 0, message)

    def _compute_contributions(
        self, keys: Sequence[bytes], values: Sequence[bytes]
    ) -> tuple[list[Digest], list[Contribution]]:
        """Return the group of each record and its contribution to it."""
        rows, refused = self._extract(extract_payloads(values))
        if refused:
            number = int.from_bytes(keys[refused[0].index], "big")
            raise InputError(
                "SOW-QRY-004",
                f"record {number} has an invalid message: {refused[0].message}",
                place=self.wanted.label,
                sow_key=str(number),
            )
        headers = build_headers(keys, values, self.wanted.config.name) if self._program.uses_header else None
        places = [read_stamps(value) for value in values]
        found, parts = evaluate_records(
            lambda part: self._retractable.compute_contributions(
                rows[part], places[part], self._environment, headers and headers[part]
            ),
            keys,
            self.wanted.label,
        )
        return self._digester(found, null=True), parts

    def _update_group(self, key: bytes, digest: Digest, part: Contribution, sign: int) -> None:
        group = self._groups.get(digest)
        if group is None:
            group = self._groups[digest] = self._program.build_group()
            self._members[digest] = set()
        group.update([part], sign)
        if sign > 0:
            self._members[digest].add(key)
        else:
            self._members[digest].discard(key)

    def _render_group(self, digest: Digest, group: Group) -> bytes:
        fields = self._program.compute_fields(group, self._environment, self._make_group_reader(digest))
        return self.wanted.kind.build_message(list(zip(self._program.destinations, fields, strict=True)))

    def _make_group_reader(self, digest: Digest) -> ContributionReader:
        """Return a reader of the contributions of a group's records, for values that a removal leaves unknown to the
        group."""

        def rows(descending: bool) -> list[Contribution]:
            keys = sorted(self._members[digest])
            _, parts = self._compute_contributions(
                keys, [value for key in keys if (value := self._held.get(key)) is not None]
            )
            return sorted(parts, key=lambda part: part.stamp, reverse=descending)

        return rows
