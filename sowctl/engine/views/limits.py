"""Figures of views: what keeping rows and catching up cost, and what is held at a time.

Each has its reason or what was measured; tests set other ones. The costs are asked by :mod:`sowctl.engine.views.costs`.
"""

from __future__ import annotations

from msgspec import Struct


class ViewLimits(Struct):
    """The figures."""

    # Costs of a cache.

    keep_rows_max_records: int = 20_000
    """Records of the sources up to which rows are kept at once: writing them takes less than a second."""
    keep_rows_cost_factor: int = 20
    """Cost of computing everything and keeping rows, relative to computing the messages alone.

    500,000 orders by region: 5.0 against 0.26 s; joined with 5,000 customers: 11.2 against 0.52; 50,000 with 500: 0.93
    against 0.05.
    """
    catch_up_cost_factor: int = 150
    """Cost of catching up with one changed record, relative to computing one record.

    Of the same joins, 1,000 changed: 245 against 1.0 microseconds, 112 against 1.0; by region 39 against 0.5.
    """
    always_catch_up_changes: int = 1_000
    """Changes up to which a view that keeps rows always catches up: a quarter of a second."""
    min_measured_changes: int = 100
    """Changes from which on what catching up with them has cost tells the cost of one: that of fewer is mostly that of
    the transaction. One took 4.6 ms, 100 took 31."""
    max_catch_up_changes: int = 500_000
    """Changed records that are held in memory at once, and no more."""

    # Computing messages.

    read_batch_records: int = 1000
    """Records of a source that are read at a time."""
    min_column_records: int = 20_000
    """Records of the first source from which on rows are grouped as columns, which loads numpy."""
    max_joined_rows: int = 1 << 19
    """Joined rows that are made at once, where they are not all of one record. 40,000 records that meet 200 each, all
    of them at once: 613 MB of RssAnon and 1.9 s of processor time; so cut 128 MB and 0.6 s."""
    group_state_bytes: int = 1000
    group_input_bytes: int = 40
    group_stamp_bytes: int = 120
    """What Python takes for a group, for one input of an aggregate, and for the stamp of a row where order counts."""
    max_sort_bytes: int = 64 << 20
    """Bytes of rows that are sorted without files."""


VIEW_LIMITS = ViewLimits()
