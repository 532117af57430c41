"""Evaluates a compiled expression on the columns of a batch, node by node, bottom-up, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec import Struct

from sowctl.errors import LimitError
from sowctl.expressions.checker import NO_FUNCTIONS
from sowctl.expressions.columns import arithmetic, comparison, functions, logic
from sowctl.expressions.columns.fallback import NodeFallback
from sowctl.expressions.columns.kernels import Unsuited, build_constant, build_truth_column
from sowctl.expressions.compiler import Filter, compile_filter, compile_value
from sowctl.expressions.environment import TIME_LIMIT_CODE, Environment, Header
from sowctl.expressions.functions import Function
from sowctl.expressions.rewrites.rewriter import AppliedRewrite, list_conjuncts, rewrite_expression
from sowctl.expressions.rows.arithmetic import OPERATORS, negate_value
from sowctl.expressions.rows.comparison import COMPARISONS
from sowctl.expressions.rows.program import CompiledExpression, CompiledValue
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.errors import BoundExceededError
from sowctl.expressions.syntax.trees import walk_bottom_up
from sowctl.values.batch import ColumnBatch
from sowctl.values.column import Array, Column, Kind, build_column
from sowctl.values.fields import Row, Slot
from sowctl.values.scalars import is_null

_MAX_SHOWN_CHARACTERS = 60


class _SlotStep(Struct, frozen=True):
    """A step that reads the column of a field."""

    place: int
    previous: bool


class ColumnProgram:
    """The columnar evaluator of one compiled filter or value."""

    def __init__(self, compiled: CompiledExpression, extra: Mapping[str, Function] = NO_FUNCTIONS) -> None:
        self.compiled = compiled
        pairs = zip(compiled.slots, compiled.sources, strict=True)
        # A qualifier is part of a field's identity: two topics of a join may have fields of the same name.
        slots = {(source, str(slot.path)): place for place, (slot, source) in enumerate(pairs)}
        previous = {str(slot.path): place for place, slot in enumerate(compiled.previous_slots)}
        self._steps: list[Column | _SlotStep | NodeFallback] = []
        # Operands precede the node that uses them, so the steps run on a stack of columns. The rewrites add no new
        # field: every field is among the slots of the compiled expression.
        for node in walk_bottom_up(rewrite_expression(compiled.node)) if compiled.node is not None else ():
            if isinstance(node, n.Literal):
                self._steps.append(build_constant(node.value or None if isinstance(node.value, bytes) else node.value))
            elif isinstance(node, n.Field) and node.modifier == "PREVIOUS":
                self._steps.append(_SlotStep(previous[str(node.path)], True))
            elif isinstance(node, n.Field):
                self._steps.append(_SlotStep(slots[node.qualifier, str(node.path)], False))
            elif not isinstance(node, n.Pattern):
                self._steps.append(NodeFallback(node, extra))
        self._notes: dict[str, None] = {}

    def build_batch(self, rows: Sequence[Row], previous: Sequence[Row | None] = ()) -> ColumnBatch:
        """The batch of rows in the order of the compiled expression's slots."""
        return ColumnBatch.from_rows(rows, len(self.compiled.slots), previous, len(self.compiled.previous_slots))

    def list_fallbacks(self) -> list[str]:
        """List the nodes that the last evaluation passed to the row evaluator, and why; empty if all ran on columns."""
        return list(self._notes)

    def list_row_nodes(self) -> list[n.Node]:
        """The nodes that the row evaluator always evaluates: once per text if only one column varies, else by rows.

        Which other nodes it evaluates depends on the content of the columns; see :meth:`list_fallbacks` afterwards.
        """
        nodes = [step.node for step in self._steps if isinstance(step, NodeFallback)]
        return [node for node in nodes if not _has_kernel(node)]

    def evaluate_mask(self, batch: ColumnBatch, env: Environment, headers: Sequence[Header] | None = None) -> Array:
        """For a filter: one Boolean per message, whether it matches.

        Raises LimitError ``SOW-EXP-030``, which contains the index, if a pattern exceeds the match limit.
        """
        if not self._steps:
            # The empty filter matches everything.
            return np.ones(batch.size, np.bool_)
        steps = env.steps
        try:
            # On columns every operand of AND and OR is evaluated for every row, also if the row evaluator would have
            # stopped.
            return logic.to_truths(self._run_steps(batch, env, headers)).build_mask(batch.size)
        except LimitError as error:
            if error.code == TIME_LIMIT_CODE:
                raise
            env.reset_steps(steps)
            # Perhaps only on a row that the row evaluator never evaluates.
            assert isinstance(self.compiled, Filter)
            found = self.compiled.find_matches(batch.read_rows(), env, headers)
        mask = np.zeros(batch.size, np.bool_)
        mask[found] = True
        return mask

    def evaluate_column(self, batch: ColumnBatch, env: Environment, headers: Sequence[Header] | None = None) -> Column:
        """For a value: the column of its scalars; of size 1 if it is the same for all messages.

        Raises LimitError as :meth:`evaluate_mask` does.
        """
        steps = env.steps
        try:
            return self._run_steps(batch, env, headers).scalars
        except LimitError as error:
            if error.code == TIME_LIMIT_CODE:
                raise
            env.reset_steps(steps)
            assert isinstance(self.compiled, CompiledValue)
            return build_column(
                self.compiled.compute_values(batch.read_rows(), env, headers, batch.read_previous_rows())
            )

    def _run_steps(self, batch: ColumnBatch, env: Environment, headers: Sequence[Header] | None) -> Column:
        if env.limits.seconds is not None:
            try:
                env.begin_batch()
            except BoundExceededError as error:
                raise error.at(0) from None
        # The notes are those of the last batch: nodes that one batch leaves to rows may run on columns in another.
        self._notes.clear()
        stack: list[Column] = []
        for step in self._steps:
            if isinstance(step, Column):
                stack.append(step)
            elif isinstance(step, _SlotStep):
                stack.append(batch.read_column(step.place, previous=step.previous))
            else:
                # The last columns of the stack are the operands, because operands are evaluated immediately before
                # their node.
                operands = stack[len(stack) - step.count :]
                del stack[len(stack) - step.count :]
                stack.append(self._evaluate_step(step, operands, batch.size, env, headers))
        return stack[0]

    def _evaluate_step(
        self, step: NodeFallback, operands: list[Column], size: int, env: Environment, headers: Sequence[Header] | None
    ) -> Column:
        node = step.node
        if isinstance(node, n.Logic):
            # The methods in their order: on whole columns, once per distinct text, row by row. Results are the same.
            return logic.evaluate_and(operands) if node.operator == "AND" else logic.evaluate_or(operands)
        if isinstance(node, n.Arithmetic):
            return self._evaluate_arithmetic(node, operands, size)
        why = "no vectorised form"
        kernel = _NODE_KERNELS.get(type(node))
        if kernel is not None:
            try:
                found = kernel(node, operands, size)
                if found is not None:
                    return found
            except Unsuited as reason:
                why = str(reason)
        # A column of texts often has few distinct ones: each is evaluated once.
        found = step.evaluate_words(operands, env)
        if found is not None:
            self._note_fallback("texts", node, f"evaluated once per distinct text ({_count_words(operands)})")
            return found
        found = step.evaluate_rows(operands, size, env, headers)
        if not found.constant:
            self._note_fallback("rows", node, why)
        return found

    def _evaluate_arithmetic(self, node: n.Arithmetic, operands: list[Column], size: int) -> Column:
        left = operands[0]
        for operator, right in zip(node.operators, operands[1:], strict=True):
            try:
                # Step by step: one pair of operands that needs rows does not force the rest of the chain to rows.
                left = arithmetic.apply_operator(operator, left, right)
            except Unsuited as reason:
                constant = left.constant and right.constant
                count = 1 if constant else size
                pairs = map(OPERATORS[operator], left.repeat_values(count), right.repeat_values(count))
                left = build_column(list(pairs), constant=constant)
                if not constant:
                    self._note_fallback("rows", node, str(reason))
        return left

    def _note_fallback(self, how: str, node: n.Node, why: str) -> None:
        text = str(node)
        shown = text if len(text) <= _MAX_SHOWN_CHARACTERS else text[: _MAX_SHOWN_CHARACTERS - 3] + "..."
        self._notes[f"{how}: {shown}: {why}"] = None


