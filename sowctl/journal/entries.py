"""A batch of entries by columns, and the table of an entry's columns (``sow-journal(5)``, "Columns").

All writers of entries build an :class:`EntryBatch`: publishing, deleting, queues, bulk commits, key changes. The
journal appends it, and a decoded block is one again, with columns on the block's memory. The stored values of records
are built from it (:mod:`sowctl.engine.fold.blocks`). Operations on a whole batch use :data:`ENTRY_COLUMNS`: a new field
of an entry needs a row there and a field in :class:`EntryBatch` and :class:`Entry`; a field of messages also needs one
in :class:`~sowctl.engine.writing.prepare.PreparedMessages`. A batch of one message is cheap: it needs no array
before the journal encodes it, and no numpy. Code that computes with numpy reads the columns of a batch through
:mod:`sowctl.journal.arrays`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate, pairwise, repeat
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, overload

from msgspec import Struct, field
from msgspec.structs import replace

from sowctl.identity.keyspace import Words, join_words, split_words
from sowctl.journal.format import DELETE, NO_PUBLISHER, PUBLISH
from sowctl.structs import DescribedStruct
from sowctl.values.topicref import TopicRef

T = TypeVar("T", bound=Hashable)
Numbers: TypeAlias = Sequence[int] | int
"""A number per entry, or one for all."""
Texts: TypeAlias = Sequence[bytes | None] | None
"""An optional text per entry; None if no entry has one."""

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import typing_extensions

    N = typing_extensions.TypeVar("N", bound=Numbers, default=Numbers, covariant=True)
    W = typing_extensions.TypeVar("W", bound=Words, default=Words, covariant=True)
    DecodedEntries: TypeAlias = "EntryBatch[memoryview[int], memoryview]"
    """The entries of a block: columns on its memory, a number per entry, payloads copied on demand."""
else:
    N, W = TypeVar("N"), TypeVar("W")

WORD_CODE = "8s"
"""The code of columns of words, in place of the type code of a number."""


class EntryColumn(Struct, frozen=True):
    """A column of entries in a batch and in a block.

    ``code`` is the type code of numbers as in :mod:`array`, ``8s`` for words (SOW keys and check words), empty for an
    optional text. ``part`` is the name of the value in an :class:`Entry` and a stored record; empty if these have
    another field instead. ``flag`` marks the entries that have this text, and ``block_flag`` the blocks.
    ``of_deletions``: deletions may have this text, too.
    """

    name: str
    code: str
    part: str = ""
    flag: int = 0
    block_flag: int = 0
    of_deletions: bool = False


HAS_USER_KEY, HAS_CORRELATION_ID, HAS_LOGICAL_TOPIC = 1, 2, 4
USER_KEYS_FLAG, CORRELATION_IDS_FLAG, LOGICAL_TOPICS_FLAG = 4, 8, 16
# Wide columns come first: each begins at a multiple of its own width, so that numbers are read in place without a copy.
ENTRY_COLUMNS = (
    EntryColumn("keys", WORD_CODE, "key"),
    EntryColumn("checks", WORD_CODE, "check"),
    EntryColumn("times", "q", "time"),
    EntryColumn("expirations", "q", "expiration"),
    EntryColumn("sequences", "Q", "sequence"),
    EntryColumn("lengths", "I"),
    EntryColumn("topic_indexes", "H"),
    EntryColumn("publisher_indexes", "H"),
    EntryColumn("flags", "H", "flags"),
    EntryColumn("operations", "B", "operation"),
    EntryColumn("user_keys", "", "user_key", HAS_USER_KEY, USER_KEYS_FLAG),
    EntryColumn("correlation_ids", "", "correlation_id", HAS_CORRELATION_ID, CORRELATION_IDS_FLAG),
    EntryColumn("logical_topics", "", "logical_topic", HAS_LOGICAL_TOPIC, LOGICAL_TOPICS_FLAG, of_deletions=True),
)
"""All columns except the payloads, in the order of a block. ``lengths`` are the lengths of the payloads."""
TEXT_COLUMNS = tuple(column for column in ENTRY_COLUMNS if not column.code)
FIXED_COLUMNS = ENTRY_COLUMNS[: -len(TEXT_COLUMNS)]
TEXT_NAMES = tuple(one.name for one in TEXT_COLUMNS)
TEXT_BLOCK_FLAGS = sum(one.block_flag for one in TEXT_COLUMNS)
_WORDS = ("keys", "checks")
_NUMBERS = {one.name: one.code for one in FIXED_COLUMNS if one.name not in (*_WORDS, "lengths")}
_OTHERS = (*_NUMBERS, *TEXT_NAMES)
COLUMN_NAMES = _WORDS + _OTHERS
"""Names of the columns in a batch: all but the lengths."""
_VARYING = (*_OTHERS, "txids")
_read_varying = attrgetter(*_VARYING)
_read_texts = attrgetter(*TEXT_NAMES)


class Entry(Struct, frozen=True):
    """One entry; its fields are the parts in :data:`ENTRY_COLUMNS`.

    ``key`` and ``check`` 8 bytes; times in microseconds UTC; ``publisher`` the hash of the client name, or None.
    """

    txid: int
    operation: int
    topic: TopicRef
    key: bytes
    check: bytes
    time: int
    expiration: int
    publisher: int | None
    client: str | None
    sequence: int
    flags: int
    user_key: bytes | None
    correlation_id: bytes | None
    logical_topic: bytes | None
    payload: bytes


class PackedPayloads(Sequence[bytes]):
    """Payloads end to end in the bytes of some ``sources``; read and copied on demand.

    ``lengths`` has the length of each. Reading raises the errors of the sources.
    """

    __slots__ = ("lengths", "sources")

    def __init__(self, lengths: Sequence[int], sources: Sequence[Callable[[], memoryview]]) -> None:
        self.lengths = lengths
        self.sources = sources

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.take(range(len(self.lengths))))

    @overload
    def __getitem__(self, place: int) -> bytes: ...

    @overload
    def __getitem__(self, place: slice) -> list[bytes]: ...

    def __getitem__(self, place: int | slice) -> bytes | list[bytes]:
        if isinstance(place, slice):
            return self.take(range(len(self.lengths))[place])
        return self.take((range(len(self.lengths))[place],))[0]

    def take(self, places: Sequence[int]) -> list[bytes]:
        """Return the payloads at these indexes."""
        if not places:
            return []
        raw = self._join_parts()
        ends = list(accumulate(self.lengths, initial=0))
        if isinstance(places, range) and places.step == 1:
            return [raw[start:end] for start, end in pairwise(ends[places.start : places.stop + 1])]
        return [raw[ends[place] : ends[place + 1]] for place in places]

    def read_parts(self) -> list[memoryview]:
        """Return the bytes of each source."""
        return [read() for read in self.sources]

    def _join_parts(self) -> bytes:
        # Slices of bytes are bytes, which callers hash and compare; slices of a memoryview are not.
        parts = self.read_parts()
        whole = parts[0].obj if len(parts) == 1 else None
        return whole if type(whole) is bytes and len(whole) == len(parts[0]) else b"".join(parts)


class EntryBatch(DescribedStruct, Generic[N, W]):
    """Entries in order, by columns. The defaults describe a publish without publisher, sequence number, expiration,
    flags and texts.

    ``topic_indexes`` and ``publisher_indexes`` refer to ``topic_refs`` and ``publishers`` (65535 = no publisher).
    ``keys`` and ``checks`` are the words of :mod:`sowctl.identity.keys`; ``times`` and ``expirations`` (0 = never) are
    in microseconds since 1970 UTC; sequence 0 means none. ``flags`` are ``format.INSERTED_FLAG`` and ``UNKEYED_FLAG``:
    encoding adds those of texts. ``stored``: the compressed ``payloads`` from
    :func:`~sowctl.journal.group.compress_payloads`, if available. ``txids`` are set after the journal has assigned
    them.
    """

    topic_refs: list[TopicRef]
    payloads: Sequence[bytes]
    keys: W
    checks: W
    times: N
    expirations: N = 0  # type: ignore[assignment]  # these defaults are Numbers, which N is where they are used
    flags: N = 0  # type: ignore[assignment]
    operations: N = PUBLISH  # type: ignore[assignment]
    topic_indexes: N = 0  # type: ignore[assignment]
    publishers: list[tuple[int, str]] = field(default_factory=list)
    publisher_indexes: N = NO_PUBLISHER  # type: ignore[assignment]
    sequences: N = 0  # type: ignore[assignment]
    user_keys: Texts = None
    correlation_ids: Texts = None
    logical_topics: Texts = None
    stored: list[bytes] | None = None
    txids: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.payloads)

    @property
    def texts(self) -> tuple[Texts, ...]:
        """The columns of optional texts, in the order of the table."""
        found: tuple[Texts, ...] = _read_texts(self)
        return found

    @property
    def lengths(self) -> Sequence[int]:
        """The lengths of the payloads. Raises OverflowError for one that exceeds the size of a block."""
        payloads = self.payloads
        return payloads.lengths if isinstance(payloads, PackedPayloads) else array("I", list(map(len, payloads)))

    @property
    def last_time(self) -> int:
        """The time of the last entry, in microseconds since 1970 UTC."""
        return self.times if isinstance(self.times, int) else self.times[-1]

    def list_columns(self) -> dict[str, Any]:
        """Return the payloads and all columns of the table, by name."""
        return {"payloads": self.payloads} | {name: getattr(self, name) for name in COLUMN_NAMES}

    def list_numbers(self, name: str) -> Sequence[int]:
        """Return a column of numbers, one per entry."""
        column: Numbers = getattr(self, name)
        return [column] * len(self) if isinstance(column, int) else column

    def set_publisher(self, publisher: tuple[int, str] | None, sequences: Numbers) -> EntryBatch:
        """Return the same entries with this publisher; unchanged if it is None."""
        if publisher is None:
            return self
        return replace(self, publishers=[publisher], publisher_indexes=0, sequences=sequences)

    def mark_deletions(self, gone: Sequence[bool]) -> EntryBatch:
        """Return the same entries with those that are ``gone`` as deletions.

        A deletion has key, check word, time and logical topic; other parts of its message are dropped.
        """
        found: dict[str, Any] = {}
        for one in TEXT_COLUMNS:
            column = getattr(self, one.name)
            if not one.of_deletions and column is not None:
                found[one.name] = [None if out else text for out, text in zip(gone, column, strict=True)]
        stamps = self.list_numbers("expirations")
        return replace(
            self,
            # New lists: the columns may be those of the input, whose messages are reported when they are acknowledged.
            payloads=[b"" if out else payload for out, payload in zip(gone, self.payloads, strict=True)],
            expirations=[0 if out else stamp for out, stamp in zip(gone, stamps, strict=True)],
            operations=bytes(DELETE if out else PUBLISH for out in gone),
            stored=None,
            **found,
        )

    def iterate_entries(self) -> Iterator[Entry]:
        """Yield the entries one by one. Raises ValueError if they have no txids yet."""
        if self.txids is None:
            raise ValueError("these entries have no txids yet")
        # The index 65535 means no publisher; it is an entry of the same table, so that the loop has no branch.
        whom: dict[int, tuple[int | None, str | None]] = {
            NO_PUBLISHER: (None, None),
            **dict(enumerate(self.publishers)),
        }
        publishers = list(map(whom.__getitem__, self.list_numbers("publisher_indexes")))
        columns: dict[str, Iterable[Any]] = {
            "txid": self.txids,
            "topic": map(self.topic_refs.__getitem__, self.list_numbers("topic_indexes")),
            "publisher": [number for number, _ in publishers],
            "client": [client for _, client in publishers],
            "payload": self.payloads,
        }
        for column in ENTRY_COLUMNS:
            if column.part:
                found = getattr(self, column.name)
                if column.code == WORD_CODE:
                    found = split_words(found)
                elif column in TEXT_COLUMNS:
                    found = repeat(None) if found is None else found
                else:
                    found = self.list_numbers(column.name)
                columns[column.part] = found
        return map(Entry, *[columns[name] for name in Entry.__struct_fields__])

    def check_lengths(self) -> None:
        """Raise ValueError if there are no entries, or columns of different lengths."""
        count = len(self.payloads)
        if (
            count == 0
            or any(
                len(words) != (count if isinstance(words, list) else 8 * count) for words in (self.keys, self.checks)
            )
            or any(len(column) != count for _, column in self._list_varying())
        ):
            raise ValueError("the columns of a batch have different lengths, or there are no entries")

    def slice(self, start: int, stop: int) -> EntryBatch:
        """Return the entries from ``start`` to ``stop``, exclusive; the batch itself if these are all."""
        if (start, stop) == (0, len(self)):
            return self
        found: dict[str, Any] = {name: column[start:stop] for name, column in self._list_varying()}
        for name in _WORDS:
            words: Words = getattr(self, name)
            found[name] = words[start:stop] if isinstance(words, list) else words[8 * start : 8 * stop]
        return replace(self, payloads=self.payloads[start:stop], stored=None, **found)

    def take(self, indexes: Sequence[int]) -> EntryBatch:
        """Return the entries at ``indexes``, in this order."""
        pick = _build_picker(indexes)
        found: dict[str, Any] = {name: pick(column) for name, column in self._list_varying()}
        found |= {name: _take_words(getattr(self, name), indexes, pick) for name in _WORDS}
        payloads = self.payloads
        found["payloads"] = payloads.take(indexes) if isinstance(payloads, PackedPayloads) else pick(payloads)
        return replace(self, stored=None, **found)

    def _list_varying(self) -> list[tuple[str, Any]]:
        """Return the columns of numbers, texts and txids that vary between entries."""
        columns = zip(_VARYING, _read_varying(self), strict=True)
        return [(name, column) for name, column in columns if not (column is None or isinstance(column, int))]


def concatenate_batches(batches: Sequence[EntryBatch]) -> EntryBatch:
    """Return the entries of all batches, in order."""
    if len(batches) == 1:
        return batches[0]
    counts = [len(batch) for batch in batches]
    columns = {name: [getattr(batch, name) for batch in batches] for name in COLUMN_NAMES}
    # The indexes of each batch refer to its own lists; from here on, to the shared ones.
    topic_refs, columns["topic_indexes"] = _share_list([(one.topic_refs, one.topic_indexes) for one in batches])
    publishers, columns["publisher_indexes"] = _share_list([(one.publishers, one.publisher_indexes) for one in batches])
    found: dict[str, Any] = {name: _join_words(columns[name]) for name in _WORDS}
    found |= {name: _join_numbers(columns[name], code, counts) for name, code in _NUMBERS.items()}
    found |= {name: _join_texts(columns[name], counts) for name in TEXT_NAMES}
    payloads = _join_payloads([batch.payloads for batch in batches])
    txids = _join_txids([batch.txids for batch in batches])
    return EntryBatch(topic_refs=topic_refs, publishers=publishers, payloads=payloads, txids=txids, **found)


def interleave_batches(
    batches: Sequence[EntryBatch], places: Sequence[Sequence[int]]
) -> tuple[EntryBatch, list[Sequence[int]]]:
    """Merge the entries of batches, ascending by their ``places``; return also the indexes of each batch's entries."""
    if len(batches) == 1:
        return batches[0], [range(len(batches[0]))]
    joined = [place for some in places for place in some]
    order = sorted(range(len(joined)), key=joined.__getitem__)
    ranks = [0] * len(order)
    for rank, index in enumerate(order):
        ranks[index] = rank
    found, start = [], 0
    for some in places:
        found.append(ranks[start : start + len(some)])
        start += len(some)
    return concatenate_batches(batches).take(order), list(found)


