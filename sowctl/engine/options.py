"""Options of the verbs: each field with its spelling, help and unit on the command line.

Programs and the command line use the same classes; a command includes a whole class, or lists the options that it
supports (:mod:`sowctl.declarations`). The AMPS option text and the Python API use the same fields.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Struct

from sowctl.declarations import declare_option
from sowctl.values.units import MAX_U64

OnError = Literal["stop", "skip", "abort"]
DeltaNull = Literal["ignore", "set"]
UnknownFieldPolicy = Literal["ignore", "note", "error"]
EnvelopeName = Literal["sowctl", "kafka", "debezium"]
TimestampUnit = Literal["s", "ms", "us", "ns"]
INDEX_MIN_RECORDS = 20_000
"""Number of records from which on a memo index is built: fewer are read faster than an index is opened."""
POSITION_PANEL = "Position options"

Filter: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--filter", "-f", help="Only records that match the expression EXPR.", metavar="EXPR", operand="FILTER"
    ),
]
SowKeys: TypeAlias = Annotated[
    tuple[str, ...] | None,
    declare_option(
        "--sow-key",
        help="Only the record with this SOW key, or a comma-separated list of keys. May be repeated.",
        metavar="KEY",
        unit="keys",
    ),
]
Keys: TypeAlias = Annotated[
    tuple[str, ...] | None,
    declare_option(
        "--key",
        help="Only the record with this key: the value of the key field, with commas between those of several "
        "fields, or the key that its publisher chose. May be repeated.",
        metavar="VALUE",
    ),
]
OrderBy: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--order-by",
        "-o",
        help="Sort order, for example '/price DESC, /id'. Default: by SOW key.",
        metavar="LIST",
        option_text="orderby",
    ),
]
TopN: TypeAlias = Annotated[
    int | None,
    declare_option(
        "--top-n", "-n", "--limit", help="Print at most COUNT records.", metavar="COUNT", option_text="top_n"
    ),
]
SkipN: TypeAlias = Annotated[
    int | None,
    declare_option("--skip-n", "--offset", help="Skip the first COUNT records.", metavar="COUNT", option_text="skip_n"),
]
Select: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--select", help="Fields to print, for example '-/,+/id,+/price'.", metavar="LIST", option_text="select"
    ),
]
Projection: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--projection",
        help="Fields to compute per group, for example 'SUM(/qty) AS /sum'.",
        metavar="LIST",
        option_text="projection",
    ),
]
Grouping: TypeAlias = Annotated[
    str | None,
    declare_option(
        "--grouping",
        help="Fields to group by, for example '/region'; '' makes one group of all records.",
        metavar="LIST",
        option_text="grouping",
    ),
]
Fresh: TypeAlias = Annotated[
    bool, declare_option("--fresh", help="Recompute a view or conflated topic, ignoring its cache.")
]
DryRun: TypeAlias = Annotated[bool, declare_option("--dry-run", help="Show what would be done without doing it.")]


class PublishOptions(Struct, frozen=True):
    """Options of publishing.

    ``batch`` messages, ``batch_bytes`` or ``linger`` seconds close a batch, whichever is reached first; without
    ``batch`` it has 1,000 messages, or 8,192 where that is faster, and batches up to ``batch_bytes`` are synced
    together while the input has more data available. ``sequence`` enables the detection of duplicates. NULL fields in a
    ``delta`` change nothing unless ``delta_null`` is set; an envelope itself specifies whether it is a delta.
    ``skip_unchanged``: count messages that would change only txid and time of their records, and do not write them.
    ``replace_all``: make the topic equal to the input (``verbs/replace``), which may be empty only with ``force``.
    """

    batch: Annotated[
        int | None,
        declare_option(
            "--batch",
            help="Maximum number of messages in a batch. Default: up to 1 MiB of messages are synced together.",
            metavar="COUNT",
            minimum=1,
            maximum=1_000_000,
        ),
    ] = None
    batch_bytes: int = 1 << 20
    linger: Annotated[
        float | None,
        declare_option("--linger", help="Close an incomplete batch after TIME.", metavar="TIME", unit="seconds"),
    ] = None
    on_error: Annotated[
        OnError,
        declare_option(
            "--on-error", help="On an invalid message: stop, skip it, or abort and publish nothing of this run."
        ),
    ] = "stop"
    max_errors: Annotated[
        int | None,
        declare_option(
            "--max-errors",
            help="With --on-error skip: stop after more than COUNT rejected messages.",
            metavar="COUNT",
            minimum=1,
        ),
    ] = None
    dry_run: DryRun = False
    expiration: Annotated[
        float | None,
        declare_option(
            "--expiration",
            help="Lifetime of the records, for example 30s or 5m; 0 for none.",
            metavar="TIME",
            unit="seconds",
        ),
    ] = None
    sow_key: Annotated[
        str | None,
        declare_option("--sow-key", help="SOW key, for topics whose publishers choose the keys.", metavar="KEY"),
    ] = None
    client: Annotated[
        str | None,
        declare_option(
            "--client",
            help="Client name of the publisher, for duplicate detection. Default: $SOWCTL_CLIENT, without detection.",
            metavar="NAME",
        ),
    ] = None
    sequence: Annotated[
        int | None,
        declare_option(
            "--sequence",
            help="Sequence number of the first message; further messages count up. Default: one more than the "
            "highest number of the client.",
            metavar="NUMBER",
            minimum=1,
            maximum=MAX_U64,
        ),
    ] = None
    timestamp: Annotated[
        str | None,
        declare_option("--timestamp", help="Timestamp of the messages. Default: the current time.", metavar="TIME"),
    ] = None
    timestamp_field: Annotated[
        str | None,
        declare_option(
            "--timestamp-field",
            help="Path of the field that holds the timestamp of each message; for numbers since 1970 with the "
            "unit: /ts:ms.",
            metavar="PATH",
        ),
    ] = None
    allow_null_key: Annotated[
        bool, declare_option("--allow-null-key", help="Accept messages whose key fields are all null.")
    ] = False
    allow_volatile: Annotated[
        bool,
        declare_option("--allow-volatile", help="Accept messages that are kept neither in a store nor in the journal."),
    ] = False
    delta: Annotated[
        bool, declare_option("--delta", help="Treat messages as deltas: merge each into the record with its key.")
    ] = False
    delta_null: Annotated[
        DeltaNull,
        declare_option("--delta-null", help="Whether null fields of a delta are ignored or set to null."),
    ] = "ignore"
    update_only: Annotated[bool, declare_option("--update-only", help="Reject deltas to missing records.")] = False
    skip_unchanged: Annotated[
        bool, declare_option("--skip-unchanged", help="Do not write messages that are equal to the current record.")
    ] = False
    replace_all: Annotated[
        bool,
        declare_option(
            "--replace-all", help="Make the topic equal to the input: delete all records that are not in it."
        ),
    ] = False
    force: Annotated[bool, declare_option("--force", help="With --replace-all: accept an input without records.")] = (
        False
    )


class QueryOptions(Struct, frozen=True):
    """Options of a query: the records to read, their order and number.

    ``sow_keys`` and ``keys``, values of key fields, may both be given. ``at`` is an instant in microseconds UTC.
    ``sort_memory``: bytes for sorting, and for computing a view, beyond which temporary files are used. ``by_time``:
    order by time of last update if there is no other order. ``jobs``: maximum number of processes that read a large
    store; None: as many as are worthwhile. ``index_from``: minimum number of records of a store for using and building
    memo indexes; None: never. ``counted``: read on after ``top_n`` records, so that statistics include the number of
    matches (behaviour C59), and count the records that were skipped by keys and indexes. ``unknown``: a field of the
    query, or in ``shown``, that no record has is noted after the result (of a large store if its first records lack
    it), or rejected before any record is read.
    """

    filter: Filter = None
    order_by: OrderBy = None
    top_n: TopN = None
    skip_n: SkipN = None
    sow_keys: SowKeys = None
    keys: Keys = None
    at: int | None = None
    select: Select = None
    batch_size: Annotated[
        int,
        declare_option(
            "--batch-size",
            help="Number of records to read at a time.",
            metavar="COUNT",
            minimum=1,
            maximum=10_000,
            option_text="batch_size",
        ),
    ] = 1000
    sort_memory: Annotated[
        int,
        declare_option(
            "--sort-memory",
            help="Memory for sorting and for the groups of a view, before temporary files are used.",
            metavar="SIZE",
            unit="bytes",
        ),
    ] = 64 << 20
    by_time: bool = False
    index_from: int | None = INDEX_MIN_RECORDS
    projection: Projection = None
    grouping: Grouping = None
    after_key: Annotated[
        str | None, declare_option("--after-key", help="Continue after this SOW key, in key order.", metavar="KEY")
    ] = None
    jobs: Annotated[
        int | None,
        declare_option(
            "--jobs", "-j", help="Maximum number of processes that read a large store.", metavar="COUNT", minimum=1
        ),
    ] = None
    counted: bool = True
    fresh: Fresh = False
    shown: tuple[str, ...] = ()
    unknown: UnknownFieldPolicy = "ignore"


class SubscribeOptions(Struct, frozen=True):
    """Options of a subscription: the messages to follow, and when to stop.

    ``filter``, ``sow_keys``, ``order_by``, ``top_n``, ``skip_n`` and ``select`` are those of a query; they apply to the
    initial records; filter, SOW keys and select also apply to later messages. ``until_now``: stop at the position that
    is the end of the log at the start. ``progress_every``: seconds after which a position is sent if no message
    matched. ``conflation``: an interval such as 2s, auto, or none. ``projection`` and ``grouping``, both or neither:
    one message per group. ``bookmark``: start there, with the states at that position or, without ``sow``, with every
    message after it. ``deletes``: without ``sow``, events also for records that leave, as ``oof`` with it. ``events``:
    use the system's change notifications, instead of only polling.
    """

    filter: Filter = None
    order_by: OrderBy = None
    top_n: TopN = None
    skip_n: SkipN = None
    sow_keys: SowKeys = None
    keys: Keys = None
    select: Select = None
    sow: Annotated[bool, declare_option("--no-sow", help="Skip the initial records; print only new messages.")] = True
    batch_size: Annotated[
        int,
        declare_option(
            "--batch-size",
            help="The batch_size reported with the records.",
            metavar="COUNT",
            minimum=1,
            maximum=10_000,
            option_text="batch_size",
        ),
    ] = 1
    query_id: Annotated[
        str | None,
        declare_option("--query-id", help="The query_id of the record events and of their group.", metavar="TEXT"),
    ] = None
    until_now: Annotated[
        bool,
        declare_option(
            "--until-now", help="Stop at the position that is the end of the journal when the command starts."
        ),
    ] = False
    lasting: Annotated[
        float | None,
        declare_option("--for", help="Stop after TIME, for example 10s.", metavar="TIME", unit="seconds"),
    ] = None
    most: Annotated[
        int | None,
        declare_option(
            "--max", help="Stop after COUNT messages, not counting the initial records.", metavar="COUNT", minimum=1
        ),
    ] = None
    progress_every: Annotated[
        float | None,
        declare_option(
            "--progress-every", help="Print the position every TIME if it has changed.", metavar="TIME", unit="seconds"
        ),
    ] = None
    oof: Annotated[
        bool,
        declare_option(
            "--oof", help="Print an event for each record that leaves the result, with the reason.", option_text="oof"
        ),
    ] = False
    deletes: Annotated[
        bool,
        declare_option("--deletes", help="Print deletions and expirations too, as sow_delete; with --no-sow."),
    ] = False
    delta: Annotated[
        bool,
        declare_option(
            "--delta", help="For records printed before, print only the changed fields.", option_text="delta"
        ),
    ] = False
    no_empties: Annotated[
        bool,
        declare_option(
            "--no-empties", help="With --delta: print nothing if no field has changed.", option_text="no_empties"
        ),
    ] = False
    send_keys: Annotated[
        bool,
        declare_option(
            "--send-keys",
            help="With --no-empties: include the key fields in every delta, as is done without it.",
            option_text="send_keys",
        ),
    ] = False
    conflation: Annotated[
        str | None,
        declare_option(
            "--conflation",
            help="Print at most one message per key and interval, for example 2s or auto.",
            metavar="TIME",
            option_text="conflation",
        ),
    ] = None
    conflation_key: Annotated[
        str | None,
        declare_option(
            "--conflation-key",
            help="Fields that identify a message. Default: the SOW key.",
            metavar="LIST",
            option_text="conflation_key",
        ),
    ] = None
    projection: Projection = None
    grouping: Grouping = None
    bookmark: Annotated[
        str | None,
        declare_option(
            "--bookmark",
            "--since",
            help="Start after this position: 0, 0|1|, recent, a bookmark, a list, a txid, a time, or a range.",
            metavar="WHERE",
            panel=POSITION_PANEL,
        ),
    ] = None
    bookmark_not_found: Annotated[
        str | None,
        declare_option(
            "--bookmark-not-found",
            help="What to do if the start position is not in the journal.",
            choices=("fail", "epoch", "now"),
            panel=POSITION_PANEL,
            option_text="bookmark_not_found",
        ),
    ] = None
    rate: Annotated[
        str | None,
        declare_option(
            "--rate",
            help="Replay 1000 messages or 500KB per second, or at 2X the recorded speed.",
            metavar="RATE",
            panel=POSITION_PANEL,
            option_text="rate",
        ),
    ] = None
    rate_max_gap: Annotated[
        float | None,
        declare_option(
            "--rate-max-gap",
            help="Longest pause between two replayed messages.",
            metavar="TIME",
            unit="seconds",
            panel=POSITION_PANEL,
            option_text="rate_max_gap",
        ),
    ] = None
    events: bool = True


class DeleteOptions(Struct, frozen=True):
    """Options of a delete: exactly one of a filter, keys (SOW keys or values of key fields), or messages with keys."""

    filter: Filter = None
    sow_keys: SowKeys = None
    data: tuple[bytes, ...] | None = None
    dry_run: DryRun = False
    client: str | None = None
    keys: Keys = None


class ReplayOptions(Struct, frozen=True):
    """Options of a rebuild. It stops at ``until_txid`` or ``until_time`` (microseconds UTC)."""

    until_txid: int | None = None
    until_time: int | None = None
    into: Annotated[
        str | None, declare_option("--into", help="Write new stores to DIR.", metavar="DIR", complete="directory")
    ] = None
    journal: Annotated[
        str | None,
        declare_option(
            "--journal",
            help="Journal directory, or the URL of an archive. Default: the configured one.",
            metavar="DIR",
        ),
    ] = None
    verify: Annotated[bool, declare_option("--verify", help="Compare the stores with the journals; write nothing.")] = (
        False
    )
    rebuild: Annotated[
        bool,
        declare_option("--rebuild", help="Rebuild from the beginning of the journal even if the store could catch up."),
    ] = False
    force: Annotated[
        bool,
        declare_option("--force", help="Replace a store even if it has records that the journals no longer contain."),
    ] = False
    dry_run: DryRun = False
    rekey: Annotated[
        bool, declare_option("--rekey", help="After a change of Key: give the records the keys of the new definition.")
    ] = False


class DiffOptions(Struct, frozen=True):
    """Options of a comparison.

    A record is compared if it matches ``filter`` on either side. ``loose``: records are equal if their fields are, and
    numbers if their values are. ``records``: report only which records differ, not in which fields, unless fields
    determine it.
    """

    filter: Filter = None
    keys: Annotated[
        tuple[str, ...] | None,
        declare_option("--key", help="Compare only the record with this key. May be repeated.", metavar="KEY"),
    ] = None
    fields: Annotated[
        tuple[str, ...],
        declare_option(
            "--only", help="Compare only these fields, for example /qty,/price.", metavar="PATHS", unit="paths"
        ),
    ] = ()
    ignored: Annotated[
        tuple[str, ...],
        declare_option("--ignore", help="Ignore these fields, for example /time.", metavar="PATHS", unit="paths"),
    ] = ()
    on: Annotated[
        tuple[str, ...],
        declare_option(
            "--on", help="Match records by these fields instead of their SOW keys.", metavar="PATHS", unit="paths"
        ),
    ] = ()
    loose: Annotated[
        bool,
        declare_option("--loose", help="Ignore differences in notation: white space, order of members, 1 and 1.0."),
    ] = False
    stamps: Annotated[
        bool,
        declare_option(
            "--meta", help="Also compare timestamps, expirations, txids, correlation IDs and publisher keys."
        ),
    ] = False
    records: bool = False
