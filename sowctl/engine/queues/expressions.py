"""Filter, Priority and BarrierExpression, evaluated on the messages of a block (``behaviour`` 5.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sowctl.values.scalars import to_number

if TYPE_CHECKING:
    from sowctl.config.derived_entries import Queue
    from sowctl.engine.instance import Instance
    from sowctl.expressions.compiler import Filter
    from sowctl.expressions.environment import Environment, Header
    from sowctl.expressions.rows.program import CompiledValue
    from sowctl.messages.base import Extractor
    from sowctl.values.fields import Refusal, Row, SlotValue

MAX_PRIORITY = (1 << 64) - 1


class QueueExpressions:
    """The compiled expressions of a queue. Raises ExpressionError for an invalid one."""

    def __init__(self, instance: Instance, queue: Queue) -> None:
        self.needed = bool(queue.filter or queue.priority or queue.barrier)
        self._type = instance.find_message_type(queue.message_type)
        self._filter: Filter | None = None
        self._barrier: Filter | None = None
        self._priority: CompiledValue | None = None
        self._readers: dict[int, Extractor] = {}
        if not self.needed:
            return
        from sowctl.engine.search.matcher import build_environment

        self._environment: Environment = build_environment(instance, endless=True)
        from sowctl.engine.extensions.functions import load_functions
        from sowctl.expressions.compiler import compile_filter, compile_value
        from sowctl.expressions.context import Context

        extra = load_functions(instance)
        if queue.filter:
            self._filter = compile_filter(queue.filter, Context.QUEUE_FILTER, extra)
        if queue.barrier:
            self._barrier = compile_filter(queue.barrier, Context.BARRIER, extra)
        if queue.priority:
            self._priority = compile_value(queue.priority, Context.QUEUE_PRIORITY, extra)

    @property
    def uses_header(self) -> bool:
        """True if an expression reads more than fields of the message."""
        compiled = (self._filter, self._barrier, self._priority)
        return any(one is not None and one.uses_header for one in compiled)

    @property
    def has_priority(self) -> bool:
        """True if messages have priorities."""
        return self._priority is not None

    def find_matching(self, payloads: Sequence[bytes], headers: Sequence[Header] | None) -> Sequence[int]:
        """Return the indexes of the messages that match the Filter; an invalid message does not match."""
        return self._find_true(self._filter, payloads, headers)

    def find_barriers(self, payloads: Sequence[bytes], headers: Sequence[Header] | None) -> frozenset[int]:
        """Return the indexes of the messages that are barriers."""
        if self._barrier is None:
            return frozenset()
        return frozenset(self._find_true(self._barrier, payloads, headers))

    def compute_priorities(self, payloads: Sequence[bytes], headers: Sequence[Header] | None) -> list[int]:
        """Return the priority of each message, 0 to 2**64 - 1; 0 for NULL, NaN, a non-number or an invalid message."""
        assert self._priority is not None
        rows, refused = self._read_slots(self._priority, payloads)
        values = self._priority.compute_values(rows, self._environment, headers)
        found = [_convert_to_unsigned(value) for value in values]
        for refusal in refused:
            found[refusal.index] = 0
        return found

    def _find_true(
        self, test: Filter | None, payloads: Sequence[bytes], headers: Sequence[Header] | None
    ) -> Sequence[int]:
        if test is None:
            return range(len(payloads))
        rows, refused = self._read_slots(test, payloads)
        found = test.find_matches(rows, self._environment, headers)
        if not refused:
            return found
        unread = {refusal.index for refusal in refused}
        return [index for index in found if index not in unread]

    def _read_slots(
        self, compiled: Filter | CompiledValue, payloads: Sequence[bytes]
    ) -> tuple[list[Row], list[Refusal]]:
        if not compiled.slots:
            return [()] * len(payloads), []
        reader = self._readers.get(id(compiled))
        if reader is None:
            reader = self._readers[id(compiled)] = self._type.build_extractor(compiled.slots)
        return reader(payloads)


def _convert_to_unsigned(value: SlotValue) -> int:
    """Return a value as an unsigned long: negative values are 0, fractions are truncated."""
    number = to_number(value)
    if number is None or number != number or number <= 0:
        return 0
    return min(int(number), MAX_PRIORITY) if number < MAX_PRIORITY else MAX_PRIORITY