def spread_numbers(column: Numbers, code: str, count: int) -> array[int]:
    """Return a column of numbers as an array of a type code."""
    if isinstance(column, int):
        return array(code, (column,)) * count
    if isinstance(column, memoryview) and column.format == code:
        found = array(code)
        found.frombytes(column.cast("B"))
        return found
    return column if isinstance(column, array) and column.typecode == code else array(code, column)


def _build_picker(indexes: Sequence[int]) -> Callable[[Sequence[Any]], list[Any]]:
    """Return a function that selects the elements at ``indexes`` of a column."""
    if len(indexes) < 2:  # for a single index, itemgetter returns the element itself
        return lambda column: [column[index] for index in indexes]
    # Takes half the time of a comprehension, which matters for blocks of several topics.
    pick = itemgetter(*indexes)
    return lambda column: list(pick(column))


def _take_words(words: Words, indexes: Sequence[int], pick: Callable[[Sequence[Any]], list[Any]]) -> list[bytes]:
    if isinstance(words, list) or 4 * len(indexes) > len(words) // 8:
        return pick(split_words(words))
    # For a few words, splitting all of them would be most of the work.
    return [bytes(words[8 * index : 8 * index + 8]) for index in indexes]


def _join_words(columns: Sequence[Words]) -> Words:
    if any(isinstance(words, list) for words in columns):
        return [word for words in columns for word in split_words(words)]
    return b"".join(map(join_words, columns))


