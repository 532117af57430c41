"""Compiles nodes to Python: values, truth values and calls. Predicates are compiled by ``predicates.py``."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sowctl.expressions.functions import FUNCTIONS, Function
from sowctl.expressions.rows.code import MAX_INDENTATION, Emission, GeneratedCode, Operand
from sowctl.expressions.rows.predicates import PREDICATE_EMITTERS, TRUTH_KINDS
from sowctl.expressions.rows.runtime import ARITHMETIC_NAMES, RUNTIME_NAMES
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.patterns import Matcher, RegexPattern, compile_pattern
from sowctl.values.scalars import to_truth

_CONVERSION_NAMES = {"number": "number_of", "double": "double_of", "integer": "integer_of", "text": "text_of"}
_MAX_CHAIN_OPERANDS = 40
"""Operands of a longer chain of AND or OR are grouped, so that evaluation ends quickly once the chain is decided."""
LONG_CHAIN_GROUPS = 1000
"""The groups of a longer chain are functions, compiled one by one: CPython needs much memory for one long function."""


class Emitter:
    """Writes one expression into a :class:`GeneratedCode`."""

    def __init__(self, text: str, extra: Mapping[str, Function]) -> None:
        self.text = text
        self.extra = extra
        self.code = GeneratedCode()

    def emit_value(self, node: n.Node, text: bool = False) -> Emission:
        """Emit a node's value; ``text``: the original text of a number may be needed."""
        if isinstance(node, n.Field):
            return self.code.bind_slot(node, text, False)
        if isinstance(node, n.Literal):
            return self.code.bind_constant(node.value or None if isinstance(node.value, bytes) else node.value)
        if isinstance(node, n.Unary):
            return (yield self._emit_unary(node))
        if isinstance(node, n.Arithmetic):
            return (yield self._emit_arithmetic(node))
        if isinstance(node, n.Logic):
            return (yield self._emit_logic(node))
        if isinstance(node, n.Not):
            return (yield self._emit_not(node))
        if isinstance(node, n.Call):
            return (yield self._emit_call(node, text))
        return (yield PREDICATE_EMITTERS[type(node)](self, node))

    def emit_truth(self, node: n.Node) -> Emission:
        """Emit a node's truth value: an operand of kind ``bool``, ``emit_truth`` or ``const``."""
        operand: Operand = yield self.emit_value(node)
        return self.convert_to_truth(operand)

    def convert_to_truth(self, operand: Operand) -> Operand:
        """The truth value of an operand."""
        if operand.kind in TRUTH_KINDS:
            return operand
        if operand.kind == "const":
            return self.code.bind_constant(to_truth(operand.value))
        return Operand(f"truth_of({operand.code})", "truth", False)

    def convert_to_scalar(self, operand: Operand) -> Operand:
        """The scalar of an operand, as :func:`~sowctl.values.scalars.to_scalar`, in most cases without a call."""
        if operand.kind != "slot":
            return operand
        x = self.code.make_repeatable(operand).code
        # Plain strings and numbers need no call. Everything else (bytes, lists, Booleans, numbers with a text) is
        # passed to first().
        text = f"{x} or None if type({x}) is str"
        return Operand(f"({text} else {x} if type({x}) is int or type({x}) is float else first({x}))", "scalar", False)

    def emit_block(self, body: Emission, target: str, apart: bool = False) -> Emission:
        """Emit ``body`` one level deeper and assign its result to ``target``; as a function if ``apart`` or too
        deep."""
        code = self.code
        code.indent += 1
        # The indentation is restored below, also after blocks that became functions, whose lines are kept separately.
        result: Operand = yield code.emit_function(body) if apart or code.indent > MAX_INDENTATION else body
        code.add_line(f"{target} = {result.code}")
        code.indent -= 1
        return result.kind

    # arithmetic -----------------------------------------------------------------------------------------------------

    def _emit_unary(self, node: n.Unary) -> Emission:
        operand: Operand = yield self.emit_value(node.operand)
        name = "neg" if node.operator == "-" else "number_of"
        if operand.kind == "const":
            # A literal is converted now, by the function that the generated code would call.
            return self.code.bind_constant(RUNTIME_NAMES[name](operand.value))
        return self.code.bind_local(f"{name}({operand.code})", "number")

    def _emit_arithmetic(self, node: n.Arithmetic) -> Emission:
        left: Operand = yield self.emit_value(node.operands[0])
        left = self.code.make_repeatable(left)
        for operator, operand in zip(node.operators, node.operands[1:], strict=True):
            right: Operand = yield self.emit_value(operand)
            left = self._emit_operation(operator, left, self.code.make_repeatable(right))
        return left

    def _emit_operation(self, operator: str, left: Operand, right: Operand) -> Operand:
        name = ARITHMETIC_NAMES[operator]
        # Folded by the function that rows would call, so that both methods have the same result.
        if left.kind == right.kind == "const":
            return self.code.bind_constant(RUNTIME_NAMES[name](left.value, right.value))
        general = f"{name}({left.code}, {right.code})"
        test = _inexact_test(operator, left, right)
        if test is not None:
            general = f"{left.code} {operator} {right.code} if {test} else {general}"
        return self.code.bind_local(general, "number")

    # logic ----------------------------------------------------------------------------------------------------------

    def _emit_not(self, node: n.Not) -> Emission:
        operand: Operand = yield self.emit_truth(node.operand)
        if operand.kind == "const":
            return self.code.bind_constant(None if operand.value is None else not operand.value)
        # A predicate is never NULL: Python's ``not`` suffices.
        if operand.kind == "bool":
            return self.code.bind_local(f"not {operand.code}", "bool")
        operand = self.code.make_repeatable(operand)
        return self.code.bind_local(f"None if {operand.code} is None else not {operand.code}", "truth")

    def _emit_logic(self, node: n.Logic) -> Emission:
        # AND continues while the result is TRUE, OR while it is FALSE; NULL ends both, as the language defines: on the
        # left of AND and OR it stays NULL whatever follows. So ``if t:`` and ``if t is False:`` are the complete rule.
        operands = _group_chain(node)
        target = self.code.name_local()
        undecided = f"if {target}:" if node.operator == "AND" else f"if {target} is False:"
        apart = len(node.operands) > LONG_CHAIN_GROUPS
        first: Operand = (
            yield self.code.emit_function(self.emit_truth(operands[0])) if apart else self.emit_truth(operands[0])
        )
        self.code.add_line(f"{target} = {first.code}")
        kinds = {_truth_kind(first)}
        for operand in operands[1:]:
            self.code.add_line(undecided)
            kind = yield self.emit_block(self.emit_truth(operand), target, apart)
            # If one operand may be NULL, the chain may be NULL.
            kinds.add("truth" if kind == "const" else kind)
        return Operand(target, "bool" if kinds == {"bool"} else "truth")

    # calls ----------------------------------------------------------------------------------------------------------

    def _emit_call(self, node: n.Call, text: bool) -> Emission:
        if node.name == "IF":
            return (yield self._emit_if(node, text))
        if node.name == "COALESCE":
            return (yield self._emit_coalesce(node, text))
        # Built-in names have precedence, so a module cannot change the meaning of a text; the check ensures that one
        # exists.
        function = FUNCTIONS.get(node.name) or self.extra[node.name]
        arguments = []
        for position, argument in enumerate(node.arguments):
            operand: Operand = yield self._emit_argument(function, position, argument, text)
            arguments.append(operand)
        return self._emit_invocation(function, arguments)

    def _emit_if(self, node: n.Call, text: bool) -> Emission:
        condition: Operand = yield self.emit_truth(node.arguments[0])
        target = self.code.name_local()
        self.code.add_line(f"if {condition.code}:")
        # Only the chosen branch is evaluated: the other may fail or be expensive.
        then = yield self.emit_block(self._emit_scalar(node.arguments[1], text), target)
        self.code.add_line("else:")
        other = yield self.emit_block(self._emit_scalar(node.arguments[2], text), target)
        # Both branches are of one kind: later code keeps its fast path for that kind.
        return Operand(target, then if then == other and then != "const" else "scalar")

    def _emit_coalesce(self, node: n.Call, text: bool) -> Emission:
        first: Operand = yield self._emit_scalar(node.arguments[0], text)
        target = self.code.name_local()
        self.code.add_line(f"{target} = {first.code}")
        for argument in node.arguments[1:]:
            self.code.add_line(f"if {target} is None:")
            # The next argument is evaluated only if all before it were NULL.
            yield self.emit_block(self._emit_scalar(argument, text), target)
        return Operand(target, "scalar")

    def _emit_scalar(self, node: n.Node, text: bool) -> Emission:
        operand: Operand = yield self.emit_value(node, text)
        return self.convert_to_scalar(operand)

    def _emit_argument(self, function: Function, position: int, node: n.Node, text: bool) -> Emission:
        kind = function.find_argument_kind(position)
        if isinstance(node, n.Pattern):
            return Operand(self.code.bind_object(self.compile_matcher(node)), "pattern")
        if kind == "values":
            return (yield self._emit_values(function, node, text))
        # The original text of a number is requested only if a text is needed, because keeping it slows down the reader
        # of messages.
        operand: Operand = yield self.emit_value(node, kind == "text" or (kind == "scalar" and text))
        if kind == "scalar":
            return self.code.make_repeatable(self.convert_to_scalar(operand))
        if operand.kind == "const":
            return self.code.bind_constant(RUNTIME_NAMES[_CONVERSION_NAMES[kind]](operand.value))
        # The operand is already of this kind, so no conversion is needed.
        if operand.kind == kind:
            return operand
        return self.code.bind_local(f"{_CONVERSION_NAMES[kind]}({operand.code})", kind)

    def _emit_values(self, function: Function, node: n.Node, text: bool) -> Emission:
        if isinstance(node, n.Field):
            # A list whose values become the result unchanged must keep the original texts of its numbers.
            wanted = function.result == "text" or (function.result == "scalar" and text)
            return Operand(f"items_of({self.code.bind_slot(node, wanted, True).code})", "values", False)
        operand: Operand = yield self._emit_scalar(node, True)
        return Operand(f"items_of({operand.code})", "values", False)

    def compile_matcher(self, pattern: n.Pattern) -> Matcher | None:
        """The compiled pattern; notes that a match may exceed the limit."""
        found = compile_pattern(pattern, self.text)
        if isinstance(found, RegexPattern):
            self.code.is_bounded = True
            self.code.matchers.append(found)
        return found

    def _emit_invocation(self, function: Function, arguments: list[Operand]) -> Operand:
        code = [argument.code for argument in arguments]
        # An argument that does not come from the message is first: the record's header, or the run's environment.
        if function.gets:
            self.code.uses_header |= function.gets == "header"
            self.code.is_bounded |= function.gets == "bounds"
            code.insert(0, "header" if function.gets == "header" else "env")
        call = f"{self.code.bind_object(function.call, 'g')}({', '.join(code)})"
        if function.result == "text":
            call = f"{call} or None"
        # A strict function is NULL if an argument is NULL, and is then not called.
        if function.strict:
            # Constants other than NULL need no test in every row.
            doubtful = [a for a in arguments if not (a.kind == "const" and a.value is not None)]
            nulls = " or ".join(f"{argument.code} is None" for argument in doubtful)
            call = f"None if {nulls} else {call}" if nulls else call
        kind = {"text": "text", "number": "number", "truth": "truth"}.get(function.result, "slot")
        return self.code.bind_local(call, kind)


