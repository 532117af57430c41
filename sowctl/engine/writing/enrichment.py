"""Preprocessing and enrichment: fields that the configuration constructs while a message is published.

Called by the publish path alone. What is journalled is finished, so nothing that reads a journal may come here: an
import contract keeps replay, rebuild, apply and snapshot away. Ruled by ``behaviour`` 1.7 and
``sowctl-expressions(7)``, constructing fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sowctl.engine.extensions.functions import load_functions
from sowctl.errors import ConfigError, SowError
from sowctl.messages.base import SurrogateRefusal
from sowctl.values.fields import Refusal, Row

if TYPE_CHECKING:
    from sowctl.config.derived_entries import ConflatedTopic
    from sowctl.config.model import TopicConfig
    from sowctl.engine.instance import Instance
    from sowctl.expressions.context import Context
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.functions.signature import Function
    from sowctl.expressions.rows.constructedfields import ConstructedFields
    from sowctl.messages.base import MessageType
    from sowctl.messages.framing.envelope import Envelope
    from sowctl.values.fields import FieldWrite
    from sowctl.values.times import Micros

UNREADABLE_RECORD_CODE = "SOW-PUB-021"


class EnrichmentPhase:
    """The fields of one phase of one topic, over payloads."""

    def __init__(
        self,
        instance: Instance,
        topic: TopicConfig | ConflatedTopic,
        kind: MessageType,
        fields: ConstructedFields,
        client: str | None,
    ) -> None:
        self._instance = instance
        self._topic = topic.name
        self._type = kind
        self._fields = fields
        self._client = client
        self._read = kind.build_extractor(fields.slots)
        self._read_previous = kind.build_extractor(fields.previous_slots) if fields.previous_slots else None

    def apply(
        self,
        payloads: Sequence[bytes],
        now: Micros,
        *,
        envelopes: Sequence[Envelope] | None = None,
        previous: Sequence[bytes | None] | None = None,
        headers: Sequence[Header] | None = None,
    ) -> tuple[list[bytes], list[Refusal]]:
        """The payloads with their fields written, and the refusals of those that stay as they are.

        ``previous`` holds the stored messages, ``headers`` what is known of each; ``now`` is what the clock says.
        """
        rows, refusals = self._read(payloads)
        # A refused message stays in the columns as it is, so indexes mean the same messages all the way.
        refused = {refusal.index: refusal for refusal in refusals}
        before = self._read_previous_rows(previous, refused)
        if self._fields.uses_header and headers is None:
            headers = self.build_headers(payloads, envelopes)
        good = [index for index in range(len(payloads)) if index not in refused]
        # The clock's answer is fixed for the batch: two fields of a message see one time.
        environment = self._make_environment(now)
        found = list(payloads)
        for index, writes in self._compute_writes(good, rows, environment, headers, before, refused):
            try:
                # Every field was computed from the message as it was before (behaviour 1.7); only now is anything
                # written.
                found[index] = self._type.assign_fields(payloads[index], writes)
            except SowError as error:
                refused[index] = Refusal(index, error.code, error.message)
        return found, sorted(refused.values(), key=lambda refusal: refusal.index)

    def find_half_surrogates(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads in which a field that is read here holds half a surrogate pair."""
        if not payloads:
            return []
        read = self._type.build_key_extractor([slot.path for slot in self._fields.slots])
        return [refusal for refusal in read(payloads)[1] if isinstance(refusal, SurrogateRefusal)]

    def build_headers(self, payloads: Sequence[bytes], envelopes: Sequence[Envelope] | None) -> list[Header]:
        """Build the headers of messages that have no key yet."""
        from sowctl.expressions.environment import Header

        client = self._client
        return [
            Header(
                topic=self._topic,
                payload_size=len(payload),
                correlation_id=envelopes[index].correlation_id if envelopes else None,
                client_name=client or (envelopes[index].client if envelopes else None),
            )
            for index, payload in enumerate(payloads)
        ]

    @property
    def uses_header(self) -> bool:
        """Return whether a field reads anything besides the message."""
        return self._fields.uses_header

    def _read_previous_rows(
        self, previous: Sequence[bytes | None] | None, refused: dict[int, Refusal]
    ) -> list[Row | None] | None:
        """The rows of the stored messages; a message whose record cannot be read is refused."""
        if self._read_previous is None or previous is None:
            return None
        # Where there is no record, the row stays None and PREVIOUS is NULL (behaviour 1.7).
        there = [index for index, payload in enumerate(previous) if payload is not None]
        rows, refusals = self._read_previous([payload for payload in previous if payload is not None])
        found: list[Row | None] = [None] * len(previous)
        for index, row in zip(there, rows, strict=True):
            found[index] = row
        for refusal in refusals:
            index = there[refusal.index]
            text = f"the stored record with its key has an invalid message: {refusal.message}"
            refused.setdefault(index, Refusal(index, UNREADABLE_RECORD_CODE, text))
        return found

    def _compute_writes(
        self,
        good: list[int],
        rows: Sequence[Row],
        environment: Environment,
        headers: Sequence[Header] | None,
        before: list[Row | None] | None,
        refused: dict[int, Refusal],
    ) -> list[tuple[int, list[FieldWrite]]]:
        """Compute the texts that are written to each good message. Where a function or a pattern fails, one by one
        to find out where.
        """

        def of(indexes: list[int]) -> list[list[FieldWrite]]:
            return self._fields.compute_writes(
                [rows[index] for index in indexes],
                environment,
                [headers[index] for index in indexes] if headers is not None else None,
                [before[index] for index in indexes] if before is not None else None,
            )

        try:
            # All at once, as it mostly goes well. After an error one by one, so that a single message is refused for
            # it.
            return list(zip(good, of(good), strict=True))
        except SowError:
            found = []
        for index in good:
            try:
                found.append((index, of([index])[0]))
            except SowError as error:
                refused[index] = Refusal(index, error.code, error.message)
        return found

    def _make_environment(self, now: Micros) -> Environment:
        from sowctl.expressions.environment import DEFAULT_LIMITS, Environment

        config = self._instance.config
        return Environment(
            now=lambda: now,
            instance_name=config.name if config is not None else None,
            group_name=config.group if config is not None else None,
            random=self._instance.random,
            limits=self._instance.limits or DEFAULT_LIMITS,
        )


