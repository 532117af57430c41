"""The columns of both data sources: names, types, and the default selection.

sowctl-spark(7), COLUMNS, is the contract. A schema that the caller declares selects from these columns and declares the
message as bytes or as a struct.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sowctl.errors import UsageError
from sowctl.spark.catalog import is_mark_column
from sowctl.values.depth import MAX_DEPTH

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructField, StructType

    from sowctl.spark.options import Options

PAYLOAD_COLUMN = "payload"
CORRUPT_COLUMN = "_corrupt_record"
# SOW keys are unsigned 64-bit numbers, half of which exceed a BIGINT (behaviour C07), so they are DECIMAL.
STORE_COLUMNS: Mapping[str, str] = {
    PAYLOAD_COLUMN: "BINARY",
    "_sow_key": "DECIMAL(20,0)",
    "_txid": "BIGINT",
    "_timestamp": "TIMESTAMP",
    "_expiration": "TIMESTAMP",
    "_topic": "STRING",
    "_logical_topic": "STRING",
    "_user_key": "STRING",
    "_correlation_id": "STRING",
}
INSTANT_COLUMN = "_at"
INSTANTS_COLUMNS: Mapping[str, str] = {PAYLOAD_COLUMN: "BINARY", INSTANT_COLUMN: "TIMESTAMP", **STORE_COLUMNS}
"""Columns of a store that is read as of several instants."""
JOURNAL_COLUMNS: Mapping[str, str] = {
    PAYLOAD_COLUMN: "BINARY",
    "_operation": "STRING",
    "_sow_key": "DECIMAL(20,0)",
    "_txid": "BIGINT",
    "_timestamp": "TIMESTAMP",
    "_expiration": "TIMESTAMP",
    "_topic": "STRING",
    "_logical_topic": "STRING",
    "_message_type": "STRING",
    "_client": "STRING",
    "_sequence": "BIGINT",
    "_user_key": "STRING",
    "_correlation_id": "STRING",
    "_bookmark": "STRING",
}
CHANGE_TYPE_COLUMN = "_change_type"
CHANGE_COLUMNS: Mapping[str, str] = {PAYLOAD_COLUMN: "BINARY", CHANGE_TYPE_COLUMN: "STRING", **JOURNAL_COLUMNS}
"""Columns of a journal that is read as a change feed."""
METADATA_COLUMNS = frozenset((*INSTANTS_COLUMNS, *CHANGE_COLUMNS)) - {PAYLOAD_COLUMN}
"""Columns of both sources that are not fields of the message; writing rows ignores them."""
OPTIONAL_COLUMNS = ("_logical_topic", "_user_key", "_correlation_id", "_bookmark")
"""Columns that are read only if they are named."""


INFERRED_COMMENT = "fields inferred from the messages"
"""The comment of the column payload if its fields were inferred; readers recognize an inferred schema by it."""
MERGED_COMMENT = "fields declared, and others of the messages"
"""The comment of the column payload if option ``mergeSchema`` added fields."""

MORE_SAMPLES_HINT = (
    "option samples=all reads all messages to infer types, payloadSchema declares the "
    "fields; mode=DROPMALFORMED drops mismatched messages, mode=PERMISSIVE keeps their "
    "text in the column _corrupt_record"
)
"""The hint if a message does not match the types that were inferred from other messages."""


def build_ddl(
    columns: Mapping[str, str],
    chosen: tuple[str, ...] | None,
    payload: str | None,
    *,
    comment: str | None = None,
    table: str | None = None,
) -> str:
    """Return the schema as DDL.

    ``payload`` is the DDL of the message's fields, None for bytes, and ``comment`` records their origin; ``table`` is
    the DDL of an additional column. Raises UsageError ``SOW-SPK-015`` if a chosen column does not exist.
    """
    # Rarely filled columns cost a step per record, so they are read only if they are named.
    names = chosen if chosen is not None else tuple(name for name in columns if name not in OPTIONAL_COLUMNS)
    parts = []
    for name in names:
        if name not in columns:
            raise _unknown(name, columns)
        kind = columns[name]
        if name == PAYLOAD_COLUMN and payload is not None:
            kind = payload if payload.lower().startswith("struct<") else f"STRUCT<{payload}>"
            # Spark passes only the schema to the reader; the comment tells the reader where the fields come from.
            if comment is not None:
                kind += f" COMMENT '{comment}'"
        parts.append(f"`{name}` {kind}")
    return ", ".join(parts if table is None else [*parts, table])


def add_corrupt_column(columns: Mapping[str, str], name: str) -> Mapping[str, str]:
    """Add the column for the text of malformed messages. Raises UsageError ``SOW-SPK-134`` if the name is in use."""
    if name in columns:
        raise UsageError("SOW-SPK-134", f"columnNameOfCorruptRecord is {name!r}, the name of another column")
    return {**columns, name: "STRING"}


def read_payload_schema(options: Options) -> str | None:
    """Return the option ``payloadSchema``: "" if the fields are to be inferred, None if messages are read as bytes.

    Raises UsageError ``SOW-SPK-016`` and ``SOW-SPK-165`` for options that exclude each other.
    """
    declared = options.read_text("payloadSchema")
    default = "bytes" if declared is None else "struct"
    if options.read_choice("payload", ("bytes", "struct"), default) == "bytes":
        if declared is not None:
            raise UsageError("SOW-SPK-016", "payloadSchema is given, but payload is bytes", hint="remove one of them")
        if options.read_flag("mergeSchema"):
            hint = "payloadSchema declares fields, but payload=struct infers all fields"
            raise UsageError("SOW-SPK-165", "mergeSchema is given, but messages are read as bytes", hint=hint)
        return None
    return declared or ""


def require_mergeable(options: Options, schema: StructType) -> None:
    """Raise UsageError ``SOW-SPK-165`` if ``mergeSchema`` is given with a schema declared by ``.schema(...)``.

    Spark does not ask the source for a schema in that case, so the messages have not been sampled.
    """
    if not options.read_flag("mergeSchema") or any(is_mark_column(field.name) for field in schema.fields):
        return
    for field in schema.fields:
        if field.name == PAYLOAD_COLUMN and (field.metadata or {}).get("comment") not in (
            MERGED_COMMENT,
            INFERRED_COMMENT,
        ):
            raise UsageError(
                "SOW-SPK-165",
                "mergeSchema adds fields to those of payloadSchema, but .schema(...) has fixed all columns",
                hint="declare the fields with payloadSchema and the columns with columns, or remove mergeSchema",
            )


def build_arrow_schema(schema: StructType, columns: Mapping[str, str]) -> pyarrow.Schema:
    """Return the Arrow schema of a reader's batches, exactly as Spark compares it.

    Raises UsageError ``SOW-SPK-015`` if a column does not exist or has another type, and as :func:`check_fields`.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType as Struct

    for field in schema.fields:
        if is_mark_column(field.name):
            continue
        if field.name not in columns:
            raise _unknown(field.name, columns)
        wanted = columns[field.name]
        # Only the payload may have a declared type; the file formats determine those of the other columns.
        if field.name == PAYLOAD_COLUMN and isinstance(field.dataType, Struct):
            check_fields(field.dataType)
            continue
        if field.dataType != _types()[wanted]:
            what = f"{wanted} or a STRUCT" if field.name == PAYLOAD_COLUMN else wanted
            raise UsageError(
                "SOW-SPK-015", f"column {field.name} is {what}, but {field.dataType.simpleString()} in the schema"
            )
    # Spark compares the schema of batches with this one exactly, including the time zone of timestamps.
    made: pyarrow.Schema = to_arrow_schema(schema, timezone="UTC")
    return made


