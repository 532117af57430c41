"""Numbers and bytes of stores and journals as Arrow arrays, without a Python step per value.

Used by the readers. Types are those of :mod:`sowctl.spark.schema`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sowctl.values.times import MAX_MICROS

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Numbers = numpy.ndarray[Any, Any]


MAX_POOLED_BYTES = 16 << 20
"""Size of the largest block of memory that a reading process keeps for the next batch."""


def keep_memory() -> None:
    """Let this process reuse the memory of one batch for the next, instead of releasing it and having it cleared again.

    The allocator of glibc immediately releases blocks larger than the largest one that was ever freed, and free memory
    at its end beyond twice that. So a block of this size is freed once; none of its pages is ever touched. Other
    allocators are unaffected.
    """
    import numpy as np

    np.empty(MAX_POOLED_BYTES, "u1")


def build_decimals(keys: Numbers) -> pyarrow.Array:
    """DECIMAL(20,0) of unsigned 64-bit numbers."""
    import numpy as np
    import pyarrow as pa

    # Arrow stores a decimal of 128 bits as two halves, the lower one first; for an unsigned number the upper one is
    # zero.
    halves = np.zeros((len(keys), 2), "<u8")
    halves[:, 0] = keys
    return pa.Array.from_buffers(pa.decimal128(20, 0), len(keys), [None, pa.py_buffer(halves)])


def build_nullable_decimals(keys: Numbers, present: Numbers) -> pyarrow.Array:
    """DECIMAL(20,0), NULL where not ``present``."""
    return _mask_array(build_decimals(keys), present)


def build_longs(numbers: Numbers) -> pyarrow.Array:
    """BIGINT of 64-bit numbers."""
    import numpy as np
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers, "<i8"))])


def build_nullable_longs(numbers: Numbers, present: Numbers) -> pyarrow.Array:
    """BIGINT, NULL where not ``present``."""
    return _mask_array(build_longs(numbers), present)


def build_timestamps(micros: Numbers) -> pyarrow.Array:
    """TIMESTAMP of microseconds UTC; a time beyond the year 9999, which cannot be shown, becomes the last one
    before."""
    import pyarrow as pa

    if len(micros) and micros.max() > MAX_MICROS:
        micros = micros.clip(max=MAX_MICROS)
    return build_longs(micros).view(pa.timestamp("us", tz="UTC"))


def build_expirations(micros: Numbers) -> pyarrow.Array:
    """TIMESTAMP of microseconds UTC at which records expire, NULL for never
    (:func:`sowctl.values.times.format_expiry`).
    """
    return _mask_array(build_timestamps(micros), (micros != 0) & (micros <= MAX_MICROS))


def _mask_array(array: pyarrow.Array, present: Numbers) -> pyarrow.Array:
    import pyarrow as pa

    if present.all():
        return array
    # The values under a NULL may be anything, so the buffer of all values is used unchanged.
    return pa.Array.from_buffers(array.type, len(array), [build_bitmap(present), array.buffers()[1]])


def build_bitmap(present: Numbers) -> pyarrow.Buffer:
    """The bitmap of an array."""
    import numpy as np
    import pyarrow as pa

    # Arrow's bitmaps begin with the lowest bit of each byte.
    return pa.py_buffer(np.packbits(present, bitorder="little"))


def build_constant(text: str, count: int) -> pyarrow.Array:
    """STRING, the same in all rows."""
    import pyarrow as pa

    return pa.repeat(pa.scalar(text, pa.string()), count)


def take_texts(texts: Sequence[str], places: Numbers, none: int | None = None) -> pyarrow.Array:
    """STRING, the text at each index; NULL where the index is ``none``."""
    import pyarrow as pa

    if len(texts) == 1 and (none is None or not (places == none).any()):
        return build_constant(texts[0], len(places))
    indexes = pa.array(places) if none is None else pa.array(places, mask=places == none)
    return pa.array(texts, pa.string()).take(indexes)


def build_texts(raw: Sequence[bytes | None] | None, count: int) -> pyarrow.Array:
    """STRING of texts sent by clients; NULL if absent, invalid UTF-8 is replaced."""
    import pyarrow as pa

    if raw is None:
        return pa.nulls(count, pa.string())
    return pa.array([None if one is None else one.decode("utf-8", "replace") for one in raw], pa.string())


def build_binaries(parts: Sequence[memoryview], lengths: Numbers, present: Numbers | None = None) -> pyarrow.Array:
    """BINARY of values that are contiguous in ``parts``; NULL where not ``present``."""
    import numpy as np
    import pyarrow as pa

    # The cumulative lengths are Arrow's offsets, and if the parts are contiguous, their bytes are its data.
    offsets = np.zeros(len(lengths) + 1, "<i4")
    np.cumsum(lengths, out=offsets[1:])
    bitmap = None if present is None or present.all() else build_bitmap(present)
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)])


def merge_batches(batches: Sequence[pyarrow.RecordBatch]) -> pyarrow.RecordBatch:
    """Combine small batches into one."""
    import pyarrow as pa

    if len(batches) == 1:
        return batches[0]
    # Spark has a fixed cost per batch, however small, so small ones are copied into one.
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
