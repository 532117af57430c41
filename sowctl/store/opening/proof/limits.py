"""The limits of what is proven at once, and kept. The figures, each with what was measured, stand together in
:class:`Limits`.

An open file (:class:`~sowctl.store.opening.proof.tree.PageFile`) has the ones that it was opened with.
"""

from __future__ import annotations

from msgspec import Struct


class Limits(Struct, frozen=True):
    """The figures."""

    kept_branches: int = 4096
    """Branch pages that are kept from one transaction to the next, with their bytes: 16 MiB of 4 KiB pages."""
    kept_leaves: int = 1 << 17
    """Leaves of a sub-database that are known to be proven, some 250 bytes each."""
    column_leaves: int = 2048
    """Leaves that are proven one by one, which takes 20 ms, before the proof in columns is loaded, which takes longer.
    """
    walked_leaves: int = 32_768
    """The same of leaves that are read one behind the other: one takes 6.6 us, with ten entries of 260 bytes, and 4.3
    in columns, while loading them takes 90 ms."""
    least_column_leaves: int = 32
    """Fewer are proven one by one in any case."""
    batch_leaves: int = 128
    """Leaves that are proven together: 1.9 us each; of 2000, which do not fit in the cache of the processor, 2.7."""


LIMITS = Limits()

__all__ = ["LIMITS", "Limits"]
