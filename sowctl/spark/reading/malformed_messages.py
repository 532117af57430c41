"""Handling of messages that do not match their declared fields: Spark's modes (sowctl-spark(7), MODES).

Without these options, this module is not used: values that do not match are read as NULL. Called by the readers of
stores and journals, once per batch of messages.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from msgspec import Struct

from sowctl.arrow.struct_decoder import StructDecoder
from sowctl.errors import InputError, UsageError
from sowctl.messages.base import is_own_view
from sowctl.spark.schema import CORRUPT_COLUMN, PAYLOAD_COLUMN, is_inferred
from sowctl.values.display import format_count

if TYPE_CHECKING:
    import pyarrow

    from sowctl.arrow.arrays import Numbers
    from sowctl.arrow.template_decoder import TemplateDecoder
    from sowctl.arrow.type_checker import TypeChecker
    from sowctl.messages.base import MessageType
    from sowctl.spark.options import Options

MODES = ("permissive", "dropmalformed", "failfast")
MODE_OPTIONS = ("mode", "columnNameOfCorruptRecord", "badRecordsPath")
RowNamer = Callable[[int], str]
"""Returns a description of the message at an index of the batch, for errors."""


class MalformedRule(Struct, frozen=True):
    """The options: ``mode`` is None if not given; ``column`` contains the text of malformed messages; dropped messages
    are written to ``directory``. ``asked``: the column is among the default columns."""

    mode: str | None = None
    column: str = CORRUPT_COLUMN
    directory: str | None = None
    asked: bool = False


def parse_malformed_rule(options: Options) -> MalformedRule:
    """Return the rule that the options of a read set. Raises UsageError ``SOW-SPK-011`` for an invalid mode, and
    ``SOW-SPK-134`` for options that exclude each other."""
    mode = options.read_choice("mode", MODES, "permissive") if options.read_text("mode") is not None else None
    directory = options.read_path("badRecordsPath")
    if directory is not None and mode not in (None, "dropmalformed"):
        raise UsageError(
            "SOW-SPK-134",
            f"badRecordsPath saves dropped messages, but mode {mode} drops none",
            hint="use mode DROPMALFORMED, or badRecordsPath without a mode",
        )
    mode = "dropmalformed" if directory is not None else mode
    name = options.read_text("columnNameOfCorruptRecord")
    if mode not in (None, "permissive") and name is not None:
        raise UsageError(
            "SOW-SPK-134",
            f"columnNameOfCorruptRecord is set, but mode {mode} never fills this column",
            hint="use mode PERMISSIVE",
        )
    asked = mode == "permissive" or name is not None
    return MalformedRule(mode, name or CORRUPT_COLUMN, None if directory is None else str(directory), asked)


class JudgedBatch(NamedTuple):
    """A batch of messages: their column, the text of the malformed ones, and a mask of the rows to keep (None: all)."""

    payload: pyarrow.Array
    corrupt: pyarrow.Array | None
    kept: Any | None


class MessageJudge:
    """Decodes the messages of one task according to the rule, and counts the dropped ones."""

    def __init__(self, rule: MalformedRule, schema: pyarrow.Schema) -> None:
        import pyarrow.types as t

        self._rule = rule
        self.column = rule.column
        names = schema.names
        struct = schema.field(PAYLOAD_COLUMN).type if PAYLOAD_COLUMN in names else None
        self._struct: pyarrow.StructType | None = struct if struct is not None and t.is_struct(struct) else None
        at = -1 if self._struct is None else self._struct.get_field_index(rule.column)
        inside = at >= 0
        if self._struct is not None and inside and not t.is_string(self._struct.field(at).type):
            raise UsageError(
                "SOW-SPK-015", f"field {rule.column} of the message requires strings: declare it as STRING"
            )
        self._inside, self._beside = inside, rule.column in names
        if self._struct is None and (rule.mode is not None or self._beside):
            raise UsageError(
                "SOW-SPK-134",
                "a mode applies to messages that do not match their fields, but no fields are read",
                hint="use payload=struct, payloadSchema or a schema with a payload STRUCT<...>",
            )
        tolerant = rule.mode == "permissive" and self._struct is not None and is_inferred(schema)
        self.needed = inside or self._beside or tolerant or rule.mode in ("dropmalformed", "failfast")
        """True if messages must be judged; otherwise the readers use their own decoder."""
        self.dropped = 0
        self._first = ""
        self._file: Any = None
        if not self.needed:
            return
        assert self._struct is not None
        import pyarrow as pa

        # The column for malformed messages is not a field of the message.
        bare = pa.struct([field for field in self._struct if not (inside and field.name == rule.column)])
        # With an inferred type, FAILFAST also rejects fields that the inference has not seen; other modes ignore them.
        self._strict = is_inferred(schema) and rule.mode == "failfast"
        self._decoder = StructDecoder(bare, strict=self._strict)
        self._fitting: TypeChecker | None = None
        self._sound: TemplateDecoder | None = None
        if not self._strict:
            from sowctl.arrow.template_decoder import TemplateDecoder
            from sowctl.arrow.type_checker import TypeChecker

            self._fitting = TypeChecker(bare)
            self._sound = TemplateDecoder(
                bare, self._decoder.decode_objects, self._decoder.build_value_decoder, lossless=True
            )

    def judge_messages(self, messages: Sequence[bytes | None], kind: MessageType, place: RowNamer) -> JudgedBatch:
        """Decode and judge messages; None becomes NULL.

        With FAILFAST, raises InputError ``SOW-SPK-133`` for a malformed message, and for an inferred type
        :class:`~sowctl.arrow.jsoncolumns.Misfit`."""
        import numpy as np

        if is_own_view(kind):
            there = [message for message in messages if message is not None]
            present = np.fromiter((message is not None for message in messages), bool, len(messages))
            lengths = np.fromiter((len(message or b"") for message in messages), "i8", len(messages))
            found = self.judge_columns(there, lengths, present, present, place)
            if found is not None:
                return found
        return self.judge_rows(messages, kind, place)

    def judge_columns(
        self, parts: Sequence[Any], lengths: Numbers, present: Numbers, asked: Numbers, place: RowNamer
    ) -> JudgedBatch | None:
        """As :meth:`judge_messages`, for JSON messages that are concatenated in ``parts``.

        Messages without a template are judged one by one; if these are the majority, None is returned. Messages that
        are not ``present`` have no bytes, and only those in ``asked`` are judged.
        """
        found = None if self._sound is None else self._sound.decode_present(parts, lengths, present)
        if found is None:
            return None
        assert self._fitting is not None
        bad = {found.rows[at]: why for at, why in self._fitting.find_misfits(found.messages).items()}
        bad = {row: why for row, why in bad.items() if asked[row]}
        return self._apply_rule(found.structs, bad, dict(zip(found.rows, found.messages, strict=True)), ~present, place)

    def judge_rows(self, messages: Sequence[bytes | None], kind: MessageType, place: RowNamer) -> JudgedBatch:
        """As :meth:`judge_messages`, with a second pass over each message to judge it."""
        import numpy as np

        made = self._decoder.decode_payloads(messages, kind)
        absent = np.array([message is None for message in messages], bool)
        if self._fitting is None:
            return JudgedBatch(made, self._texts({}, len(messages)), None)
        views = list(messages)
        if not is_own_view(kind):
            views = [None if one is None else self.build_view(one, kind) for one in messages]
        return self._apply_rule(made, self._fitting.find_misfits(views), dict(enumerate(views)), absent, place)

    def build_view(self, message: bytes, kind: MessageType) -> bytes:
        """Return the JSON view of a message, which is what is judged."""
        return self._decoder.build_view(message, kind)

    def _apply_rule(
        self,
        made: pyarrow.Array,
        bad: dict[int, str],
        views: Mapping[int, bytes | None],
        absent: Numbers,
        place: RowNamer,
    ) -> JudgedBatch:
        """Apply the rule to structs. ``bad`` maps malformed rows to the reason; ``views`` has at least these rows."""
        import numpy as np
        import pyarrow as pa

        if bad and self._rule.mode == "failfast":
            row, why = next(iter(bad.items()))
            raise InputError(
                "SOW-SPK-133",
                f"{place(row)}: the message does not match the declared fields: {why}",
                hint=f"mode PERMISSIVE keeps it in the column {CORRUPT_COLUMN}, DROPMALFORMED drops it",
            )
        if self._rule.mode == "dropmalformed":
            if not bad:
                return JudgedBatch(made, None, None)
            self._leave_out(views, bad, place)
            kept = np.ones(len(made), bool)
            kept[list(bad)] = False
            return JudgedBatch(made, None, kept)
        texts = self._texts({row: _text(views[row]) for row in bad}, len(made))
        if not self._inside:
            return JudgedBatch(made, texts, None)
        assert self._struct is not None
        # As in from_json, a message that cannot be parsed is a struct of NULLs with its text.
        columns = iter(made.flatten())
        children = [texts if field.name == self._rule.column else next(columns) for field in self._struct]
        struct = pa.StructArray.from_arrays(children, fields=list(self._struct), mask=pa.array(absent))
        return JudgedBatch(struct, texts, None)

    def close(self) -> None:
        """Close the file of dropped messages and log their number, at the end of the task."""
        if self._file is not None:
            self._file.close()
        if self.dropped:
            # Spark collects the logs of its Python processes if spark.sql.pyspark.worker.logging.enabled is set.
            logging.getLogger("sowctl").warning(
                "dropped %s (mode DROPMALFORMED); the first: %s",
                format_count(self.dropped, "malformed message"),
                self._first,
            )

    def _texts(self, texts: Mapping[int, str | None], count: int) -> pyarrow.Array:
        import pyarrow as pa

        if not texts:
            return pa.nulls(count, pa.string())
        return pa.array([texts.get(row) for row in range(count)], pa.string())

    def _leave_out(self, views: Mapping[int, bytes | None], bad: dict[int, str], place: RowNamer) -> None:
        for row, why in bad.items():
            self._first = self._first or f"{place(row)}: {why}"
            if self._rule.directory is not None:
                line = {"place": place(row), "reason": why, "record": _text(views[row])}
                self._rejects().write(json.dumps(line, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n")
        self.dropped += len(bad)

    def _rejects(self) -> Any:
        """Return the file of this task. Each attempt has a separate one, so that attempts do not mix their lines."""
        if self._file is None:
            directory = Path(self._rule.directory or "")
            directory.mkdir(parents=True, exist_ok=True)
            self._file = (directory / f"part-{uuid4().hex}.ndjson").open("wb")
        return self._file


def _text(view: bytes | None) -> str | None:
    return None if view is None else view.decode("utf-8", "replace")
