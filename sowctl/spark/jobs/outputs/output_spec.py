"""Output of a job: its location, format and parts, and the totals written.

The command line builds an :class:`Output` from its options, and the jobs pass it to the writers: data sets are written
by :mod:`sowctl.spark.jobs.outputs.datasets`, ``.sow`` files by :mod:`sowctl.spark.jobs.outputs.storefile`.
``sowctl-pipeline(1)``, OUTPUT.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from sowctl.errors import RefusedError, UsageError
from sowctl.remote.place import parse_url
from sowctl.spark.jobs.outputs.lakes import LAKE_PACKAGES, is_table
from sowctl.spark.paths import is_remote, parse_local_path

if TYPE_CHECKING:
    from sowctl.engine.sources.source import Pairs

FORMATS = ("parquet", "orc", "ndjson", "csv", "sow", *LAKE_PACKAGES)


class Part(Protocol):
    """A part of a topic's records that one task reads; the records of consecutive parts are in key order."""

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Yield keys and stored values in key order."""
        ...


class Output(Struct, frozen=True):
    """Location and format of an output. ``format`` None: determined by the suffix of the path, by default Parquet.

    ``partition_by`` are paths of fields whose values determine directories. ``fields`` is the DDL of the message's
    fields as columns, "" to infer it, None for the message as bytes; CSV always has fields. ``meta``: NDJSON lines are
    envelopes. ``force`` replaces an existing output. ``writer`` are options of Spark's writer. ``staging`` is the
    directory in which the driver builds a store before it uploads the store to a URL.
    """

    path: str
    format: str | None = None
    partition_by: tuple[str, ...] = ()
    fields: str | None = None
    meta: bool = False
    force: bool = False
    writer: dict[str, str] = field(default_factory=dict)
    staging: str | None = None

    @property
    def kind(self) -> str:
        """The format. Raises UsageError ``SOW-SPK-063`` if it is unknown, or does not support partitions."""
        ending = (
            Path(self.path.partition("?")[0] if is_remote(self.path) else self.path).suffix.lower().removeprefix(".")
        )
        # A path without a known suffix is a directory of Parquet files, as in Spark's own writers.
        kind = self.format or (ending if ending in FORMATS else "parquet")
        if kind not in FORMATS:
            raise UsageError("SOW-SPK-063", f"unknown output format {kind!r}", hint="one of " + ", ".join(FORMATS))
        if kind == "sow" and self.partition_by:
            raise UsageError("SOW-SPK-063", "a .sow file cannot have partitions", hint="remove --partition-by")
        return kind

    def check(self) -> None:
        """Raise RefusedError ``SOW-SPK-064`` if a local output exists, and UsageError ``SOW-SPK-063``."""
        _ = self.kind  # raises before anything is read
        local = self.local_path
        # URLs are checked later, when it is known whether Spark or this program writes to them.
        if local is not None and local.exists() and not self.force:
            raise RefusedError("SOW-SPK-064", "the output exists", place=self.path, hint="--force replaces it")

    @property
    def local_path(self) -> Path | None:
        """The path if the output is local, otherwise None."""
        return None if is_remote(self.path) or self.table_name is not None else parse_local_path(self.path)

    @property
    def label(self) -> str:
        """The path for messages: a URL without user, password and options."""
        return str(parse_url(self.path)) if is_remote(self.path) else self.path

    def join_path(self, name: str) -> str:
        """Return the path of a directory in the output."""
        if not is_remote(self.path):
            return f"{self.path}/{name}"
        # In a URL, the options of the connection follow the path.
        path, mark, options = self.path.partition("?")
        return f"{path}/{name}{mark}{options}"

    @property
    def table_name(self) -> str | None:
        """The name of the table if the output is one, otherwise None."""
        return self.path if is_table(self.format, self.path) else None


class WriteTotals(Struct, frozen=True):
    """Records and bytes of payload written, and number of tasks that wrote them."""

    records: int
    bytes: int
    partitions: int
