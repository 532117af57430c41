"""Routes messages to topics and publishers: opens topics on first use, and splits batches by topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.options import PublishOptions
from sowctl.engine.topics.targets import find_publish_topic
from sowctl.engine.writing.batches import has_own_publisher
from sowctl.engine.writing.prepare import PreparedMessages, Preparer
from sowctl.engine.writing.publishers import Publisher
from sowctl.errors import SowError, UsageError
from sowctl.structs import DescribedStruct
from sowctl.values.fields import Refusal

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.writing.batches import PublishBatch
    from sowctl.engine.writing.session import WriteSession
    from sowctl.engine.writing.topicwriter import TopicWriter
    from sowctl.values.topicref import TopicRef

TopicReference = tuple[str | None, str | None]
"""Topic and message type as given in a message."""


class TopicShare(DescribedStruct):
    """The part of a batch that goes to one topic; ``places`` are indexes into the batch."""

    writer: TopicWriter
    preparer: Preparer
    ready: PreparedMessages

    @property
    def places(self) -> Sequence[int]:
        """The places of the messages in the batch."""
        return self.ready.places

    def keep_indexes(self, indexes: list[int]) -> None:
        """Remove all messages except those at ``indexes``."""
        self.ready.stored = None
        for column in PreparedMessages.__struct_fields__:
            values = getattr(self.ready, column)
            if values is not None:
                setattr(self.ready, column, [values[index] for index in indexes])


class Router:
    """Opens topics for one run. ``before_opening`` is called first: opening needs locks that a group may hold."""

    def __init__(
        self,
        session: WriteSession,
        default: TopicReference,
        options: PublishOptions,
        before_opening: Callable[[], None],
    ) -> None:
        self._session = session
        self._default = default
        self._options = options
        self._before_opening = before_opening
        self._opened: dict[TopicReference, tuple[TopicWriter, Preparer, bytes | None]] = {}
        self._writers: dict[TopicRef, tuple[TopicWriter, Preparer]] = {}
        self._publisher: Publisher | None = None
        self._recorded: Publisher | None = None
        self._dumped: dict[str, Publisher] = {}
        """The publishers of journal entries and of partitions, which keep their sequence numbers."""

    def open_target(self, name: str | None, message_type: str | None) -> tuple[TopicWriter, Preparer, bytes | None]:
        """Return writer and preparer of a topic, opened on first use, and the name of the logical topic if it is one.

        Raises UsageError ``SOW-PUB-015`` if ``name`` is None.
        """
        found = self._opened.get((name, message_type))
        if found is None:
            if name is None:
                raise UsageError("SOW-PUB-015", "no topic is given", hint="name it, or publish envelopes with a topic")
            config = find_publish_topic(self._session.instance, name, message_type)
            logical = config.logical_name
            # All logical topics of a Pattern topic share its writer and its preparer.
            found = *self._open_topic(config.whole_topic), None if logical is None else logical.encode()
            self._opened[name, message_type] = found
        return found

    def _open_topic(self, config: TopicConfig) -> tuple[TopicWriter, Preparer]:
        ref = config.ref
        found = self._writers.get(ref)
        if found is None:
            preparer = Preparer(self._session.instance, config, self._options, deletes=True)
            # The open group may hold locks of the journal or of stores. They are released first, because opening
            # acquires locks in a fixed order.
            self._before_opening()
            found = self._writers[ref] = self._session.open_topic(config), preparer
        return found

    def split_batch(self, batch: PublishBatch) -> tuple[list[TopicShare], list[Refusal]]:
        """Return the prepared shares of a batch, and the refusals."""
        if batch.envelopes is None:
            if not batch.payloads:
                return [], []
            # Without envelopes, all messages go to one topic: the batch is one share, and needs no loop over messages.
            writer, preparer, logical = self.open_target(*self._default)
            names = None if logical is None else [logical] * len(batch.payloads)
            ready, refusals = preparer.prepare(batch.payloads, None, names, batch.ahead)
            return [TopicShare(writer, preparer, ready)], refusals
        shares: list[TopicShare] = []
        refusals = self._refuse_other_clients(batch)
        strangers = {refusal.index for refusal in refusals}
        for ref, (places, names) in self._group_by_topic(batch, strangers, refusals).items():
            writer, preparer = self._writers[ref]
            envelopes = [batch.envelopes[place] for place in places]
            ready, refused = preparer.prepare([batch.payloads[place] for place in places], envelopes, names or None)
            # The preparer uses indexes into this topic's messages; outcomes and refusals use places in the batch.
            ready.places = [places[index] for index in ready.places]
            refusals.extend(Refusal(places[r.index], r.code, r.message, r.offset) for r in refused)
            shares.append(TopicShare(writer, preparer, ready))
        return shares, refusals

    def _group_by_topic(
        self, batch: PublishBatch, without: set[int], refusals: list[Refusal]
    ) -> dict[TopicRef, tuple[list[int], list[bytes]]]:
        """Return the places of messages by topic, as given by the command or by envelopes, except those in ``without``.

        Messages of one Pattern topic stay together, with the names of their logical topics. Messages whose topic cannot
        be opened are added to ``refusals``.
        """
        found: dict[TopicRef, tuple[list[int], list[bytes]]] = {}
        opened: dict[TopicReference, tuple[TopicWriter, Preparer, bytes | None]] = {}
        bad: dict[TopicReference, SowError] = {}
        for place, envelope in enumerate(batch.envelopes or ()):
            if place in without:
                continue
            # The topic of the command line takes precedence over the envelope's, so that a file of one topic can be
            # published to another.
            named = envelope.topic is not None and self._default[0] is None
            ref = (envelope.topic, envelope.message_type) if named else self._default
            if ref not in opened and ref not in bad:
                try:
                    opened[ref] = self.open_target(*ref)
                except SowError as error:
                    # A missing topic or an invalid name refuses the message. A store that is damaged or locked ends
                    # the run, because the message is not the cause.
                    if error.exit_status not in (2, 10):
                        raise
                    bad[ref] = error
            if ref in bad:
                refusals.append(Refusal(place, bad[ref].code, bad[ref].message))
                continue
            writer, _, logical = opened[ref]
            # One share per store: logical topics of a Pattern topic share its file, so their messages stay in order.
            places, names = found.setdefault(writer.ref, ([], []))
            places.append(place)
            if logical is not None:
                names.append(logical)
        return found

    def save_chains(self) -> None:
        """Save the links of chains of journalled topics to their files; other topics save theirs with each batch."""
        for writer, preparer in self._writers.values():
            # For a journalled topic, the file only avoids reading the journal again, so it is written once, at the end.
            if preparer.keys.chains is not None and writer.journalled:
                preparer.keys.chains.save_links()

    def prepare_publisher(self, batch: PublishBatch) -> Publisher | None:
        """Return the publisher of a batch, whose messages it has numbered; None if there is no client."""
        own = None
        if batch.envelopes is not None and any(envelope.sequence is not None for envelope in batch.envelopes):
            own = [envelope.sequence for envelope in batch.envelopes]
        client = self._find_client(batch)
        # Without a client, repeated messages cannot be detected: such batches have no sequence numbers, and the name
        # that the instance records is only for people.
        if client is None:
            return self._prepare_recorded(batch)
        if _has_own_publisher(batch) and self._options.client is None:
            publisher = self._dumped.get(client)
            if publisher is None:
                dumped = _is_journal_dump(batch)
                publisher = Publisher(
                    client, None, self._session.find_highest_sequence, dumped=dumped, is_partition=not dumped
                )
                self._dumped[client] = publisher
            publisher.number_batch(len(batch.payloads), own)
            return publisher
        if self._publisher is None:
            # One publisher per run: its messages are numbered in one sequence.
            self._publisher = Publisher(client, self._options.sequence, self._session.find_highest_sequence)
        self._publisher.number_batch(len(batch.payloads), own)
        return self._publisher

    def note_overtaken(self, publisher: Publisher) -> None:
        """Warn, once per partition, that an offset was dropped as a duplicate after a higher one of this run."""
        if publisher.overtaken is None or not publisher.is_partition:
            return
        # Sequence numbers are offsets plus 1.
        offset, higher = (number - 1 for number in publisher.overtaken)
        name = publisher.identity[1]
        self._session.instance.notify_once(
            f"overtaken {name}",
            f"{name}: offset {offset} came after offset {higher} and was dropped as a duplicate, perhaps others, too; "
            "publish the records of a partition in the order of their offsets, missing ones without --client",
        )

    def _prepare_recorded(self, batch: PublishBatch) -> Publisher | None:
        """Return the client that the instance records by default; None for journal entries, which stay unchanged."""
        if _is_journal_dump(batch):
            return None
        if self._recorded is None:
            name = self._session.instance.find_recorded_client()
            if name is None:
                return None
            self._recorded = Publisher(name, None, self._session.find_highest_sequence, numbered=False)
        self._recorded.number_batch(len(batch.payloads), None)
        return self._recorded

    def _find_client(self, batch: PublishBatch) -> str | None:
        """Return the client of the command, of the run so far, or the first one in an envelope."""
        if self._options.client is not None:
            return self._options.client
        if _has_own_publisher(batch):
            assert batch.envelopes is not None
            return batch.envelopes[0].client
        if self._publisher is not None:
            return self._publisher.identity[1]
        return next((e.client for e in batch.envelopes or () if e.client is not None), None)

    def _refuse_other_clients(self, batch: PublishBatch) -> list[Refusal]:
        """Refuse messages of other clients than the run's, because their numbers would mix with those of the run."""
        if batch.envelopes is None or self._options.client is not None:
            return []
        client = self._find_client(batch)
        if _has_own_publisher(batch):
            # A run with --on-error abort is one batch, which has the numbers of one publisher.
            words = "its publisher differs from that of earlier entries, which --on-error abort does not support"
            return [
                Refusal(place, "SOW-PUB-008", words)
                for place, envelope in enumerate(batch.envelopes)
                if envelope.client != client or not has_own_publisher(envelope)
            ]
        text = (
            "its client {} differs from that of the run, {}; publish each client separately, or give one with --client"
        )
        return [
            Refusal(place, "SOW-PUB-008", text.format(envelope.client, client))
            for place, envelope in enumerate(batch.envelopes)
            if envelope.client not in (None, client)
        ]

    def list_sequence_logs(self, shares: list[TopicShare], publisher: Publisher) -> list[tuple[list[int], int]]:
        """Group places by the journal or store with their sequence numbers; return them with the highest number there.

        The locks are held.
        """
        # Sequence numbers of journalled topics are in the journal, so they are checked together; a topic without a
        # journal has them in its store. A run that was killed between the two has written one of them, and only its
        # messages are duplicates when the run is repeated.
        together = [share for share in shares if share.writer.journalled]
        groups = [together] if together else []
        groups += [[share] for share in shares if not share.writer.journalled]
        return [
            (
                [place for share in group for place in share.places],
                self._session.find_highest_sequence(publisher.identity[0], [share.writer for share in group]),
            )
            for group in groups
        ]


def _has_own_publisher(batch: PublishBatch) -> bool:
    """Return whether the messages of a batch keep their publishers."""
    return bool(batch.envelopes) and has_own_publisher(batch.envelopes[0])  # type: ignore[index]  # asked before


def _is_journal_dump(batch: PublishBatch) -> bool:
    """Return whether a batch begins with an entry of a journal."""
    return bool(batch.envelopes) and batch.envelopes[0].operation is not None  # type: ignore[index]  # asked before
