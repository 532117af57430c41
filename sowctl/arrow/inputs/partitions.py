"""Directories of files and the partition columns in their paths: ``day`` of ``day=2026-01-01/part-0.parquet``.

Directories are searched recursively; files and directories whose names begin with ``.``, or with ``_`` unless they are
partitions, contain no data, as for Spark and Hadoop. Files are ordered by their paths, compared name by name, with
numbers in names compared as numbers: ``hour=9`` before ``hour=10``. Ruled by ``sowctl-types(7)``, Partition columns.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

from sowctl.errors import InputError

if TYPE_CHECKING:
    import pyarrow

PartitionValues: TypeAlias = "Mapping[str, int | str | None]"
"""The values of partition columns by name; None for null."""
_NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The text that Hive writes for null."""
_PARTITION_PATTERN = re.compile(r"([^=]+)=(.+)", re.DOTALL)
_VALUELESS_PATTERN = re.compile(r"[^=]+=")
_INTEGER_PATTERN = re.compile(r"-?[0-9]{1,18}")
_MAX_NAMES = 10
"""Maximum number of skipped entries to name; a directory may have thousands."""
_DIGITS_PATTERN = re.compile(r"([0-9]+)")


def list_directory_files(directory: str, notify: Callable[[str], None] = lambda text: None) -> list[str]:
    """The paths of all files with data below a directory, in order; links are followed. Raises OSError.

    ``notify`` receives a remark about broken links, pipes and other skipped entries that are not files.
    """
    found: list[str] = []
    skipped: list[str] = []
    _add_files(directory, (), found, skipped)
    if skipped:
        skipped.sort(key=build_order_key)
        more = f" and {len(skipped) - _MAX_NAMES:,} more" if len(skipped) > _MAX_NAMES else ""
        notify(f"skipped, neither files nor directories: {', '.join(skipped[:_MAX_NAMES])}{more}")
    return sorted(found, key=build_order_key)


def _add_files(directory: str, above: tuple[str, ...], found: list[str], skipped: list[str]) -> None:
    # A link to a directory above would be followed forever.
    real = os.path.realpath(directory)
    if real in above:
        return
    with os.scandir(directory) as entries:
        for entry in entries:
            if is_hidden(entry.name):
                continue
            if entry.is_dir():
                _add_files(entry.path, (*above, real), found, skipped)
            elif entry.is_file():
                found.append(entry.path)
            else:
                skipped.append(entry.path)


def is_hidden(name: str) -> bool:
    """Return whether a file or directory of this name contains no data: ``_SUCCESS``, ``.part-00000.crc``."""
    return name.startswith(".") or (name.startswith("_") and _PARTITION_PATTERN.fullmatch(name) is None)


def build_order_key(path: str) -> list[list[tuple[int, int, str]]]:
    """The sort key of files: name by name, numbers as numbers."""
    return [
        [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in _DIGITS_PATTERN.split(name)]
        for name in path.split("/")
    ]


def read_partitions(
    files: Sequence[str], roots: Iterable[str] = (), *, is_text: Callable[[str], bool] = lambda name: False
) -> list[PartitionValues]:
    """The values of the partition columns of each file, by the directories above it.

    These are the directories directly above a file whose names are ``NAME=VALUE``; below one of ``roots``, the given
    directories, other directories may be between them and the file. A column whose values are all integers has
    integers, unless ``is_text``; any other one has texts. Paths are made absolute first, so that it does not matter how
    a file was named; URLs are unchanged. Raises InputError ``SOW-EXC-012`` for a name that is not UTF-8, also after
    decoding, and for ``NAME=`` in the place of a partition.
    """
    named = [path if _is_url(path) else os.path.abspath(path) for path in roots]  # noqa: PTH100 - ``..`` goes, links stay
    rows = [_split_path(path if _is_url(path) else os.path.abspath(path), named) for path in files]  # noqa: PTH100
    texts: dict[str, list[str]] = {}
    for row in rows:
        for name, text in row.items():
            texts.setdefault(name, []).append(text)
    numeric = {
        name
        for name, values in texts.items()
        if not is_text(name) and all(text == _NULL_VALUE or _INTEGER_PATTERN.fullmatch(text) for text in values)
    }
    return [{name: _convert_value(text, name in numeric) for name, text in row.items()} for row in rows]


def _is_url(path: str) -> bool:
    return "://" in path


def _split_path(path: str, roots: Sequence[str]) -> dict[str, str]:
    root = max((one for one in roots if path.startswith(one.rstrip("/") + "/")), key=len, default=None)
    depth = 0 if root is None else len(root.rstrip("/").split("/"))
    names = path.split("/")[:-1]
    found: dict[str, str] = {}
    for place in range(len(names) - 1, -1, -1):
        match = _PARTITION_PATTERN.fullmatch(names[place])
        if match is not None:
            # The innermost of two directories with one name counts.
            found.setdefault(*(_decode_part(part, names[: place + 1]) for part in match.groups()))
        elif _VALUELESS_PATTERN.fullmatch(names[place]) is not None:
            # As an ordinary directory it would end the search: the columns above it would silently be lost.
            raise InputError(
                "SOW-EXC-012",
                "the partition directory has no value",
                place="/".join(names[: place + 1]),
                hint=f"rename the directory; a null value is written {_NULL_VALUE}",
            )
        elif found or root is None or place < depth:
            break
    return dict(reversed(found.items()))


def _decode_part(text: str, names: Sequence[str]) -> str:
    """The name or value of the partition directory that is the last of ``names``. Raises InputError."""
    try:
        found = unquote(text, errors="strict")
        # Bytes of a file name that are not UTF-8 are surrogates.
        found.encode()
    except UnicodeError:
        words = "the name of the partition directory is not UTF-8"
        hint = "rename the directory: the name and value of a column are UTF-8 text"
        raise InputError("SOW-EXC-012", words, place="/".join(names), hint=hint) from None
    return found


def _convert_value(text: str, numeric: bool) -> int | str | None:
    if text == _NULL_VALUE:
        return None
    return int(text) if numeric else text


def list_partition_names(rows: Iterable[PartitionValues]) -> list[str]:
    """The names of all partition columns, in order of appearance."""
    return list(dict.fromkeys(name for row in rows for name in row))


def build_partition_fields(partitions: PartitionValues) -> list[pyarrow.Field]:
    """The Arrow fields of the columns."""
    import pyarrow as pa

    return [pa.field(name, pa.int64() if isinstance(value, int) else pa.string()) for name, value in partitions.items()]


def append_partitions(batch: pyarrow.RecordBatch, partitions: PartitionValues) -> pyarrow.RecordBatch:
    """A batch with the partition columns that it does not have itself."""
    import pyarrow as pa

    arrays, fields = list(batch.columns), list(batch.schema)
    for field in build_partition_fields(partitions):
        if field.name not in batch.schema.names:
            fields.append(field)
            arrays.append(pa.repeat(pa.scalar(partitions[field.name], field.type), batch.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields, batch.schema.metadata))