def _join_payloads(columns: Sequence[Sequence[bytes]]) -> Sequence[bytes]:
    packed = [payloads for payloads in columns if isinstance(payloads, PackedPayloads)]
    if len(packed) == len(columns) and (lengths := _join_buffers([one.lengths for one in packed], "I")) is not None:
        return PackedPayloads(lengths, [source for one in packed for source in one.sources])
    return [payload for payloads in columns for payload in payloads]


def _join_txids(columns: Sequence[Sequence[int] | None]) -> Sequence[int] | None:
    listed = [column for column in columns if column is not None]
    if len(listed) < len(columns):
        return None
    ranges = [column for column in listed if isinstance(column, range)]
    # Consecutive blocks are the usual case.
    if len(ranges) == len(listed) and all(one.stop == two.start for one, two in pairwise(ranges)):
        return range(ranges[0].start, ranges[-1].stop)
    return [txid for column in listed for txid in column]


def _join_buffers(columns: Sequence[Numbers], code: str) -> memoryview[int] | None:
    """Return columns of decoded blocks as one of the same type; None if other columns are among them."""
    views = [column for column in columns if isinstance(column, memoryview)]
    if len(views) < len(columns):
        return None
    joined = array(code)
    for view in views:
        joined.frombytes(view.cast("B"))
    return memoryview(joined)


