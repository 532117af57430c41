"""Preprocessing and enrichment: fields that the configuration constructs while a message is published.

Called only by the publish path. Journalled messages are final, so code that reads a journal must not use this module:
an import contract excludes replay, rebuild, apply and snapshot. Specified in ``behaviour`` 1.7 and
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
    """The constructed fields of one phase of one topic, applied to payloads."""

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
        """Return the payloads with their constructed fields, and the refusals of those that stay unchanged.

        ``previous`` are the stored messages, ``headers`` the headers of the new ones, ``now`` the time of the clock.
        """
        rows, refusals = self._read(payloads)
        # Refused messages stay in the columns, so an index means the same message in all steps.
        refused = {refusal.index: refusal for refusal in refusals}
        before = self._read_previous_rows(previous, refused)
        if self._fields.uses_header and headers is None:
            headers = self.build_headers(payloads, envelopes)
        good = [index for index in range(len(payloads)) if index not in refused]
        # The time is fixed for the batch: all fields of a message see the same time.
        environment = self._make_environment(now)
        found = list(payloads)
        for index, writes in self._compute_writes(good, rows, environment, headers, before, refused):
            try:
                # All fields are computed from the original message before any is written (behaviour 1.7).
                found[index] = self._type.assign_fields(payloads[index], writes)
            except SowError as error:
                refused[index] = Refusal(index, error.code, error.message)
        return found, sorted(refused.values(), key=lambda refusal: refusal.index)

    def find_half_surrogates(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """Return refusals of the payloads in which a field that this phase reads has half a surrogate pair."""
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
        """Return the rows of the stored messages; a message whose record cannot be read is refused."""
        if self._read_previous is None or previous is None:
            return None
        # Without a record, the row stays None and PREVIOUS is NULL (behaviour 1.7).
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
        """Compute the fields of each good message. If a function or a pattern fails, messages are processed one by one
        to find the failing ones, which are added to ``refused``.
        """

        def of(indexes: list[int]) -> list[list[FieldWrite]]:
            return self._fields.compute_writes(
                [rows[index] for index in indexes],
                environment,
                [headers[index] for index in indexes] if headers is not None else None,
                [before[index] for index in indexes] if before is not None else None,
            )

        try:
            # All in one step, which usually succeeds. After an error, one by one, so that only the messages that cause
            # it are refused.
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
    """Compile the preprocessing and the enrichment of a topic; None for a phase that it does not have.

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
    """Compile the enrichment of a conflated topic that has one. Raises ConfigError as :func:`compile_phases`."""
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
        # Only invalid texts are errors of the configuration; any other error keeps its type.
        if error.exit_status != 2:
            raise
        raise ConfigError(
            "SOW-ENG-057",
            f"invalid constructed fields of topic {topic.name!r}: {error.message}",
            place=str(topic.place),
            hint="sowctl validate shows the position" if error.hint is None else error.hint,
            excerpt=error.excerpt,
        ) from error
