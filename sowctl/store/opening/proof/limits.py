"""The limits of proofs of pages and of their caches. The figures, each with its measurement, are in :class:`Limits`.

An open file (:class:`~sowctl.store.opening.proof.tree.PageFile`) keeps the limits with which it was opened.
"""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """The limits of one open file."""

    kept_branches: int = 4096
    """Branch pages cached from one transaction to the next, with their bytes: 16 MiB of 4 KiB pages."""
    kept_leaves: int = 1 << 17
    """Leaves of a sub-database that are recorded as proven, some 250 bytes each."""
    column_leaves: int = 2048
    """Leaves proven one by one, which takes 20 ms, before the proof in columns is imported, which takes longer."""
    walked_leaves: int = 32_768
    """The same for leaves that are read sequentially: one takes 6.6 us, with ten entries of 260 bytes, and 4.3 in
    columns, while the import takes 90 ms."""
    least_column_leaves: int = 32
    """Fewer leaves are proven one by one in any case."""
    batch_leaves: int = 128
    """Leaves proven together: 1.9 us each; of 2000, which do not fit into the processor's cache, 2.7."""


LIMITS = Limits()

__all__ = ["LIMITS", "Limits"]