def check_fields(struct: StructType) -> None:
    """Raise UsageError ``SOW-SPK-080`` if a declared field has a type that messages cannot be read as."""
    for field in struct.fields:
        _check_type(field.name, field.dataType, 1)


def _check_type(name: str, kind: DataType, level: int) -> None:
    from pyspark.sql import types as t

    level += isinstance(kind, t.StructType | t.ArrayType | t.MapType)
    if level > MAX_DEPTH:
        outer = name.partition(".")[0]
        raise UsageError(
            "SOW-SPK-080",
            f"field {outer} of the message has a type of more than {MAX_DEPTH} levels",
            hint=f"messages have {MAX_DEPTH} levels at most; declare an inner one as STRING, which takes any value",
        )
    if isinstance(kind, t.StructType):
        for field in kind.fields:
            _check_type(f"{name}.{field.name}", field.dataType, level)
    elif isinstance(kind, t.ArrayType):
        _check_type(name, kind.elementType, level)
    elif isinstance(kind, t.MapType):
        # Names of JSON members are strings; keys of another type would have to be guessed from them.
        if not isinstance(kind.keyType, t.StringType):
            raise _no_such_type(name, kind, "names of members are strings: declare a MAP<STRING, ...>")
        _check_type(name, kind.valueType, level)
    elif not isinstance(kind, _list_readable_types()):
        raise _no_such_type(name, kind, "declare it as STRING, which accepts any value")


