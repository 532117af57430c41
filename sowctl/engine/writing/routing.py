"""Routing of messages to topics and numbers: opens topics when they are first met, splits batches."""

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
"""Topic and message type as a message names them."""


class TopicShare(DescribedStruct):
    """The part of a batch that goes to one topic; ``places`` are indexes into the batch."""

    writer: TopicWriter
    preparer: Preparer
    ready: PreparedMessages

    @property
    def places(self) -> Sequence[int]:
        """The places of its messages in the batch."""
        return self.ready.places

    def keep_indexes(self, indexes: list[int]) -> None:
        """Forget all messages but these."""
        self.ready.stored = None
        for column in PreparedMessages.__struct_fields__:
            values = getattr(self.ready, column)
            if values is not None:
                setattr(self.ready, column, [values[index] for index in indexes])


class Router:
    """Opens topics for one run. ``before_opening`` is called first: opening takes locks that a batch may still hold."""

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
        """The publishers of entries of a journal and of partitions, which keep their numbers."""

    def open_target(self, name: str | None, message_type: str | None) -> tuple[TopicWriter, Preparer, bytes | None]:
        """The topic of a message, opened when first met, and its logical topic where that is one.

        Raises UsageError ``SOW-PUB-015`` where none is named.
        """
        found = self._opened.get((name, message_type))
        if found is None:
            if name is None:
                raise UsageError("SOW-PUB-015", "no topic is given", hint="name it, or publish envelopes with a topic")
            config = find_publish_topic(self._session.instance, name, message_type)
            logical = config.logical_name
            # Logical topics of one Pattern topic share its writer and its preparer.
            found = *self._open_topic(config.whole_topic), None if logical is None else logical.encode()
            self._opened[name, message_type] = found
        return found

    def _open_topic(self, config: TopicConfig) -> tuple[TopicWriter, Preparer]:
        ref = config.ref
        found = self._writers.get(ref)
        if found is None:
            preparer = Preparer(self._session.instance, config, self._options, deletes=True)
            # A batch under way may hold the journal's lock or a store's. Opening takes locks in their order, so those
            # go first.
            self._before_opening()
            found = self._writers[ref] = self._session.open_topic(config), preparer
        return found

    def split_batch(self, batch: PublishBatch) -> tuple[list[TopicShare], list[Refusal]]:
        """The shares of a batch, prepared, and what was refused on the way."""
        if batch.envelopes is None:
            if not batch.payloads:
                return [], []
            # Without envelopes all messages go to one topic, so the whole batch is one share, and no message is looked
            # at.
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
            # The preparer numbers the messages of this topic; outcomes and refusals are told by places in the whole
            # batch.
            ready.places = [places[index] for index in ready.places]
            refusals.extend(Refusal(places[r.index], r.code, r.message, r.offset) for r in refused)
            shares.append(TopicShare(writer, preparer, ready))
        return shares, refusals

    def _group_by_topic(
        self, batch: PublishBatch, without: set[int], refusals: list[Refusal]
    ) -> dict[TopicRef, tuple[list[int], list[bytes]]]:
        """Indexes of the batch by the topic that their envelopes (or the command) mean; some are left out.

        Messages of one Pattern topic stay together, with the name of each one's logical topic.
        """
        found: dict[TopicRef, tuple[list[int], list[bytes]]] = {}
        opened: dict[TopicReference, tuple[TopicWriter, Preparer, bytes | None]] = {}
        bad: dict[TopicReference, SowError] = {}
        for place, envelope in enumerate(batch.envelopes or ()):
            if place in without:
                continue
            # A topic named on the command line wins over the envelope's, so that a file of one topic can be published
            # to another.
            named = envelope.topic is not None and self._default[0] is None
            ref = (envelope.topic, envelope.message_type) if named else self._default
            if ref not in opened and ref not in bad:
                try:
                    opened[ref] = self.open_target(*ref)
                except SowError as error:
                    # A topic that does not exist, or a wrong name, refuses the message that names it. A store that is
                    # damaged or locked ends the run instead: it says nothing about the message.
                    if error.exit_status not in (2, 10):
                        raise
                    bad[ref] = error
            if ref in bad:
                refusals.append(Refusal(place, bad[ref].code, bad[ref].message))
                continue
            writer, _, logical = opened[ref]
            # One share for one store: a Pattern topic's logical topics share its file, so their messages keep their
            # order.
            places, names = found.setdefault(writer.ref, ([], []))
            places.append(place)
            if logical is not None:
                names.append(logical)
        return found

    def save_chains(self) -> None:
        """Put what journalled topics have learnt of chains into their files; without a journal that is done before."""
        for writer, preparer in self._writers.values():
            # Of a journalled topic the file only saves reading the journal again, so it is written once, at the end.
            if preparer.keys.chains is not None and writer.journalled:
                preparer.keys.chains.save_links()

    def prepare_publisher(self, batch: PublishBatch) -> Publisher | None:
        """The run's publisher, with the messages of a batch numbered; None where no client is named."""
        own = None
        if batch.envelopes is not None and any(envelope.sequence is not None for envelope in batch.envelopes):
            own = [envelope.sequence for envelope in batch.envelopes]
        client = self._find_client(batch)
        # Without a client nothing tells a repeated message from a new one: such batches have no sequence numbers at
        # all, and the name that the instance records is only for people.
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
            # One publisher for the run: all its messages are numbered in one sequence.
            self._publisher = Publisher(client, self._options.sequence, self._session.find_highest_sequence)
        self._publisher.number_batch(len(batch.payloads), own)
        return self._publisher

    def note_overtaken(self, publisher: Publisher) -> None:
        """Say of a partition, once, that an offset was dropped as a duplicate after a higher one of this run."""
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
        """The client that the instance records where none is named; entries of a journal stay as they were."""
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
        """The client of the command, of the run so far, or the first that an envelope names."""
        if self._options.client is not None:
            return self._options.client
        if _has_own_publisher(batch):
            assert batch.envelopes is not None
            return batch.envelopes[0].client
        if self._publisher is not None:
            return self._publisher.identity[1]
        return next((e.client for e in batch.envelopes or () if e.client is not None), None)

    def _refuse_other_clients(self, batch: PublishBatch) -> list[Refusal]:
        """Messages of another client than the run's: their numbers would be mixed up with its own."""
        if batch.envelopes is None or self._options.client is not None:
            return []
        client = self._find_client(batch)
        if _has_own_publisher(batch):
            # A run that is all or nothing is one batch, and that has the numbers of one publisher.
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
        """Places by where their numbers are kept, with the highest number there. The locks are held."""
        # Sequence numbers of journalled topics are all in the journal, so they are judged together; a topic without a
        # journal keeps its own in its store. A run that died between the two has written one of them, and only that
        # one's messages are duplicates when the run is repeated.
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
    """Return whether the messages of a batch keep their publisher."""
    return bool(batch.envelopes) and has_own_publisher(batch.envelopes[0])  # type: ignore[index]  # asked before


def _is_journal_dump(batch: PublishBatch) -> bool:
    """Return whether a batch begins with an entry of a journal."""
    return bool(batch.envelopes) and batch.envelopes[0].operation is not None  # type: ignore[index]  # asked before