def _count_words(operands: Sequence[Column]) -> int:
    return max(len(operand.words) for operand in operands if not operand.constant)


def _kernel_not(node: n.Not, operands: list[Column], size: int) -> Column:
    return logic.evaluate_not(operands[0])


def _kernel_unary(node: n.Unary, operands: list[Column], size: int) -> Column:
    if node.operator == "-":
        if operands[0].constant:
            return build_constant(negate_value(operands[0].read_values()[0]))
        return arithmetic.negate_column(operands[0])
    return arithmetic.to_numbers(operands[0]).strip_source()


def _kernel_compare(node: n.Compare, operands: list[Column], size: int) -> Column:
    left, right = operands
    if left.constant and right.constant:
        return build_constant(COMPARISONS[node.operator](left.read_values()[0], right.read_values()[0]))
    if Kind.STRING in (left.kind, right.kind) and left.kind is not right.kind:
        text, other = (left, right) if left.kind is Kind.STRING else (right, left)
        # Texts against one number: evaluation once per distinct text is cheaper, which Unsuited causes.
        if not text.constant and other.constant and other.kind is not Kind.NULL:
            raise Unsuited("texts against a number")
    return build_truth_column(comparison.compare_columns(node.operator, left, right))


def _kernel_between(node: n.Between, operands: list[Column], size: int) -> Column:
    value, low, high = operands
    if value.constant:
        raise Unsuited("a constant between columns")
    if value.kind is Kind.STRING and not (low.kind is high.kind is Kind.STRING):
        raise Unsuited("texts between numbers")
    # Both tests are Booleans without NULL, so NOT BETWEEN is their complement.
    mask = comparison.compare_columns(">=", value, low) & comparison.compare_columns("<=", value, high)
    return build_truth_column(~mask if node.negated else mask)


