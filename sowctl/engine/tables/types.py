"""The types of a topic's columns, kept from one statement to the next (``sow-memo(5)``, kind 6).

The type of a column holds all values of its field. Where it is known, records that a filter refuses need not be
decoded; else all have to be, or a column would be narrower with a filter than without one.
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
"""Records, the first ones, that have to show the types that are kept, where others have changed."""


class FieldTypes(DescribedStruct, frozen=True):
    """``fields`` are the types that hold every digit; decimals with a fraction are shown as doubles but for ``large``
    ones. ``names``: the members that were looked at, in lower case, None for all.

    ``single``: fields whose values are scalars of one kind; ``blank``: those with an empty text; both are of the state
    that was read, which ``exact`` says is the present one.
    """

    fields: pyarrow.StructType
    large: frozenset[str]
    names: frozenset[str] | None
    single: frozenset[str]
    blank: frozenset[str]
    exact: bool = True

    def select_members(self, wanted: Collection[str] | None) -> FieldTypes | None:
        """The part that concerns these members; None where not all of them were looked at."""
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
    """The types that reading all records would find now; None where only that tells."""
    stored = _find_lasting_store(source)
    if stored is None:
        return None
    kept = _read_kept(instance, stored)
    if kept is None:
        return None
    digest, found = kept
    types = found.select_members(wanted)
    changed = stored.snapshot.find_changed_keys(digest)
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
    """Keep what reading all records has found, if they are those of the store alone."""
    import pyarrow as pa

    from sowctl.memo.builder import build_type_parts

    stored = _find_lasting_store(source)
    if stored is None or stored.memtable:
        return
    digest = stored.meta.digest
    before = _read_kept(instance, stored)
    if before is not None and before[0] == digest and types.names is not None:
        if before[1].names is None:
            return
        # Of one state, so a field that both looked at has one type.
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
    # Without leave to write, or room, the next statement reads all records again.
    with suppress(OSError):
        parts = build_type_parts(format_reading_prefix(instance, stored), msgspec.msgpack.encode(packed), digest)
        MemoDirectory(_path(stored), instance.seam).write_types(parts)


def are_read_alike(views: Sequence[bytes]) -> bool:
    """Return whether filters and columns have the same values of some JSON views.

    Half a surrogate pair is U+FFFD in a filter and an index, and the text of its escape in a column; a number beyond
    all doubles is infinite, and its digits. msgspec refuses both.
    """
    try:
        for _ in map(_decode, views):
            pass
    except (ValueError, RecursionError):
        return False
    return True


def can_keep_types(source: Source) -> bool:
    """Return whether types of this source may be kept."""
    return _find_lasting_store(source) is not None


def _find_lasting_store(source: Source) -> StoredSource | None:
    """The store of a source, if its state is worth a note: large, in a file, and without records that expire."""
    stored = source.stored_source
    # What expires goes without a change of the store, so its digest would stand for several states.
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
    """Return whether the first records and those that changed show these very types.

    Then all records together have them: they cannot be narrower than what some records show, nor wider than what was
    kept and the changed records together.
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
    # Columns stand in the order in which the records bring them up.
    if [field.name for field in look.build_struct()] != [field.name for field in types.fields]:
        return False
    _, values = stored.find_records(sorted(changed))
    views = list(map(view, extract_payloads(values)))
    if not are_read_alike(views):
        return False
    look.add(views)
    return look.has_values() and bool(look.build_struct() == types.fields)
