"""Output of a job: place, format and parts; and the totals that it has written.

The command line makes an :class:`Output` of its options, the jobs hand it to what writes it: data sets are of
:mod:`sowctl.spark.jobs.outputs.datasets`, a ``.sow`` file is of :mod:`sowctl.spark.jobs.outputs.storefile`.
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
    """A part of a topic's records that a task reads by itself; parts in their order have them in key order."""

    def iterate_pairs(self) -> Iterator[Pairs]:
        """Keys and stored values."""
        ...


class Output(Struct, frozen=True):
    """Place and format of an output. ``format`` None: told by the ending, ``.sow`` a store, else Parquet.

    ``partition_by`` are paths of fields whose values make directories. ``fields`` is the DDL of the message's fields as
    columns, "" to infer it, None for the message's bytes; CSV always has fields. ``meta``: NDJSON lines are envelopes.
    ``force`` replaces what is there. ``writer`` are options of Spark's writer. ``staging`` is a directory where the
    driver makes a store that is then sent to a URL.
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
        """The format. Raises UsageError ``SOW-SPK-063``."""
        ending = (
            Path(self.path.partition("?")[0] if is_remote(self.path) else self.path).suffix.lower().removeprefix(".")
        )
        # A path without a known ending is a directory of Parquet files, as with Spark's own writers.
        kind = self.format or (ending if ending in FORMATS else "parquet")
        if kind not in FORMATS:
            raise UsageError("SOW-SPK-063", f"unknown output format {kind!r}", hint="one of " + ", ".join(FORMATS))
        if kind == "sow" and self.partition_by:
            raise UsageError("SOW-SPK-063", "a .sow file cannot have partitions", hint="remove --partition-by")
        return kind

    def check(self) -> None:
        """Raise RefusedError ``SOW-SPK-064`` where something is there already, UsageError ``SOW-SPK-063``."""
        _ = self.kind  # refused before anything is read
        local = self.local_path
        # At a URL it is looked for when it is known who writes there.
        if local is not None and local.exists() and not self.force:
            raise RefusedError("SOW-SPK-064", "the output exists", place=self.path, hint="--force replaces it")

    @property
    def local_path(self) -> Path | None:
        """The path, where it is one of this machine."""
        return None if is_remote(self.path) or self.table_name is not None else parse_local_path(self.path)

    @property
    def label(self) -> str:
        """The path for people: of a URL without user, password and options."""
        return str(parse_url(self.path)) if is_remote(self.path) else self.path

    def join_path(self, name: str) -> str:
        """The path of a directory in it."""
        if not is_remote(self.path):
            return f"{self.path}/{name}"
        # The options of the connection stand behind the path.
        path, mark, options = self.path.partition("?")
        return f"{path}/{name}{mark}{options}"

    @property
    def table_name(self) -> str | None:
        """The table's name, where the output is one."""
        return self.path if is_table(self.format, self.path) else None


class WriteTotals(Struct, frozen=True):
    """Records and bytes of payload written, tasks that wrote them."""

    records: int
    bytes: int
    partitions: int
