"""Parse and check the options of the data sources (sowctl-spark(7), OPTIONS).

Option names in Spark are case-insensitive and values are strings. Unknown names are rejected: a misspelt filter must
not read everything. Spark passes names in lower case, so errors show unknown names in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path

from msgspec.json import decode as decode_json

from sowctl.errors import UsageError
from sowctl.remote.place import Place, parse_place
from sowctl.spark.paths import is_remote, parse_local_path
from sowctl.values.times import Clock, Micros, build_fixed_clock, parse_instant, system_clock
from sowctl.values.units import MAX_U64, parse_seconds, parse_size, parse_whole_number

TRUE_WORDS, FALSE_WORDS = ("true", "1", "yes"), ("false", "0", "no")
PLACE_OPTIONS = ("path", "config", "root", "topic", "messageType", "instance", "now")
PAYLOAD_OPTIONS = ("payload", "payloadSchema", "mergeSchema", "samples", "columns")
AUTOMATIC_PIN = "auto"
"""The value of option ``pin`` that requests a temporary copy."""
PATHS_OPTION = "paths"
"""The option in which Spark passes a list of paths."""
SPARK_OPTIONS = ("checkpointLocation", "queryName", "outputMode")
FOREIGN_OPTIONS = {
    # Kafka
    "subscribe": "topic, a single name; without it, sow-journal reads the entries of all topics",
    "subscribePattern": "topic, a single name; without it, sow-journal reads the entries of all topics",
    "assign": "topic; numPartitions (sow) and partitionBytes (sow-journal) set the partitions",
    "startingOffsets": "fromTxid=N or fromTime=T, or start=earliest, latest or state for a stream",
    "startingOffsetsByTimestamp": "fromTime",
    "startingTimestamp": "fromTime",
    "startingPosition": "start=earliest, latest or state for a stream",
    "scan.startup.mode": "start=state for the records and then their changes, start=earliest or latest",
    "endingOffsets": "toTxid=N or toTime=T; by default, a batch ends at the current end",
    "endingOffsetsByTimestamp": "toTime",
    "endingTimestamp": "toTime",
    "maxOffsetsPerTrigger": "maxEntries",
    "minOffsetsPerTrigger": "trigger(processingTime=...), which collects entries",
    "maxTriggerDelay": "trigger(processingTime=...)",
    "minPartitions": "numPartitions for sow, partitionBytes for sow-journal",
    "includeHeaders": "columns, with _correlation_id, and for sow-journal also _client, _sequence and _bookmark",
    "groupIdPrefix": "not needed: the position is in the checkpointLocation of the query",
    # files
    "maxFilesPerTrigger": "maxEntries or maxBytesPerTrigger",
    "maxRecordsPerTrigger": "maxEntries",
    "inferSchema": "payload=struct",
    "sampleSize": "samples",
    "samplingRatio": "samples, a number of messages or all",
    "includeMetadata": "columns; by default, all columns except rarely used ones",
    "pathGlobFilter": "a list of paths in load(); patterns are not supported",
    "recursiveFileLookup": "a list of paths in load()",
    "compression": "not available: sowctl journal compress reduces the size of journal files",
    # databases
    "keyField": "not available: the Key of the topic in the configuration sets the key fields",
    "batchRows": "not needed: each write is one group, regardless of its size",
    "consistency": "pin=FILE.sow, which saves the state that is read",
    # Delta
    "timestampAsOf": "at",
    "versionAsOf": "at",
    "readChangeFeed": "changes=true",
    "readChangeData": "changes=true",
    "startingVersion": "fromTxid",
    "endingVersion": "toTxid",
    "txnAppId": "queryName of a stream, which prevents duplicate batches",
    "txnVersion": "queryName of a stream, which prevents duplicate batches",
}
"""Options of other Spark data sources, and their equivalents here."""
KAFKA_PREFIX = "kafka."
"""The prefix of settings of Kafka's clients."""


