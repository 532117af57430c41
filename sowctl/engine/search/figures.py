"""The figures that decide how a query reads, in one table, each with what was measured.

``python -m tests.bench.run figures`` measures both ways of each: 300,000 JSON records of about 220 bytes, files in the
page cache, a busy machine with two processors, CPU time, the least of three rounds or more. Only the relation of two
figures in one line means something. Where a figure is not the size at which the ways cross, its line says why. Plans
(:mod:`sowctl.engine.search.plan`) and what executes them read the fields of :data:`QUERY_LIMITS`; tests set them. No
field depends on what a process has loaded or done before.

Rooms below the engine cannot ask here, and keep the figures of their own work beside it: ``plain_read_bytes`` in
``store/limits.py`` (plain reads or a map), ``MAX_CHANGED_DIVISOR`` and ``MIN_LISTED_KEYS`` in
``store/changes.py`` (how many changed keys are listed), ``MAX_DISTINCT_VALUES`` in ``memo/builder.py`` (what is not
indexed).
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from sowctl.engine import options


class QueryLimits(Struct):
    """The figures, each with what was measured."""

    # Which way is taken.

    index_min_records: int = options.INDEX_MIN_RECORDS
    """Records of a store from which on memo indexes are used and built; the default of an option. A process that asks
    once: 8,000 records 377 ms by indexes, 365 by a scan; 32,000 350 and 361; 300,000 355 and 573. The first also builds
    them: 589 at 32,000."""
    index_min_requests: int = 2
    """How many times a field is asked for before an index of it is built, unless the configuration names it. Of
    1,056,000 records a question by two fields took 1.2 s by a scan, 2.9 s where it built the indexes, then 0.02:
    building pays with the third question, and who asks twice goes on asking."""
    index_max_share: float = 0.3
    """Where an index leaves more than this share of the records, all of them are read in order. 30 % took 180 ms by
    index and 357 by a scan, 80 % 407 and 745: they do not cross. It stands on the safe side, since an index reads from
    places all over the file, which costs more where that is not in the page cache."""
    top_k_max_records: int = 10_000
    """So many first records of an order are looked for by an index of it; for more, all that match are sorted. 10,000
    took 164 ms by index and 1,292 sorted, 100,000 2,147 and 6,123: they do not cross. It bounds memory: the records
    found by an index are held, sorting keeps to ``sort_memory``."""
    key_lookup_max_keys: int = 10_000
    """So many combinations of texts of the key fields are looked up; where a filter names more, they are no bound. Keys
    that are not there, the slowest: of 32,000 records 100 took 1.9 ms looked up and 57 by a scan, 1,000 12 and 62,
    10,000 205 and 276; of 300,000 1,000 took 17 and 372, 10,000 259 and 506. They do not cross; it bounds memory, since
    combinations multiply."""
    parallel_min_records: int = 150_000
    """Records of a store from which on a second process filters half of them. On the clock, 32,000: 158 ms alone, 220
    by two; 150,000: 830 and 764; 300,000: 2,668 and 1,853."""
    default_processes: int = 2
    """Processes that read a large store unless the options say how many. Not measured: others use the machine, too."""
    max_processes: int = 64
    """Processes that read a large store, at most: each keeps the results of its part in a file. A bound, not measured.
    """

    # How indexes are used.

    array_min_rows: int = 600_000
    """Row numbers from which on arrays of numpy are worth loading it; below, lists of Python. A process that counts by
    three conditions: 150,000 525 ms by lists, 663 by arrays; 299,000 625 and 611. It stands above, on the side of
    memory and of fewer conditions."""
    lasting_array_min_rows: int = 256
    """The same in a program that asks again and again, which has loaded numpy soon. 300: 2.2 ms each; 1,000: 2.7 by
    lists and 2.1 by arrays; 299,000: 121 and 17. The number is that of :attr:`index_batch_min_rows`."""
    top_k_min_records: int = 300_000
    lasting_top_k_min_records: int = 1_000
    """Records from which on a scan finds the first of an order by columns, in a process that asks once and in one that
    asks again and again. Ten by price, processor time row by row and by columns: a process of 100,000 0.15 and 0.20 s;
    of 300,000 0.31 and 0.32; of 450,000 0.40 and 0.34. Asked again, 500 1.2 and 1.6 ms; 1,000 1.8 and 1.8; 10,000 8.7
    and 5.3. On the clock, two processes row by row and one by columns: 432,000 0.47 and 0.37 s, 1,000,000 0.43 and
    0.56."""
    top_k_max_left_divisor: int = 8
    """If more than one record in N of a block is left, the filter is given up: each is looked up by its key, which
    takes about as long as scanning three of them."""
    group_cost_factor: int = 8
    """Cost of a group, in row numbers: numpy is worth loading from this many times fewer rows on. A process
    that groups 16,000 rows took 485 ms row by row and 589 by columns, 32,000 654 and 672: they cross above that, and
    the figure has the columns begin at 75,000 (:attr:`array_min_rows` divided by it), where nothing was measured."""
    index_max_changed_divisor: int = 16
    """Indexes are rebuilt if more than one record in N has changed since they were built. With 8,000 of
    150,000 changed (a nineteenth) a question takes 64 ms, then 7, and building 671: it pays after 12 questions."""
    index_tolerated_changes: int = 4096
    """Changed records that never cause a rebuild of indexes. 4,000 of 150,000: a question takes 26 ms, then 8, and
    building 735: after 40 questions."""
    index_renewal_load_divisor: int = 2
    """A load that changed one in N of a store's records, and more than :attr:`index_tolerated_changes`, updates the
    existing indexes itself, after its report. Updates of 1,000,000 records took 14.4 s of
    processor time, and 16.2 with indexes of two fields brought up to date; memory did not grow. Then the first query
    took 0.3 s instead of 1.3 by a scan, and the second 0.3 instead of 2.6 with building. So a load of half the records
    pays about a quarter of its own time, and one of fewer would pay more."""
    index_batch_min_rows: int = 256
    """Row numbers from which on their keys and offsets are taken out of an index together. 16: 0.05 ms one by one, 0.09
    together; 64: 0.16 and 0.12; 256: 0.65 and 0.34. Above where they cross: what is at stake is 0.3 ms."""

    # How a scan filters.

    prefilter_min_records: int = 4_000
    """Records from which on looking for what a filter needs spares more time than loading what looks. A process: 2,000
    397 ms decoding all, 414 looking; 4,000 453 and 446; 8,000 423 and 417."""
    prefilter_max_share: float = 0.75
    """Looking for something is given up where more of the records than this share have it. 70 %: 775 ms looking, 880
    decoding all; 80 %: 764 and 780; 90 %: 822 and 759."""
    prefilter_rejoin_max_share: float = 0.5
    """Where less than this share of the records can still match, these are joined again and searched alone. 20 %: 286
    ms so, 291 searching all; 60 %: 373 and 409; 70 %: 370 and 358."""
    prefilter_trial_records: int = 1000
    """Records after which :attr:`prefilter_max_share` is judged. A round number, not measured: one share in a thousand
    records is off by hardly more than three in a hundred."""
    prefilter_trial_blocks: int = 16
    """Blocks of a journal that are searched as a whole before :attr:`prefilter_max_share` is asked of them: how many
    can be passed over unread. Of a million messages of 220 bytes searching all blocks took 0.04 s, cutting out the
    messages and searching these 0.4. A round number, not measured."""
    prefilter_max_alternatives: int = 6
    """Alternatives that are looked for at most. 6: 242 ms looking, 595 decoding all; 16: 233 and 594: words with one
    beginning do not cross. Others may share none; it stands on the safe side."""
    prefilter_max_text_bytes: int = 1000
    """Bytes of a text that is looked for, at most: six of them, each byte in four characters, are below the 64 KiB that
    the pattern engine takes for a pattern."""

    # Batches: sized so that the values made of their records stay in the processor's caches.

    read_batch_records: int = 400
    """Records that a scan reads and searches at a time. 100: 1,056 ms; 400: 822; 800: 855; 3,200: 1,162."""
    decode_batch_records: int = 400
    """Records decoded at a time, where only some of those read may match. Measured together with
    :attr:`read_batch_records`."""
    indexed_read_batch_records: int = 800
    """Records read at a time where indexes alone say which ones match. 100: 189 ms; 400: 116; 800: 115; 3,200: 123."""
    lookup_batch_records: int = 4096
    """Changed records looked up at a time. A query of 432,000 records after 4,000 changed, by arrays: 400: 32 ms;
    1,000: 27; 4,096: 24; 16,384: 23; key by key 56, whatever the size."""
    index_build_batch_records: int = 1000
    """Records read at a time to build indexes. Of 32,000: 100: 74 ms; 300: 78; 1,000: 92; 3,000: 89: the size hardly
    matters, other programs' load does more."""
    group_batch_rows: int = 10_000
    """Rows of indexes that are grouped at a time where that is done row by row. Of 32,000: 100: 107 ms; 300: 103;
    1,000: 116; 3,000: 131. A bound of memory."""
    group_batch_records: int = 16_384
    """Records of a scan that are grouped together by columns. sum(qty * price) of 1,000,000, decoded: 2,048: 2.9 s of
    processor time; 8,192: 2.5; 16,384: 2.6; 65,536: 2.3. A bound of memory: the messages are held."""
    group_batch_bytes: int = 8 << 20
    """Bytes of messages from which on those that a scan has read are grouped, however few they are. A bound of memory.
    """
    group_batch_column_rows: int = 1 << 18
    """Rows of indexes that are grouped together by columns. A bound of memory, for many groups."""
    group_state_bytes: int = 1000
    group_input_bytes: int = 40
    group_stamp_bytes: int = 120
    """What Python takes for a group, for one input of an aggregate, and for its stamp where the order counts. 1,000,000
    groups of two aggregates took 1,086 MB."""
    max_spill_files: int = 64
    """Files that messages of too many groups go to, at most: open files of a process are limited."""
    write_batch_groups: int = 1000
    """Groups that are made messages at a time. Of 32,000: 100: 612 ms; 300: 608; 1,000: 593; 3,000: 700."""
    spill_batch_items: int = 2000
    """Items of a sorted run that are read back at a time, from each of the runs. 32,000 by runs of 1 MiB: 100: 283 ms;
    300: 326; 1,000: 294; 3,000: 338. A bound of memory."""

    # How a field that no record has is noticed.

    unknown_field_first_records: int = 256
    """Records of the first batch; the fields that they have are what a wrong name may have meant."""
    unknown_field_max_records: int = 10_000
    """Records that are looked at for a field that the first ones do not have. A query that filters all of 1,000,000
    takes 0.82 s, and this 15 ms; where the first ones have the field, it is 0.2 ms."""
    unknown_field_max_decoded_records: int = 2_000
    """The same where messages have to be decoded for it."""


QUERY_LIMITS = QueryLimits()


def needs_reindex(loaded: Iterable[tuple[str, str, int]]) -> bool:
    """Return whether a load (topic, type, count) calls for ``reindex_loaded``: smaller stores have no indexes."""
    return max((count for _, _, count in loaded), default=0) >= QUERY_LIMITS.index_min_records
