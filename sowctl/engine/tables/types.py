"""The types of a topic's columns, cached between statements (``sow-memo(5)``, kind 6).

The type of a column can represent all values of its field. If it is known, records that do not match a filter need not
be decoded; otherwise all have to be, or a column would be narrower with a filter than without one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from sowctl.arrow.inference import Inference
from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.engine.search.index_lookup import compute_max_changed, format_reading_prefix
from sowctl.memo.directory import MemoDirectory
from sowctl.messages.base import find_columns_view
from sowctl.store.codec import extract_payloads
from sowctl.store.limits import STORE_LIMITS
from sowctl.structs import DescribedStruct

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow

    from sowctl.engine.instance import Instance
    from sowctl.engine.sources.source import Source, StoredSource

_decode = msgspec.json.Decoder().decode
SAMPLE_RECORDS = 2000
"""Number of first records that must have the cached types, if other records have changed."""


class FieldTypes(DescribedStruct, frozen=True):
    """``fields`` are the types that keep every digit; decimals with a fraction are shown as doubles, except ``large``
    ones. ``names``: the members that were examined, in lower case, None for all.

    ``single``: fields whose values are scalars of one kind; ``blank``: fields with an empty text; both refer to the
    state that was read; ``exact``: it is the current one.
    """

    fields: pyarrow.StructType
    large: frozenset[str]
    names: frozenset[str] | None
    single: frozenset[str]
    blank: frozenset[str]
    exact: bool = True

    def select_members(self, wanted: Collection[str] | None) -> FieldTypes | None:
        """Return the part for these members; None if not all of them were examined."""
        import pyarrow as pa

        if wanted is None:
            return self if self.names is None else None
        if self.names is not None and not self.names.issuperset(wanted):
            return None
        kept = pa.struct([field for field in self.fields if field.name.lower() in wanted])
        return replace(self, fields=kept, names=frozenset(wanted))


class _PackedTypes(Struct):
    names: list[str] | None
    schema: bytes
    large: list[str]
    single: list[str]
    blank: list[str]


def find_known_types(instance: Instance, source: Source, wanted: Collection[str] | None) -> FieldTypes | None:
    """Return the types that reading all records would find now; None if only reading them can tell."""
    stored = _find_lasting_store(source)
    if stored is None:
        return None
    kept = _read_kept(instance, stored)
    if kept is None:
        return None
    state, found = kept
    types = found.select_members(wanted)
    changed = stored.snapshot.find_changed_keys(state)
    if types is None or changed is None:
        return None
    if stored.memtable is not None:
        if len(stored.memtable) > compute_max_changed(stored):
            return None
        changed = changed.union(*stored.memtable.iterate_parts(QUERY_LIMITS.index_build_batch_records))
    if not changed:
        return types
    if len(changed) > compute_max_changed(stored) or not _is_shown(instance, stored, types, changed):
        return None
    return replace(types, exact=False)


def keep_types(instance: Instance, source: Source, types: FieldTypes) -> None:
    """Cache the types found by reading all records, if these are all in the store itself."""
    import pyarrow as pa

    from sowctl.memo.builder import build_type_parts

    stored = _find_lasting_store(source)
    if stored is None or stored.memtable:
        return
    state = stored.meta.state_number
    before = _read_kept(instance, stored)
    if before is not None and before[0] == state and types.names is not None:
        if before[1].names is None:
            return
        # Both are of the same state, so a field in both has one type.
        fields = {field.name: field for field in (*before[1].fields, *types.fields)}
        names = types.names | before[1].names
        types = FieldTypes(
            pa.struct(list(fields.values())),
            types.large | before[1].large,
            names,
            types.single | before[1].single,
            types.blank | before[1].blank,
        )
    packed = _PackedTypes(
        None if types.names is None else sorted(types.names),
        pa.schema(list(types.fields)).serialize().to_pybytes(),
        sorted(types.large),
        sorted(types.single),
        sorted(types.blank),
    )
    # Without write permission, or space, the next statement reads all records again.
    with suppress(OSError):
        parts = build_type_parts(format_reading_prefix(instance, stored), msgspec.msgpack.encode(packed), state)
        MemoDirectory(_path(stored), instance.seam).write_types(parts)


def are_read_alike(views: Sequence[bytes]) -> bool:
    """Return whether filters and columns read the same values from some JSON views.

    Half a surrogate pair is U+FFFD in a filter and an index, and the text of its escape in a column; a number beyond
    the range of doubles is infinite in the former, and keeps its digits in the latter. msgspec rejects both.
    """
    try:
        for _ in map(_decode, views):
            pass
    except (ValueError, RecursionError):
        return False
    return True


def can_keep_types(source: Source) -> bool:
    """Return whether types of this source may be cached."""
    return _find_lasting_store(source) is not None


def _find_lasting_store(source: Source) -> StoredSource | None:
    """Return the store of a source if its types are worth caching: large, in a file, and without records that
    expire."""
    stored = source.stored_source
    # Expiration does not change the store, so its state number would be the same for several states.
    if stored is None or stored.path is None or stored.hides or stored.meta.records < QUERY_LIMITS.index_min_records:
        return None
    return stored


def _path(stored: StoredSource) -> Path:
    assert stored.path is not None
    return stored.path


def _read_kept(instance: Instance, stored: StoredSource) -> tuple[int, FieldTypes] | None:
    import pyarrow as pa
    from pyarrow import ipc

    found = MemoDirectory(_path(stored), instance.seam).find_types(format_reading_prefix(instance, stored))
    if found is None:
        return None
    try:
        packed = msgspec.msgpack.decode(found[1], type=_PackedTypes)
        fields = pa.struct(list(ipc.read_schema(pa.py_buffer(packed.schema))))
    except (msgspec.DecodeError, pa.ArrowException):
        return None
    names = None if packed.names is None else frozenset(packed.names)
    marks = frozenset(packed.large), names, frozenset(packed.single), frozenset(packed.blank)
    return found[0], FieldTypes(fields, *marks)


def _is_shown(instance: Instance, stored: StoredSource, types: FieldTypes, changed: set[bytes]) -> bool:
    """Return whether the first records and the changed ones have exactly these types.

    Then all records together have them: the types cannot be narrower than those of some records, nor wider than those
    of the cached and the changed records together.
    """
    import pyarrow.types as t

    # Digits of decimals, and which of them are too large for doubles, are not compared here.
    if any(t.is_decimal(field.type) for field in types.fields):
        return False
    kind = instance.find_message_type(stored.message_type)
    look = Inference(types.names, exact=True, repeatable=kind.repeatable)
    view = find_columns_view(kind)
    for _, values in islice(
        stored.read_batches(STORE_LIMITS.read_batch_records), SAMPLE_RECORDS // STORE_LIMITS.read_batch_records
    ):
        look.add(map(view, extract_payloads(values)))
    # Columns are in the order in which the records introduce them.
    if [field.name for field in look.build_struct()] != [field.name for field in types.fields]:
        return False
    _, values = stored.find_records(sorted(changed))
    views = list(map(view, extract_payloads(values)))
    if not are_read_alike(views):
        return False
    look.add(views)
    return look.has_values() and bool(look.build_struct() == types.fields)
