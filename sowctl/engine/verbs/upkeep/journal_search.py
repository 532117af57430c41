"""journal search: finds the entries of a journal with a given key, client, time or message.

A block that cannot have a matching entry is skipped by its header, its map or its columns; only the payloads of the
remaining blocks are read (``sow-journal(5)``, Map and Columns).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct

from sowctl.engine.maintenance.journal_search.criteria import Criteria
from sowctl.engine.maintenance.journal_search.entries import JournalEntries, iterate_batches, resolve_topic_names
from sowctl.engine.maintenance.journal_search.payloads import PayloadTest
from sowctl.engine.reports import SearchReport
from sowctl.engine.search.keytext import make_key_error, resolve_key_texts
from sowctl.engine.topics.positions import notify_skipped_tail, open_whole_log
from sowctl.engine.topics.targets import Target, split_target
from sowctl.errors import SowError, UsageError
from sowctl.identity.hashes import hash_client_name
from sowctl.identity.keys import parse_sow_key
from sowctl.journal.format import OPERATIONS
from sowctl.values.display import format_count

if TYPE_CHECKING:
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.journal.block import Block
    from sowctl.journal.reader import Journal
    from sowctl.remote.place import Place
    from sowctl.values.topicref import TopicRef

OPERATION_CODES = {word: code for code, word in OPERATIONS.items()}


class SearchOptions(Struct, frozen=True):
    """Criteria of a search for entries; all criteria given must hold, None and empty are no criterion.

    ``topic_names``: any of these, including logical ones, as ``NAME`` or ``[TYPE].[NAME]``. ``keys``: texts of key
    fields, or publishers' keys; ``sow_keys``: SOW keys as decimals; any of either. ``operations``: any of these words.
    Times in microseconds UTC, bounds inclusive. ``pattern``: a PCRE2 pattern to find in payloads. ``limit``: maximum
    number of entries.
    """

    topic_names: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    sow_keys: tuple[str, ...] = ()
    client: str | None = None
    operations: tuple[str, ...] = ()
    from_time: int | None = None
    to_time: int | None = None
    from_txid: int | None = None
    to_txid: int | None = None
    filter: str | None = None
    pattern: str | None = None
    limit: int | None = None


class JournalSearch:
    """Iterate for the entries, in txid order, once; ``report`` counts, also meanwhile, what was examined."""

    def __init__(
        self, instance: Instance, options: SearchOptions, *, data: bool = True, directory: Place | None = None
    ) -> None:
        self.report = SearchReport()
        self._instance = instance
        self._options = options
        self._data = data
        self._directory = directory
        # Invalid texts are rejected before anything is opened.
        self._test = PayloadTest(instance, options.filter, options.pattern)
        self._topic_names = [split_target(text) for text in options.topic_names]
        self._sow_keys = frozenset(map(_parse_sow_key, options.sow_keys))
        self._operations = bytes(map(_parse_operation, options.operations)) or None

    @property
    def coverage(self) -> str:
        """One line: the matches, and what was read to find them."""
        read = self.report
        return (
            f"{format_count(read.matched, 'match', 'matches')} in {format_count(read.examined, 'entry', 'entries')}; "
            f"of {format_count(read.blocks, 'block')}, {read.by_header:,} skipped by time, "
            f"{read.by_map:,} by topic and publisher, {read.by_columns:,} by columns, {read.payloads_read:,} read"
        )

    def __iter__(self) -> Iterator[JournalEntries]:
        instance, left = self._instance, self._options.limit
        with open_whole_log(instance, self._directory) as log:
            wanted = self._build_criteria(log)
            for block, found in self._find_places(log, wanted) if wanted is not None else ():
                places = found[:left]
                self.report.matched += len(places)
                yield from iterate_batches(self._instance, block, places, data=self._data)
                if left is not None:
                    left -= len(places)
                    if left <= 0:
                        return
            notify_skipped_tail(instance, log)

    def _build_criteria(self, log: Journal) -> Criteria | None:
        """Return the criteria of the search; None if no entry can have one of the keys."""
        options = self._options
        names, message_type = resolve_topic_names(self._instance, log, self._topic_names)
        named = self._find_named_keys()
        asked = bool(options.keys or options.sow_keys)
        if asked and not self._sow_keys and not named:
            return None
        return Criteria(
            names=names,
            message_type=message_type,
            keys=self._sow_keys if asked else None,
            named=named,
            client=hash_client_name(options.client) if options.client is not None else None,
            operations=self._operations,
            from_time=options.from_time,
            to_time=options.to_time,
            from_txid=options.from_txid,
            to_txid=options.to_txid,
        )

    def _find_named_keys(self) -> dict[TopicRef, frozenset[bytes]]:
        """Return the SOW keys that the key texts may mean in each topic. Raises UsageError if no topic has such
        keys."""
        texts = self._options.keys
        if not texts:
            return {}
        found: dict[TopicRef, frozenset[bytes]] = {}
        problem: SowError | None = None
        for topic in self._list_keyed_topics():
            try:
                meant = resolve_key_texts(texts, Target(topic=topic), None, fields=False)
            except SowError as error:
                problem = error
                continue
            keys = frozenset(key for some in meant for key in some)
            if keys:
                ref = topic.ref
                found[ref] = found.get(ref, frozenset()) | keys
        # Of several topics some may not have keys of such texts; if none has, report the reason of one of them.
        if not found and problem is not None:
            raise problem
        if not found and not self._list_keyed_topics():
            raise UsageError(
                "SOW-CLI-087",
                "no topic in this search has keys from fields or from publishers",
                hint="use --sow-key with SOW keys as printed by sowctl journal dump",
            )
        return found

    def _list_keyed_topics(self) -> list[TopicConfig]:
        """Return the topics of the configuration whose keys have texts."""
        from sowctl.engine.topics.targets import find_publish_topic

        if not self._topic_names:
            return [topic for topic in self._instance.topics if topic.journalled]
        found = []
        for name, message_type in self._topic_names:
            try:
                found.append(find_publish_topic(self._instance, name, message_type))
            except SowError:
                continue  # only the journal has it
        return [topic for topic in found if topic.keys or topic.key_mode == "user"]

    def _find_places(self, log: Journal, wanted: Criteria) -> Iterator[tuple[Block, list[int]]]:
        """Yield blocks with the indexes of their matching entries."""
        report, keys, test = self.report, wanted.all_keys, self._test
        for ref in log.iter_block_refs(after=(wanted.from_txid or 1) - 1):
            header = ref.header
            if wanted.to_txid is not None and header.first_txid > wanted.to_txid:
                return
            report.blocks += 1
            report.examined += header.count
            if not wanted.matches_header(header):
                report.by_header += 1
            elif not wanted.matches_map(header, ref.read_map()):
                report.by_map += 1
            elif wanted.needs_columns and not wanted.matches_columns(ref, keys):
                report.by_columns += 1
            else:
                block = ref.load()
                places = wanted.find_places(block)
                if not places:
                    report.by_columns += 1
                    continue
                report.payloads_read += 1
                if test.is_needed:
                    places = test.select_places(block, places)
                    report.unreadable = test.unreadable
                if places:
                    yield block, places


def search_journal(
    instance: Instance, options: SearchOptions, *, data: bool = True, directory: Place | None = None
) -> JournalSearch:
    """Search the journal of the instance, or the one in ``directory``.

    Raises UsageError (exit 2) for invalid texts immediately; iterating raises MissingError ``SOW-ENG-012`` for a topic
    that does not exist, and what reading the journal raises.
    """
    return JournalSearch(instance, options, data=data, directory=directory)


def _parse_sow_key(text: str) -> bytes:
    key = parse_sow_key(text)
    if key is None:
        raise make_key_error(text)
    return key


def _parse_operation(word: str) -> int:
    code = OPERATION_CODES.get(word)
    if code is None:
        raise UsageError(
            "SOW-CLI-088", f"{word!r} is not an operation", hint=f"use one of {', '.join(OPERATION_CODES)}"
        )
    return code