class Options:
    """The options of one read or write; errors of the ``read_`` methods name the option."""

    def __init__(
        self,
        source: str,
        given: Mapping[str, str],
        known: tuple[str, ...],
        passed: Iterable[str] = (),
        others: Mapping[str, str] | None = None,
    ) -> None:
        """Raise UsageError ``SOW-SPK-010`` if an option is neither in ``known`` nor in ``passed``.

        ``passed`` are options that are valid but ignored. ``others`` maps options of other reads and writes to what
        they belong to, for the hint.
        """
        self._source = source
        # Callers may use any case, as with Spark's own readers.
        self._given = {name.lower(): value for name, value in given.items()}
        # Spark passes all options of the query to the source, including its own.
        names = {name.lower(): name for name in (*known, *passed, *SPARK_OPTIONS)}
        _refuse_pushdown(self._given)
        for name in given:
            if name.lower() not in names:
                raise _build_unknown_error(source, name, known, names, others or {})

    def __bool__(self) -> bool:
        """Return whether any option was given."""
        return bool(self._given)

    def read_text(self, name: str) -> str | None:
        """Return the text of an option, None if it is absent or empty."""
        return self._given.get(name.lower()) or None

    def read_path(self, name: str) -> Path | None:
        """Return an absolute path, given as a path or a ``file:`` URL.

        Raises UsageError ``SOW-SPK-098`` if it is not a local path.
        """
        text = self.read_text(name)
        if text is None:
            return None
        if is_remote(text):
            raise UsageError(
                "SOW-SPK-098",
                f"option {name} of the data source {self._source} is not a local path: {text}",
                hint="stores, journals and configurations require local paths: mount the file system, or "
                "copy the files here",
            )
        # Absolute, because the processes that open it later may have another working directory.
        return parse_local_path(text).absolute()

    def read_place(self, name: str) -> Place | None:
        """Return an absolute local path, or a URL."""
        text = self.read_text(name)
        if text is None:
            return None
        place = parse_place(text)
        return place.absolute() if isinstance(place, Path) else place

    def read_flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value. Raises UsageError ``SOW-SPK-011`` if the value is invalid, as do the methods below."""
        text = self.read_text(name)
        if text is None:
            return default
        if text.lower() not in TRUE_WORDS + FALSE_WORDS:
            raise self._build_value_error(name, text, "true or false")
        return text.lower() in TRUE_WORDS

    def read_number(self, name: str, default: int | None = None, least: int = 0) -> int | None:
        """Return an integer of at least ``least``."""
        text = self.read_text(name)
        if text is None:
            return default
        found = parse_whole_number(text.strip())
        if found is None or found < least:
            raise self._build_value_error(name, text, f"an integer from {least} to {MAX_U64}")
        return found

    def read_size(self, name: str) -> int | None:
        """Return a size in bytes, given as for example ``64MB``."""
        text = self.read_text(name)
        if text is None:
            return None
        try:
            found = parse_size(text)
        except ValueError:
            found = 0
        if found <= 0:
            raise self._build_value_error(name, text, "a size such as 64MB")
        return found

    def read_seconds(self, name: str) -> float | None:
        """Return an interval in seconds, given as for example ``5m``."""
        text = self.read_text(name)
        try:
            return None if text is None else parse_seconds(text)
        except ValueError:
            raise self._build_value_error(name, text or "", "an interval such as 5m") from None

    def read_choice(self, name: str, choices: tuple[str, ...], default: str) -> str:
        """Return one of ``choices``, in lower case."""
        given = self.read_text(name) or default
        text = given.lower()
        if text not in choices:
            raise self._build_value_error(name, given, "one of " + ", ".join(choices))
        return text

    def read_words(self, name: str) -> tuple[str, ...] | None:
        """Return the words of a comma-separated list, None if the option is absent or empty."""
        text = self.read_text(name)
        return None if text is None else tuple(word.strip() for word in text.split(",") if word.strip())

    def read_instant(self, name: str) -> Micros | None:
        """Return an instant in microseconds UTC; relative times are relative to :meth:`build_clock`."""
        text = self.read_text(name)
        if text is not None and text.strip().isdecimal():
            raise self._build_value_error(name, text, "a time; a bare number is ambiguous")
        return None if text is None else parse_instant(text, self.build_clock())

    def build_clock(self) -> Clock:
        """Return a clock fixed at the option ``now``, by default the system's clock."""
        text = self.read_text("now")
        # Evaluated once, so that all instants of a query are relative to the same time.
        return system_clock if text is None else build_fixed_clock(parse_instant(text, system_clock))

    def _build_value_error(self, name: str, text: str, wanted: str) -> UsageError:
        return UsageError("SOW-SPK-011", f"option {name} of the data source {self._source} is {text!r}, not {wanted}")


def _refuse_pushdown(given: Mapping[str, str]) -> None:
    """Raise UsageError ``SOW-SPK-096`` for the removed option ``pushdown``, which returned wrong results."""
    if "pushdown" in given:
        raise UsageError(
            "SOW-SPK-096",
            "option pushdown was removed: Spark used the filters of one scan for others, which missed rows",
            hint="use option filter to select rows; sow-journal also has fromTxid, toTxid, fromTime and toTime",
        )


def split_paths(given: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the options once per path of ``load([...])``, which Spark passes as a JSON array."""
    one = {name: text for name, text in given.items() if name.lower() != PATHS_OPTION}
    several = next((text for name, text in given.items() if name.lower() == PATHS_OPTION), None)
    return [dict(given)] if several is None else [one | {"path": path} for path in decode_json(several, type=list[str])]


def _format_hint(text: str, names: Mapping[str, str], others: Mapping[str, str]) -> str:
    """Return a hint at the equivalent of an option of another source.

    ``names`` are the valid options; ``others`` those of other reads and writes, in which case the hint names that one.
    """
    words = [word.lower() for word in re.findall("[A-Za-z]+", text)]
    whose = next((others[word].partition(" is an option of ")[2] for word in words if word in others), None)
    if whose is None or any(word in names for word in words):
        return f"use instead: {text}"
    return f"when {whose}, use: {text}"


def _build_unknown_error(
    source: str, name: str, known: tuple[str, ...], names: Mapping[str, str], others: Mapping[str, str]
) -> UsageError:
    foreign = {one.lower(): one for one in FOREIGN_OPTIONS}
    others = {one.lower(): f"{one} is an option of {whose}" for one, whose in others.items()}
    near = get_close_matches(name.lower(), names, n=1)
    # Options of other sources are checked before similar names: startingOffsets is not a misspelling of any option.
    if name.lower() in foreign:
        name = foreign[name.lower()]
        hint = _format_hint(FOREIGN_OPTIONS[name], names, others)
    elif name.lower() in others:
        hint = others[name.lower()]
        # Show the documented spelling; Spark passed the name in lower case.
        name = hint.partition(" ")[0]
    elif name.lower().startswith(KAFKA_PREFIX):
        hint = "a journal is read from files without a server: give config, or path, and topic"
    else:
        hint = f"did you mean {names[near[0]]}?" if near else "options: " + ", ".join(sorted(known))
    return UsageError("SOW-SPK-010", f"the data source {source} has no option {name!r}", hint=hint)
