"""The thresholds that decide how a query reads, in one table, each with its measurement.

``python -m tests.bench.run figures`` measures both ways of each: 300,000 JSON records of about 220 bytes, files in the
page cache, a busy machine with two processors, CPU time, the minimum of three rounds or more. Only the ratio of two
figures on one line is meaningful. If a threshold differs from the size at which the two ways cross, its docstring
gives the reason. Plans (:mod:`sowctl.engine.search.plan`) and their executors read the fields of
:data:`QUERY_LIMITS`; tests set them. No field depends on what a process loaded or did before.

Packages below the engine cannot import this module and define their own thresholds: ``plain_read_bytes`` in
``store/limits.py`` (plain reads or a map), ``MAX_CHANGED_DIVISOR`` and ``MIN_LISTED_KEYS`` in ``store/changes.py`` (how
many changed keys are listed), ``MAX_DISTINCT_VALUES`` in ``memo/builder.py`` (fields that are not indexed).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sowctl.engine import options


class QueryLimits(Struct):
    """The thresholds, each with its measurement."""

    # Choice of the access path.

    index_min_records: int = options.INDEX_MIN_RECORDS
    """Minimum number of records in a store for memo indexes to be used and built; the default of an option. A process
    with a single query: 8,000 records 377 ms by indexes, 365 by a scan; 32,000 350 and 361; 300,000 355 and 573. The
    first query also builds the indexes: 589 at 32,000."""
    index_min_requests: int = 2
    """Number of queries that use a field before its index is built, unless the configuration names the field. With
    1,056,000 records a query on two fields took 1.2 s by a scan, 2.9 s when it built the indexes, and 0.02 s after
    that. Building pays from the third query on, and a field queried twice is likely to be queried again."""
    index_max_share: float = 0.3
    """Maximum share of the records that an index may leave; above it all records are read in order. 30 % took 180 ms by
    index and 357 by a scan, 80 % 407 and 745: they do not cross. The limit is conservative, since an index reads from
    random offsets, which costs more if the file is not in the page cache."""
    top_k_max_records: int = 10_000
    """Maximum number of first records that are found by an index of the order; for more, all matching records are
    sorted. 10,000 took 164 ms by index and 1,292 sorted, 100,000 2,147 and 6,123: they do not cross. The limit bounds
    memory: records found by an index are held in memory, whereas sorting stays within ``sort_memory``."""
    key_lookup_max_keys: int = 10_000
    """Maximum number of combinations of key field texts that are looked up; a filter that names more is scanned or
    answered by indexes. Missing keys, the slowest case: of 32,000 records 100 took 1.9 ms looked up and 57 by a scan,
    1,000 12 and 62, 10,000 205 and 276; of 300,000 1,000 took 17 and 372, 10,000 259 and 506. They do not cross; the
    limit bounds memory, since combinations multiply."""
    parallel_min_records: int = 150_000
    """Minimum number of records in a store for a second process to filter half of them. Elapsed time, 32,000: 158 ms by
    one process, 220 by two; 150,000: 830 and 764; 300,000: 2,668 and 1,853."""
    default_processes: int = 2
    """Default number of processes that read a large store. Not measured: other programs use the machine, too."""
    max_processes: int = 64
    """Maximum number of processes that read a large store; each writes its results to a file. Not measured."""

    # How indexes are used.

    array_min_rows: int = 600_000
    """Minimum number of row numbers for loading numpy to pay; fewer are kept in Python lists. A process that counts by
    three conditions: 150,000 525 ms by lists, 663 by arrays; 299,000 625 and 611. The threshold is above the crossing,
    in favor of memory and of queries with fewer conditions."""
    lasting_array_min_rows: int = 256
    """The same in a long-running program, where numpy is soon loaded. 300: 2.2 ms each; 1,000: 2.7 by lists and 2.1 by
    arrays; 299,000: 121 and 17. Equal to :attr:`index_batch_min_rows`."""
    top_k_min_records: int = 300_000
    lasting_top_k_min_records: int = 1_000
    """Minimum number of records for a scan to find the first of an order by columns, in a process with a single query
    and in a long-running one. First ten by price, processor time row by row and by columns: a process over 100,000 0.15
    and 0.20 s; over 300,000 0.31 and 0.32; over 450,000 0.40 and 0.34. Repeated queries, 500 1.2 and 1.6 ms; 1,000 1.8
    and 1.8; 10,000 8.7 and 5.3. Elapsed time, two processes row by row and one by columns: 432,000 0.47 and 0.37 s,
    1,000,000 0.43 and 0.56."""
    top_k_max_left_divisor: int = 8
    """If more than one record in N of a block remains, the filter is abandoned: each remaining record is looked up by
    key, which takes about as long as scanning three records."""
    group_cost_factor: int = 8
    """Cost of grouping a row relative to a row number: numpy is worth loading for this many times fewer rows. A process
    that groups 16,000 rows took 485 ms row by row and 589 by columns, 32,000 654 and 672. They cross above that.
    Columns are used from 75,000 on (:attr:`array_min_rows` divided by this factor), which was not measured."""
    index_max_changed_divisor: int = 16
    """Indexes are rebuilt if more than one record in N has changed since they were built. With 8,000 of 150,000 changed
    (a nineteenth) a query takes 64 ms, 7 after a rebuild of 671: rebuilding pays after 12 queries."""
    index_tolerated_changes: int = 4096
    """Number of changed records that never causes a rebuild of indexes. 4,000 of 150,000: a query takes 26 ms, 8 after
    a rebuild of 735, which pays after 40 queries."""
    index_renewal_load_divisor: int = 2
    """A load that changed one in N of a store's records, and more than :attr:`index_tolerated_changes`, updates the
    existing indexes itself, after its report. Updates of 1,000,000 records took 14.4 s of processor time, and 16.2
    including the update of indexes of two fields; memory did not grow. The first query then took 0.3 s instead of 1.3
    by a scan, the second 0.3 instead of 2.6 with building. So for a load of half the records the update costs about a
    quarter of the load's time, and for smaller loads more."""
    index_batch_min_rows: int = 256
    """Minimum number of row numbers whose keys and offsets are read from an index in one batch. 16: 0.05 ms one by one,
    0.09 in a batch; 64: 0.16 and 0.12; 256: 0.65 and 0.34. Above the crossing, because the difference is only 0.3 ms.
    """

    # Filtering in a scan.

    prefilter_min_records: int = 4_000
    """Minimum number of records for the literal prefilter to save more time than loading its search engine takes. A
    process: 2,000 397 ms decoding all, 414 searching; 4,000 453 and 446; 8,000 423 and 417."""
    prefilter_max_share: float = 0.75
    """The search for a literal is abandoned if more than this share of the records contain it. 70 %: 775 ms searching,
    880 decoding all; 80 %: 764 and 780; 90 %: 822 and 759."""
    prefilter_rejoin_max_share: float = 0.5
    """If less than this share of the records can still match, only these are joined again and searched. 20 %: 286 ms
    rejoined, 291 searching all; 60 %: 373 and 409; 70 %: 370 and 358."""
    prefilter_trial_records: int = 1000
    """Number of records after which :attr:`prefilter_max_share` is applied. A round number, not measured: a share
    estimated from a thousand records is rarely off by more than three percentage points."""
    prefilter_trial_blocks: int = 16
    """Number of journal blocks searched as a whole before :attr:`prefilter_max_share` is applied to the share of blocks
    that cannot be skipped. With a million messages of 220 bytes, searching all blocks took 0.04 s, cutting out the
    messages and searching these 0.4. A round number, not measured."""
    prefilter_max_alternatives: int = 6
    """Maximum number of alternatives searched for. 6: 242 ms searching, 595 decoding all; 16: 233 and 594: with words
    of a common prefix they do not cross. Other words may share no prefix; the limit is conservative."""
    prefilter_max_text_bytes: int = 1000
    """Maximum length of a text searched for. Six of them, each byte spelled in four characters, are below the 64 KiB
    that the pattern engine accepts for a pattern."""

    # Batches: sized so that the values decoded from their records stay in the processor's caches.

    read_batch_records: int = 400
    """Records that a scan reads and searches at a time. 100: 1,056 ms; 400: 822; 800: 855; 3,200: 1,162."""
    decode_batch_records: int = 400
    """Records decoded at a time if only some of those read may match. Measured together with
    :attr:`read_batch_records`."""
    indexed_read_batch_records: int = 800
    """Records read at a time if indexes alone decide which ones match. 100: 189 ms; 400: 116; 800: 115; 3,200: 123."""
    lookup_batch_records: int = 4096
    """Changed records looked up at a time. A query of 432,000 records after 4,000 changed, by arrays: 400: 32 ms;
    1,000: 27; 4,096: 24; 16,384: 23; key by key 56, whatever the size."""
    index_build_batch_records: int = 1000
    """Records read at a time to build indexes. Of 32,000: 100: 74 ms; 300: 78; 1,000: 92; 3,000: 89: the size matters
    less than the load of other programs."""
    group_batch_rows: int = 10_000
    """Rows of indexes grouped at a time when grouping row by row. Of 32,000: 100: 107 ms; 300: 103; 1,000: 116; 3,000:
    131. A memory bound."""
    group_batch_records: int = 16_384
    """Records of a scan grouped at a time by columns. sum(qty * price) of 1,000,000, decoded: 2,048: 2.9 s of processor
    time; 8,192: 2.5; 16,384: 2.6; 65,536: 2.3. A memory bound: the messages are held."""
    group_batch_bytes: int = 8 << 20
    """Size of the buffered messages of a scan at which they are grouped, regardless of their number. A memory bound."""
    group_batch_column_rows: int = 1 << 18
    """Rows of indexes grouped at a time by columns. A memory bound, for many groups."""
    group_state_bytes: int = 1000
    group_input_bytes: int = 40
    group_stamp_bytes: int = 120
    """Memory that Python uses for a group, for an input of an aggregate, and for its stamp if the order matters.
    1,000,000 groups of two aggregates used 1,086 MB."""
    max_spill_files: int = 64
    """Maximum number of files that messages of groups spill to: the open files of a process are limited."""
    write_batch_groups: int = 1000
    """Groups converted to messages at a time. Of 32,000: 100: 612 ms; 300: 608; 1,000: 593; 3,000: 700."""
    spill_batch_items: int = 2000
    """Items read back at a time from each sorted run. 32,000 in runs of 1 MiB: 100: 283 ms; 300: 326; 1,000: 294;
    3,000: 338. A memory bound."""

    # Detection of fields that no record has.

    unknown_field_first_records: int = 256
    """Records of the first batch; suggestions for a wrong name are chosen from their fields."""
    unknown_field_max_records: int = 10_000
    """Maximum number of records searched for a field that the first ones do not have. A query that filters all of
    1,000,000 takes 0.82 s, and this search 15 ms; 0.2 ms if the first records have the field."""
    unknown_field_max_decoded_records: int = 2_000
    """The same if the messages must be decoded."""


QUERY_LIMITS = QueryLimits()


def needs_reindex(loaded: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether a load (topic, type, count) requires ``reindex_loaded``: smaller stores have no indexes."""
    return max((count for _, _, count in loaded), default=0) >= QUERY_LIMITS.index_min_records
