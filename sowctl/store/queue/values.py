"""The rows of a state file besides its pages: the state, lease holders, barriers, dead messages (``sow-queue(5)``).

Each is a msgpack array after a checksum. Only :mod:`sowctl.store.queue.rows` writes and reads them.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Any, TypeAlias

from msgspec import DecodeError, Struct, field, msgpack

from sowctl.checksum import crc32
from sowctl.errors import DamageError, VersionError

MAGIC = b"SOWQUEUE"
VERSION = 1
_HEAD = Layout("<8sHxx")
_CRC = Layout("<I")
NO_LINEAGE = bytes(16)
RATE_MINUTES = 10
"""Minutes with separate event counts: rates cover the past ones and the current one."""

Place: TypeAlias = tuple[int, int, int]
"""A position in the journal: number of a file, offset, txid before it."""


class Minute(Struct, array_like=True):
    """The events of one minute, ``number`` minutes after 1970."""

    number: int
    entered: int = 0
    delivered: int = 0
    acked: int = 0


class QueueState(Struct, array_like=True):
    """The state of a queue, written to its state file with every change.

    ``definition`` is a digest of the configuration that determines the queue's messages; ``recovery`` its
    RecoveryPoint. ``lineage``, ``applied``, ``block`` and ``position`` are the position up to which the journal was
    read; ``began`` is the txid after which the queue begins. ``token`` and ``holder`` are the last ones assigned;
    ``turn`` is the holder served last. Counts of pending messages by state, then counts since ``created`` (microseconds
    UTC); ``expired`` by reason. ``whole``: the queue has every message up to the end of the journal, because
    TargetQueueDepth allowed all.
    """

    name: str
    message_type: str
    definition: bytes
    recovery: str
    created: int
    lineage: bytes = NO_LINEAGE
    began: int = 0
    applied: int = 0
    block: Place | None = None
    position: Place | None = None
    token: int = 0
    holder: int = 0
    turn: int = 0
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    barriers: int = 0
    dead: int = 0
    entered: int = 0
    delivered: int = 0
    acked: int = 0
    cancelled: int = 0
    returned: int = 0
    requeued: int = 0
    expired: dict[str, int] = field(default_factory=dict)
    minutes: list[Minute] = field(default_factory=list)
    whole: bool = True

    @property
    def pending_count(self) -> int:
        """Messages in the queue: ready, leased, delayed or barriers."""
        return self.ready + self.leased + self.delayed + self.barriers

    def open_minute(self, now: int) -> Minute:
        """Return the row of the current minute, the last one; drops rows that are too old."""
        number = now // 60_000_000
        if not self.minutes or self.minutes[-1].number < number:
            self.minutes = [row for row in self.minutes if row.number > number - RATE_MINUTES]
            self.minutes.append(Minute(number))
        return self.minutes[-1]


class Holder(Struct, array_like=True):
    """A holder of leases: a worker, which is alive while its process holds its file's lock, or a client by name.

    ``slots`` are the subscriptions of a worker. ``room`` is its maximum number of messages in flight; ``asked`` the
    instant of its last request that was not fully served, otherwise 0.
    """

    name: str
    worker: bool
    pid: int = 0
    host: str = ""
    started: int = 0
    seen: int = 0
    slots: int = 1
    room: int = 1
    asked: int = 0
    in_flight: int = 0
    delivered: int = 0
    acked: int = 0
    cancelled: int = 0
    returned: int = 0


class Barrier(Struct, array_like=True):
    """A barrier. ``waiting``: the workers that have not received it yet, None before it may be delivered;
    ``delivered``: the number of workers that have received it."""

    waiting: list[int] | None = None
    delivered: int = 0


class Dead(Struct, array_like=True):
    """A message that was delivered or cancelled too often. ``since`` microseconds UTC.

    ``holder`` had it last; ``exit_status`` and ``stderr`` (its last lines) are those of the worker's command. They are
    missing in rows of earlier releases, and if the state was rebuilt from the journal.
    """

    reason: str
    deliveries: int
    cancels: int
    since: int
    place: Place
    publisher: int = 0
    sequence: int = 0
    expiration: int = 0
    priority: int = 0
    holder: str = ""
    exit_status: int | None = None
    stderr: str = ""


_decoders: dict[type[Any], msgpack.Decoder[Any]] = {}
_encoder = msgpack.Encoder()


def encode_value(value: Struct) -> bytes:
    """Return the row of a value."""
    raw = _encoder.encode(value)
    return _CRC.pack(crc32(raw)) + raw


def decode_value(raw: bytes | memoryview, kind: type[Any]) -> Any:
    """Decode the value of a row. Raises ValueError for a damaged one."""
    view = memoryview(raw)
    if len(view) < _CRC.size or crc32(view[_CRC.size :]) != _CRC.unpack_from(view)[0]:
        raise ValueError(f"a row of kind {kind.__name__} with a wrong checksum")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgpack.Decoder(kind)
    try:
        return decoder.decode(view[_CRC.size :])
    except DecodeError as problem:
        raise ValueError(f"a row of kind {kind.__name__}: {problem}") from None


def encode_state(state: QueueState) -> bytes:
    """Return the row of the state, preceded by magic and version."""
    return _HEAD.pack(MAGIC, VERSION) + encode_value(state)


def decode_state(raw: bytes | memoryview, place: str) -> QueueState:
    """Decode the state of a file. Raises VersionError ``SOW-QUE-003``, DamageError ``SOW-QUE-002``."""
    view = memoryview(raw)
    if len(view) < _HEAD.size or bytes(view[:8]) != MAGIC:
        raise damaged_queue_error("it is not the state of a queue", place)
    _, version = _HEAD.unpack_from(view)
    if version > VERSION:
        raise VersionError(
            "SOW-QUE-003",
            f"the file has queue format version {version}; this release reads up to {VERSION}",
            place=place,
            hint="use the release that wrote it, or a later one",
        )
    try:
        state: QueueState = decode_value(view[_HEAD.size :], QueueState)
    except ValueError as problem:
        raise damaged_queue_error(str(problem), place) from None
    return state


def damaged_queue_error(what: str, place: str) -> DamageError:
    """Return DamageError ``SOW-QUE-002``."""
    return DamageError(
        "SOW-QUE-002",
        f"the state file of the queue is damaged: {what}",
        place=place,
        hint="stop the workers and remove the file: it is rebuilt from the journal, and leased "
        "messages are delivered again",
    )
