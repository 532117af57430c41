"""Rows of typed tables as messages: for ``publish --from``, the data source's writer and the job ``load``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.arrow.inputs.columnvalues import ReaderContext, build_name_reader, build_value_reader, find_repeated_name
from sowctl.arrow.inputs.rows import RowRefused
from sowctl.arrow.message_encoder import UNWRITABLE_ERRORS, MessageEncoder
from sowctl.errors import InputError
from sowctl.messages.native_values import JSON_FORM

if TYPE_CHECKING:
    import pyarrow

    from sowctl.messages.base import MessageType

REPEATED_NAME_CODE = "SOW-EXC-012"


class MessageMaker:
    """Builds messages of one type from rows whose columns are their fields (sowctl-types(7)).

    ``fields`` are the columns; ``root`` is as for :class:`MessageEncoder`; ``variant`` reads a VARIANT of Spark from
    its value and its metadata; ``leaves`` are the logical types of a Parquet file's columns. Raises InputError
    ``SOW-EXC-012`` for unsupported columns, and as :class:`MessageEncoder`.
    """

    def __init__(
        self,
        fields: Sequence[pyarrow.Field],
        kind: MessageType,
        root: str | None = None,
        variant: Callable[[bytes, bytes], Any] | None = None,
        leaves: Iterable[str | None] = (),
    ) -> None:
        import pyarrow as pa

        refuse_repeated_names(fields)
        self._encoder = MessageEncoder(kind, [field.name for field in fields], root)
        context = ReaderContext(self._encoder.form, kind.json_text, variant, iter(leaves))
        self._read = build_value_reader(pa.field("", pa.struct(fields)), context)

    def encode_rows(self, rows: pyarrow.StructArray, *, null_is_empty: bool = False) -> list[bytes | Exception | None]:
        """Return for each row its message, without NULL fields, the error that prevents one, or None for a
        NULL.

        ``null_is_empty``: a NULL becomes the message without fields.
        """
        values, refused = self._read(rows)
        encode = self._encoder.encode
        found: list[bytes | Exception | None] = []
        for row, members in enumerate(values):
            if row in refused:
                found.append(RowRefused(f"column {refused[row].path[1:]}: {refused[row].why}"))
            elif members is None and not null_is_empty:
                found.append(None)
            else:
                try:
                    found.append(encode(members or {}))
                except UNWRITABLE_ERRORS as problem:
                    found.append(problem)
        return found


TextCell: TypeAlias = str | Exception | None


def build_text_reader(
    field: pyarrow.Field, leaves: Iterable[str | None] = ()
) -> Callable[[pyarrow.Array], list[TextCell]]:
    """Return the reader of a column of keys or ids as texts; for a row without one, it returns the reason."""
    read = build_name_reader(field, ReaderContext(JSON_FORM, True, leaves=iter(leaves)))

    def texts(array: pyarrow.Array) -> list[TextCell]:
        values, refused = read(array)
        for row, one in refused.items():
            values[row] = RowRefused(f"column {field.name}{one.path}: {one.why}")
        return values

    return texts


def build_struct_array(batch: pyarrow.RecordBatch, names: Sequence[str]) -> pyarrow.StructArray:
    """Return some columns of a batch as one array."""
    import pyarrow as pa

    if not names:
        return pa.array([{}] * len(batch), pa.struct([]))
    return batch.select(names).to_struct_array()


def refuse_repeated_names(fields: Iterable[pyarrow.Field], place: str | None = None) -> None:
    """Raise InputError ``SOW-EXC-012`` if two columns, or two fields of a struct, have one name."""
    found = find_repeated_name(fields)
    if found is not None:
        hint = "give each column and each field of a struct a name of its own"
        raise InputError(
            REPEATED_NAME_CODE, f"{found}, but the members of a message must be unique", place=place, hint=hint
        )
