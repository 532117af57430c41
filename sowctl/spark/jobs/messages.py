"""Convert rows of a data set to messages of a topic's type, on the executors (for the job ``load``)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sowctl.arrow.inputs.rowmessages import MessageMaker, TextCell, build_struct_array, build_text_reader
from sowctl.arrow.message_encoder import find_root
from sowctl.engine.instance import Instance
from sowctl.errors import SowError, UsageError
from sowctl.messages.framing.envelope import Envelope
from sowctl.spark.schema import PAYLOAD_COLUMN, select_field_columns
from sowctl.spark.writing.row_encoder import decode_variant

if TYPE_CHECKING:
    import pyarrow

    from sowctl.engine.bulk.staging import StagePlan


class MessageBuilder:
    """Builds messages from rows. A column ``payload`` of bytes or text is the message. If ``payload`` is a struct and
    no other field column exists, its members are the fields; otherwise the columns are the fields."""

    def __init__(self, plan: StagePlan) -> None:
        self._plan = plan
        self._kind = Instance(plan.config).find_message_type(plan.topic.message_type)
        self._by_user = plan.topic.key_mode == "user"
        self._root = find_root(plan.topic)

    def build_messages(
        self, batch: pyarrow.RecordBatch
    ) -> tuple[list[bytes | None], list[Envelope] | None, list[tuple[int, str, str]]]:
        """Return payloads (None: rejected), envelopes if the rows have keys or correlation ids, and rejections as row,
        code and message. Raises UsageError ``SOW-SPK-044``."""
        import pyarrow.types as t

        names = batch.schema.names
        refused: list[tuple[int, str, str]] = []
        if PAYLOAD_COLUMN in names and not t.is_nested(batch.schema.field(PAYLOAD_COLUMN).type):
            column = batch.column(PAYLOAD_COLUMN).to_pylist()
            payloads = [text.encode() if isinstance(text, str) else text for text in column]
            refused = [
                (place, "SOW-SPK-043", "its payload is null") for place, one in enumerate(payloads) if one is None
            ]
        else:
            payloads = self._build_payloads(batch, refused)
        return payloads, self._envelopes(batch, payloads, refused), refused

    def _build_payloads(self, batch: pyarrow.RecordBatch, refused: list[tuple[int, str, str]]) -> list[bytes | None]:
        # Columns that an export has added are metadata, not fields of the messages.
        fields = select_field_columns(batch.schema.names)
        if not self._kind.constructible:
            raise UsageError(
                "SOW-SPK-044",
                f"messages of type {self._kind.name} cannot be constructed from columns",
                hint=f"provide the message of each row in a column {PAYLOAD_COLUMN}",
            )
        if fields == [PAYLOAD_COLUMN]:  # a struct, as export --fields writes it: its members are the fields
            rows = batch.column(PAYLOAD_COLUMN)
        else:
            rows = build_struct_array(batch, fields)
        maker = MessageMaker(list(rows.type), self._kind, self._root, decode_variant)
        found: list[bytes | None] = []
        for place, made in enumerate(maker.encode_rows(rows, null_is_empty=True)):
            # A row that cannot be converted is rejected like a bad line of a file; the commit decides whether the load
            # fails.
            if isinstance(made, Exception):
                code = made.code if isinstance(made, SowError) else "SOW-SPK-045"
                refused.append((place, code, f"its columns cannot be converted to a message: {made}"))
            found.append(made if isinstance(made, bytes) else None)
        return found

    def _envelopes(
        self, batch: pyarrow.RecordBatch, payloads: list[bytes | None], refused: list[tuple[int, str, str]]
    ) -> list[Envelope] | None:
        names = batch.schema.names
        # A column of keys is used only if publishers choose the keys; otherwise keys are computed from the messages.
        own = "_user_key" if "_user_key" in names and self._by_user else None
        if own is None and "_sow_key" in names and self._by_user:
            own = "_sow_key"
        wanted = [name for name in (own, "_correlation_id") if name is not None and name in names]
        if not wanted:
            return None
        texts: dict[str | None, list[TextCell]] = {
            name: build_text_reader(batch.schema.field(name))(batch.column(name)) for name in wanted
        }
        nothing: list[TextCell] = [None] * batch.num_rows
        found = []
        for place, (key, correlation) in enumerate(
            zip(texts.get(own, nothing), texts.get("_correlation_id", nothing), strict=True)
        ):
            for one in (key, correlation):
                if isinstance(one, Exception) and payloads[place] is not None:
                    payloads[place] = None
                    refused.append((place, "SOW-SPK-045", str(one)))
            found.append(
                Envelope(sow_key=key, correlation_id=correlation)
                if not isinstance(key, Exception) and not isinstance(correlation, Exception)
                else Envelope()
            )
        return found