def compile_phases(
    instance: Instance, topic: TopicConfig, kind: MessageType, client: str | None
) -> tuple[EnrichmentPhase | None, EnrichmentPhase | None]:
    """The preprocessing and the enrichment of a topic, None where it has none.

    Raises ConfigError ``SOW-ENG-057`` for a field that cannot be compiled, ``SOW-ENG-058`` for a message type whose
    messages cannot be changed, ``SOW-ENG-059`` for a topic with a Pattern.
    """
    if topic.pattern is not None:
        raise ConfigError(
            "SOW-ENG-059",
            f"topic {topic.name!r} has a Pattern, which excludes Preprocessing and Enrichment",
            place=str(topic.place),
        )
    if not kind.constructible:
        raise ConfigError(
            "SOW-ENG-058",
            f"messages of type {topic.message_type} cannot be enriched, so topic {topic.name!r} cannot be published to",
            place=str(topic.place),
            hint="remove Preprocessing and Enrichment",
        )
    from sowctl.expressions.context import Context

    functions = load_functions(instance)
    found = []
    for texts, context in ((topic.preprocessing, Context.PREPROCESSING), (topic.enrichment, Context.ENRICHMENT)):
        fields = _compile_fields(topic, texts, context, functions) if texts else None
        found.append(None if fields is None else EnrichmentPhase(instance, topic, kind, fields, client))
    return found[0], found[1]


def compile_conflated_phase(instance: Instance, entry: ConflatedTopic) -> EnrichmentPhase:
    """The enrichment of a conflated topic that has one. Raises ConfigError as :func:`compile_phases`."""
    kind = instance.find_message_type(entry.message_type)
    if not kind.constructible:
        raise ConfigError(
            "SOW-ENG-058",
            f"messages of type {entry.message_type} cannot be enriched, so {entry.name!r} cannot be computed",
            place=str(entry.place),
            hint="remove Enrichment",
        )
    from sowctl.expressions.context import Context

    fields = _compile_fields(entry, entry.enrichment, Context.CONFLATED_ENRICHMENT, load_functions(instance))
    return EnrichmentPhase(instance, entry, kind, fields, None)


def _compile_fields(
    topic: TopicConfig | ConflatedTopic, texts: Sequence[str], context: Context, functions: Mapping[str, Function]
) -> ConstructedFields:
    from sowctl.expressions.compiler import compile_fields

    try:
        return compile_fields(texts, context, functions)
    except SowError as error:
        # Only a wrong text is the configuration's fault; anything else keeps its own kind of error.
        if error.exit_status != 2:
            raise
        raise ConfigError(
            "SOW-ENG-057",
            f"invalid constructed fields of topic {topic.name!r}: {error.message}",
            place=str(topic.place),
            hint="sowctl validate shows the position" if error.hint is None else error.hint,
            excerpt=error.excerpt,
        ) from error