def _kernel_in(node: n.In, operands: list[Column], size: int) -> Column | None:
    value, members = operands[0], node.items
    # Texts are evaluated once per distinct one, constants once; the caller does both.
    if value.constant or value.kind is Kind.STRING or not all(isinstance(item, n.Literal) for item in members):
        return None
    if value.kind is Kind.NULL:
        return build_truth_column(np.full(1, node.negated))
    mask = comparison.find_members(value, [item.value for item in members if isinstance(item, n.Literal)])
    return build_truth_column(~mask if node.negated else mask)


def _kernel_is(node: n.Is, operands: list[Column], size: int) -> Column:
    column = operands[0]
    if column.kind is Kind.ROWS and node.what == "NULL" and isinstance(node.operand, n.Field):
        # A bare field is NULL only if all its values are, which the column of first values does not contain.
        mask = np.fromiter(map(is_null, column.read_values()), np.bool_, column.size)
    elif column.scalars.kind is Kind.ROWS:
        raise Unsuited("values of several kinds")
    else:
        mask = (logic.find_nulls if node.what == "NULL" else logic.find_nans)(column.scalars)
    return build_truth_column(~mask if node.negated else mask)


def _kernel_call(node: n.Call, operands: list[Column], size: int) -> Column | None:
    if node.name == "IF":
        return logic.choose_values(_true_mask(operands[0]), operands[1], operands[2], size)
    if node.name == "COALESCE":
        found = operands[-1].scalars
        # From the last argument to the first: each fills the places at which all before it are NULL.
        for operand in reversed(operands[:-1]):
            scalars = operand.scalars
            if scalars.kind is Kind.ROWS:
                raise Unsuited("values of several kinds")
            found = logic.choose_values(~logic.find_nulls(scalars), scalars, found, size)
        return found
    # None leaves a function without a kernel, or of a constant, to the row evaluator.
    if node.name in functions.KERNEL_NAMES and not operands[0].constant:
        return functions.apply_function(node.name, operands[0])
    return None


def _true_mask(column: Column) -> Array:
    found = logic.to_truths(column)
    return np.zeros(1, np.bool_) if found.kind is Kind.NULL else found.data


_NODE_KERNELS: dict[type[n.Node], Callable[..., Column | None]] = {
    n.Not: _kernel_not,
    n.Unary: _kernel_unary,
    n.Compare: _kernel_compare,
    n.Between: _kernel_between,
    n.In: _kernel_in,
    n.Is: _kernel_is,
    n.Call: _kernel_call,
}


def _has_kernel(node: n.Node) -> bool:
    if isinstance(node, n.Call):
        return node.name in ("IF", "COALESCE") or node.name in functions.KERNEL_NAMES
    return isinstance(node, n.Logic | n.Arithmetic) or type(node) in _NODE_KERNELS


def explain_expression(text: str, *, as_filter: bool, functions: Mapping[str, Function] | None = None) -> list[str]:
    """Explain an evaluation in lines of text: canonical form, rewrites, fields, columns, generated code.

    ``functions`` are those of loaded modules. Raises ExpressionError.
    """
    extra = {} if functions is None else functions
    compiled = compile_filter(text, extra=extra) if as_filter else compile_value(text, extra=extra)
    if compiled.node is None:
        return ["expression  (empty: matches everything)"]
    steps: list[AppliedRewrite] = []
    node = rewrite_expression(compiled.node, steps)
    lines = [f"expression  {compiled.node}"]
    lines += [f"rewrite     {step.name}: {step.before}  ->  {step.after}" for step in steps]
    if steps:
        lines.append(f"rewritten   {node}")
    if as_filter:
        lines += [f"condition   {condition}" for condition in list_conjuncts(compiled.node)]
    lines += [_format_slot(slot) for slot in compiled.slots] or ["field       none"]
    if compiled.uses_header:
        lines.append("header      the record's header is read")
    lines += [
        f"columns     row by row, or once for each distinct text: {node}"
        for node in ColumnProgram(compiled).list_row_nodes()
    ] or ["columns     all of it, where the values of a field are of one kind"]
    lines += [f"plan        {line}" for line in compiled.source.splitlines()]
    return lines


def _format_slot(slot: Slot) -> str:
    wanted = [word for word, asked in (("original text", slot.text), ("all values", slot.listed)) if asked]
    return f"field       {slot.path}" + (f"  ({', '.join(wanted)})" if wanted else "")