def select_field_columns(names: Iterable[str]) -> list[str]:
    """Return the columns of rows that contain a message or its fields: all except metadata."""
    return [name for name in names if name not in METADATA_COLUMNS and not is_mark_column(name)]


def check_row_fields(fields: Iterable[StructField]) -> None:
    """Raise UsageError ``SOW-SPK-113`` if a field of the rows has a type that messages cannot contain.

    Spark's ``to_json`` writes intervals as SQL literals, which readers of messages do not recognize as time spans. It
    omits geometries, and it writes nested map keys as their internal representation.
    """
    for field in fields:
        _check_row_type(field.name, field.dataType)


def _check_row_type(name: str, kind: DataType) -> None:
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        for field in kind.fields:
            _check_row_type(f"{name}.{field.name}", field.dataType)
    elif isinstance(kind, t.ArrayType):
        _check_row_type(name, kind.elementType)
    elif isinstance(kind, t.MapType):
        if isinstance(kind.keyType, t.StructType | t.ArrayType | t.MapType | t.VariantType):
            raise _build_unwritable_error(
                name, kind, "names of members must be strings or numbers: convert them with transform_keys"
            )
        _check_row_type(name, kind.keyType)
        _check_row_type(name, kind.valueType)
    elif not isinstance(
        kind, (*_list_readable_types(), t.VariantType, t.NullType, t.TimeType, t.CharType, t.VarcharType)
    ):
        column = name.partition(".")[0]
        raise _build_unwritable_error(
            name, kind, f"CAST({column} AS STRING) writes a string, extract(... FROM {column}) a number"
        )


def _build_unwritable_error(name: str, kind: DataType, hint: str) -> UsageError:
    return UsageError("SOW-SPK-113", f"field {name} cannot be written as {kind.simpleString().upper()}", hint=hint)


def _no_such_type(name: str, kind: DataType, hint: str) -> UsageError:
    return UsageError(
        "SOW-SPK-080", f"field {name} of the message cannot be read as {kind.simpleString().upper()}", hint=hint
    )


def _list_readable_types() -> tuple[type, ...]:
    """Return the scalar types that messages can be read as (sowctl-spark(7), MESSAGES)."""
    from pyspark.sql import types as t

    numbers = (t.ByteType, t.ShortType, t.IntegerType, t.LongType, t.FloatType, t.DoubleType, t.DecimalType)
    return (*numbers, t.BooleanType, t.StringType, t.BinaryType, t.DateType, t.TimestampType, t.TimestampNTZType)


def is_inferred(schema: pyarrow.Schema) -> bool:
    """Return whether the fields of the message were inferred; reading must then not lose any value."""
    metadata = schema.field(PAYLOAD_COLUMN).metadata or {}
    return any(INFERRED_COMMENT.encode() in value for value in metadata.values())


def _types() -> dict[str, Any]:
    from pyspark.sql import types as t

    return {
        "BINARY": t.BinaryType(),
        "BIGINT": t.LongType(),
        "STRING": t.StringType(),
        "TIMESTAMP": t.TimestampType(),
        "DECIMAL(20,0)": t.DecimalType(20, 0),
    }


def _unknown(name: str, columns: Mapping[str, str]) -> UsageError:
    if name == CHANGE_TYPE_COLUMN:
        hint = "option changes=true of sow-journal reads the change feed, which has this column"
    elif name == INSTANT_COLUMN:
        hint = "option at with several times, separated by commas, has this column"
    else:
        hint = "columns: " + ", ".join(columns)
    return UsageError("SOW-SPK-015", f"unknown column {name!r}", hint=hint)