def _join_numbers(columns: Sequence[Numbers], code: str, counts: Sequence[int]) -> Numbers:
    if all(isinstance(column, int) and column == columns[0] for column in columns):
        return columns[0]
    if (joined := _join_buffers(columns, code)) is not None:
        return joined
    found: list[int] = []
    for column, count in zip(columns, counts, strict=True):
        found += [column] * count if isinstance(column, int) else column
    return found


def _join_texts(columns: Sequence[Texts], counts: Sequence[int]) -> Texts:
    if all(column is None for column in columns):
        return None
    found: list[bytes | None] = []
    for column, count in zip(columns, counts, strict=True):
        found += [None] * count if column is None else column
    return found


def _share_list(batches: Sequence[tuple[list[T], Numbers]]) -> tuple[list[T], list[Numbers]]:
    """Return one list for the lists of all batches, and the columns with indexes into it."""
    # Blocks of one writer often have the same list: then the indexes need no change.
    if all(items == batches[0][0] for items, _ in batches):
        return batches[0][0], [column for _, column in batches]
    places: dict[T, int] = {}
    for items, _ in batches:
        for item in items:
            places.setdefault(item, len(places))
    columns: list[Numbers] = []
    for items, column in batches:
        known: Mapping[int, int] = {index: places[item] for index, item in enumerate(items)}
        # The index for no publisher is in no list, and stays.
        if isinstance(column, int):
            columns.append(known.get(column, column))
        else:
            shared = array("H", [known.get(index, index) for index in column])
            columns.append(memoryview(shared) if isinstance(column, memoryview) else shared)
    return list(places), columns
