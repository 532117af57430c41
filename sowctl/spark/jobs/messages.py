"""Rows of a data set into messages of a topic's type, on the executors (for the jobs ``load`` and ``view``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.arrow.build import MessageMaker, root_of
from sowctl.engine.instance import Instance
from sowctl.errors import SowError, UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.spark.catalog import is_mark
from sowctl.spark.schema import JOURNAL_COLUMNS, PAYLOAD, STORE_COLUMNS
from sowctl.spark.writing.encoding import variant_of

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.bulk.staging import StagePlan

OWN = {*STORE_COLUMNS, *JOURNAL_COLUMNS} - {PAYLOAD}
"""Columns of our own data sets that are no fields of a message."""


class MessageBuilder:
    """Makes messages of rows. A column ``payload`` of bytes or text is the message, of a struct its fields, where there
    is no other; else the columns are the fields."""

    def __init__(self, plan: StagePlan) -> None:
        self._plan = plan
        self._kind = Instance(plan.config).type_of(plan.topic.message_type)
        self._by_user = plan.topic.key_mode == "user"
        self._root = root_of(plan.topic)

    def messages(
        self, batch: pyarrow.RecordBatch
    ) -> tuple[list[bytes | None], list[Envelope] | None, list[tuple[int, str, str]]]:
        """Payloads (None: refused), envelopes where rows bring keys or correlation ids, and refusals."""
        import pyarrow.types as t

        names = batch.schema.names
        refused: list[tuple[int, str, str]] = []
        if PAYLOAD in names and not t.is_nested(batch.schema.field(PAYLOAD).type):
            column = batch.column(PAYLOAD).to_pylist()
            payloads = [text.encode() if isinstance(text, str) else text for text in column]
            refused = [
                (place, "SOW-SPK-043", "its payload is null") for place, one in enumerate(payloads) if one is None
            ]
        else:
            payloads = self._built(batch, refused)
        return payloads, self._envelopes(batch), refused

    def _built(self, batch: pyarrow.RecordBatch, refused: list[tuple[int, str, str]]) -> list[bytes | None]:
        # Columns that an export has added are metadata, and would otherwise become fields of the messages.
        fields = [name for name in batch.schema.names if name not in OWN and not is_mark(name)]
        if not self._kind.constructible:
            raise UsageError(
                "SOW-SPK-044",
                f"messages of type {self._kind.name} cannot be made from columns",
                hint=f"give each row's message in a column named {PAYLOAD}",
            )
        found: list[bytes | None] = []
        columns = [batch.schema.field(name) for name in fields]
        rows = batch.select(fields).to_pylist()
        if fields == [PAYLOAD]:  # a struct, as export --fields writes it: its members are the fields
            columns = list(columns[0].type)
            rows = [row[PAYLOAD] or dict.fromkeys(field.name for field in columns) for row in rows]
        make = MessageMaker(columns, self._kind, self._root, variant_of).message
        for place, row in enumerate(rows):
            try:
                found.append(make(row))
            except (SowError, ValueError, TypeError) as error:
                # One row that makes no message is refused like a bad line of a file; whether that ends the load is for
                # the commit to say.
                found.append(None)
                code = error.code if isinstance(error, SowError) else "SOW-SPK-045"
                refused.append((place, code, f"its columns make no message: {error}"))
        return found

    def _envelopes(self, batch: pyarrow.RecordBatch) -> list[Envelope] | None:
        names = batch.schema.names
        # Where the keys follow from the messages, a column of keys is passed over: the message decides.
        own = "_user_key" if "_user_key" in names and self._by_user else None
        if own is None and "_sow_key" in names and self._by_user:
            own = "_sow_key"
        if own is None and "_correlation_id" not in names:
            return None
        empty = [None] * batch.num_rows
        keys = batch.column(own).to_pylist() if own is not None else empty
        correlations = batch.column("_correlation_id").to_pylist() if "_correlation_id" in names else empty
        return [
            Envelope(sow_key=None if key is None else str(key), correlation_id=correlation)
            for key, correlation in zip(keys, correlations, strict=True)
        ]