def _inexact_test(operator: str, left: Operand, right: Operand) -> str | None:
    """The test under which Python's own operator gives the result of the language: one operand is a Double."""
    # If an operand is a Double, Python computes the result of the language without a call; for two Integers the
    # range must be checked. % differs in sign, and a division by zero must not raise: those use the functions.
    if operator == "%" or (operator == "/" and not right.value):
        return None
    if left.kind != "const" and right.kind != "const":
        x, y = f"type({left.code})", f"type({right.code})"
        return f"{x} is float and ({y} is float or {y} is int) or {x} is int and {y} is float"
    known, other = (left, right) if left.kind == "const" else (right, left)
    if type(known.value) is int:
        return f"type({other.code}) is float"
    if type(known.value) is float and math.isfinite(known.value):
        return f"type({other.code}) is float or type({other.code}) is int"
    return None


def _truth_kind(operand: Operand) -> str:
    return "truth" if operand.kind == "const" else operand.kind


def _group_chain(node: n.Logic) -> tuple[n.Node, ...]:
    """The operands of a long chain in groups: both operators are associative."""
    operands = node.operands
    if len(operands) <= _MAX_CHAIN_OPERANDS:
        return operands
    # Groups of about the square root of the length: a decided chain skips the rest of its group and then the groups.
    size = max(_MAX_CHAIN_OPERANDS, math.isqrt(len(operands)) + 1)
    groups = [operands[start : start + size] for start in range(0, len(operands), size)]
    return tuple(n.Logic(node.operator, group) if len(group) > 1 else group[0] for group in groups)
