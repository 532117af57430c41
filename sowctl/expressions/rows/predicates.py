"""Compiles predicates to Python: each becomes one expression that is True or False, with fast paths by type.

The fast paths implement the scalar rule of ``values/scalars.py`` for the plain types; everything else is evaluated by
the general functions of ``comparison.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sowctl.expressions.rows.code import Emission, GeneratedCode, Operand
from sowctl.expressions.rows.comparison import InMembers
from sowctl.expressions.rows.runtime import COMPARE_NAMES, RUNTIME_NAMES
from sowctl.expressions.syntax import nodes as n
from sowctl.expressions.syntax.patterns import Matcher, PlainPattern
from sowctl.values.scalars import parse_number, to_text

TRUTH_KINDS = ("bool", "truth")
_PYTHON_OPERATORS = {"=": "==", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class PredicateEmitter(Protocol):
    """The interface of the emitter that predicates call."""

    code: GeneratedCode

    def emit_value(self, node: n.Node, text: bool = False) -> Emission:
        """Emit the value of an operand."""
        ...

    def emit_block(self, body: Emission, target: str, apart: bool = False) -> Emission:
        """Emit ``body`` one level deeper and assign its result to ``target``."""
        ...

    def compile_matcher(self, pattern: n.Pattern) -> Matcher | None:
        """The compiled pattern of LIKE."""
        ...


def _boolean_operand(code: str, negated: bool = False) -> Operand:
    return Operand(f"not {code}" if negated else code, "bool", False)


def _decode_literal(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def emit_comparison(emitter: PredicateEmitter, operator: str, left: Operand, right: Operand) -> str:
    """Code of ``left operator right``; both operands are simple."""
    if left.kind == "const" and right.kind == "const":
        return emitter.code.bind_constant(RUNTIME_NAMES[COMPARE_NAMES[operator]](left.value, right.value)).code
    # The literal is moved to the right, with the operator swapped, so that one set of fast paths handles both orders.
    if left.kind == "const":
        left, right, operator = right, left, n.SWAPPED_OPERATORS[operator]
    general = f"{COMPARE_NAMES[operator]}({left.code}, {right.code})"
    if right.kind == "const":
        return _compare_with_literal(emitter, operator, left, right, general)
    x, y, sign = left.code, right.code, _PYTHON_OPERATORS[operator]
    # Python compares Integers with Doubles exactly, and NaN as the language does; only None must be excluded.
    if left.kind == right.kind == "number":
        return f"({x} is not None and {y} is not None and {x} {sign} {y})"
    if left.kind == right.kind == "text":
        return f"({x} is not None and {y} is not None and {x} {sign} {y})"
    if left.kind in ("slot", "number") and right.kind in ("slot", "number"):
        return f"({x} {sign} {y} if type({x}) is float and type({y}) is float else {general})"
    return general


def _compare_with_literal(emitter: PredicateEmitter, operator: str, left: Operand, right: Operand, general: str) -> str:
    x, c, sign = left.code, right.code, _PYTHON_OPERATORS[operator]
    # NaN is not among these literals: it uses the general function.
    if _is_number(right.value):
        if left.kind == "number":
            return f"({x} is not None and {x} {sign} {c})"
        if left.kind == "bool":
            return f"({x} {sign} {c})"
        if left.kind in ("slot", "scalar"):
            # type() instead of isinstance(): for isinstance() a bool is an int, and numbers with a text are separate
            # classes.
            return f"({x} {sign} {c} if type({x}) is float or type({x}) is int else {general})"
    if isinstance(right.value, bytes):
        if left.kind == "text":
            # None equals no bytes, so only the other operators must test for it.
            return f"({x} == {c})" if operator == "=" else f"({x} is not None and {x} {sign} {c})"
        # Most texts are str. UTF-8 sorts by code points, so the literal is decoded once instead of encoding every
        # value. A literal that is not UTF-8 has no str and uses the general function.
        word = _decode_literal(right.value)
        if word is not None and left.kind in ("slot", "scalar"):
            w = emitter.code.bind_constant(word).code
            # Only the empty string, which is NULL, needs a separate test, and "=" and ">" exclude it already.
            test = f"{x} {sign} {w}" if operator in ("=", ">", ">=") else f"'' != {x} {sign} {w}"
            numeric = _compare_number_with_text(emitter, operator, x, right.value, general)
            return f"({test} if type({x}) is str else {numeric})"
    return general


def _compare_number_with_text(emitter: PredicateEmitter, operator: str, x: str, text: bytes, general: str) -> str:
    """A number in the slot is compared with the numeric reading of the literal, if that has one."""
    reading = parse_number(text)
    if reading is None:
        return general
    c = emitter.code.bind_constant(reading).code
    return f"{x} {_PYTHON_OPERATORS[operator]} {c} if type({x}) is float or type({x}) is int else {general}"


def _emit_compare(emitter: PredicateEmitter, node: n.Compare) -> Emission:
    left: Operand = yield emitter.emit_value(node.left)
    left = emitter.code.make_repeatable(left)
    right: Operand = yield emitter.emit_value(node.right)
    right = emitter.code.make_repeatable(right)
    return _boolean_operand(emit_comparison(emitter, node.operator, left, right))


def _emit_between(emitter: PredicateEmitter, node: n.Between) -> Emission:
    sides = []
    for side in (node.operand, node.low, node.high):
        operand: Operand = yield emitter.emit_value(side)
        sides.append(emitter.code.make_repeatable(operand))
    x, low, high = sides
    # Both bounds are numbers, so one test of the value's type serves both comparisons.
    if x.kind == "slot" and _is_number(low.value) and _is_number(high.value):
        general = f"ge({x.code}, {low.code}) and le({x.code}, {high.code})"
        test = f"type({x.code}) is float or type({x.code}) is int"
        return _boolean_operand(f"({low.code} <= {x.code} <= {high.code} if {test} else {general})", node.negated)
    both = f"({emit_comparison(emitter, '>=', x, low)} and {emit_comparison(emitter, '<=', x, high)})"
    return _boolean_operand(both, node.negated)


def _emit_is(emitter: PredicateEmitter, node: n.Is) -> Emission:
    operand: Operand = yield emitter.emit_value(node.operand)
    x = emitter.code.make_repeatable(operand).code
    # Only NaN differs from itself.
    if node.what == "NAN":
        test = f"({x} != {x})" if operand.kind == "number" else f"is_nan({x})"
    # A bare field is NULL only if all of its values are; every other expression is tested by its first value.
    elif operand.kind == "slot" and isinstance(node.operand, n.Field):
        test = f"({x} is None or (type({x}) is not float and type({x}) is not int and is_null({x})))"
    elif operand.kind == "slot":
        test = f"(first({x}) is None)"
    else:
        test = f"({x} is None)"
    return _boolean_operand(test, node.negated)


def _emit_like(emitter: PredicateEmitter, node: n.Like) -> Emission:
    operand: Operand = yield emitter.emit_value(node.operand, True)
    matcher = emitter.compile_matcher(node.pattern)
    x = emitter.code.make_repeatable(operand)
    # The empty pattern is NULL, and LIKE NULL is FALSE.
    if matcher is None:
        return _boolean_operand(emitter.code.bind_constant(False).code, node.negated)
    found = emitter.code.bind_object(matcher.is_found)
    if x.kind == "text":
        return _boolean_operand(f"({x.code} is not None and {found}({x.code}))", node.negated)
    quick = _emit_str_test(emitter, x.code, matcher, found)
    return _boolean_operand(f"({quick} if type({x.code}) is str else like({x.code}, {found}))", node.negated)


def _emit_str_test(emitter: PredicateEmitter, x: str, matcher: Matcher, found: str) -> str:
    """The test of a str: searching code points is equivalent to searching the bytes of their UTF-8."""
    if not isinstance(matcher, PlainPattern) or matcher.word is None:
        return f"{x} != '' and {found}({x}.encode())"
    # ``$`` also matches before a line feed at the end of the text.
    word = matcher.word
    if matcher.at_start and matcher.at_end:
        return f"{x} in {emitter.code.bind_object((word, word + chr(10)))}"
    if matcher.at_start:
        return f"{x}.startswith({emitter.code.bind_constant(word).code})"
    if matcher.at_end:
        return f"{x}.endswith({emitter.code.bind_object((word, word + chr(10)))})"
    return f"{emitter.code.bind_constant(word).code} in {x}"


def _emit_in(emitter: PredicateEmitter, node: n.In) -> Emission:
    operand: Operand = yield emitter.emit_value(node.operand)
    x = emitter.code.make_repeatable(operand)
    # An IN list is an OR of equalities, none of which is ever NULL, so its members may be tested in another order.
    literals: list[Any] = []
    computed: list[n.Node] = []
    for item in node.items:
        if isinstance(item, n.Literal):
            literals.append(item.value)
        else:
            computed.append(item)
    target = emitter.code.name_local()
    emitter.code.add_line(f"{target} = {_membership_code(emitter, x, InMembers(literals)) if literals else 'False'}")
    # Computed members are tested one by one, and only if none was equal so far.
    for item in computed:
        emitter.code.add_line(f"if not {target}:")
        yield emitter.emit_block(_emit_equals(emitter, x, item), target)
    return Operand(f"not {target}" if node.negated else target, "bool", not node.negated)


def _emit_equals(emitter: PredicateEmitter, x: Operand, item: n.Node) -> Emission:
    operand: Operand = yield emitter.emit_value(item)
    return _boolean_operand(emit_comparison(emitter, "=", x, emitter.code.make_repeatable(operand)))


def _membership_code(emitter: PredicateEmitter, x: Operand, members: InMembers) -> str:
    # Literal members are looked up by hash, regardless of their number. The sets below handle plain values without a
    # call; mixed lists must test both readings and texts.
    general = f"{emitter.code.bind_object(members.has_match)}({x.code})"
    if x.kind != "slot":
        return general
    if members.texts and not members.numbers and len(members.texts) == len(members.raw):
        texts = emitter.code.bind_object(frozenset(members.texts))
        return f"({x.code} in {texts} if type({x.code}) is str else {general})"
    if members.numbers and not members.raw:
        numbers = emitter.code.bind_object(frozenset(members.numbers))
        return f"({x.code} in {numbers} if type({x.code}) is float or type({x.code}) is int else {general})"
    return general


def _emit_affix(emitter: PredicateEmitter, node: n.Affix) -> Emission:
    operand: Operand = yield emitter.emit_value(node.operand, True)
    x = emitter.code.make_repeatable(operand)
    fixed: list[bytes] = []
    computed: list[str] = []
    for item in node.items:
        member: Operand = yield emitter.emit_value(item, True)
        if member.kind == "const":
            text = to_text(member.value)
            # NULL is a prefix or suffix of no text.
            fixed += [] if text is None else [text]
        else:
            computed.append(f"*texts({emitter.code.make_repeatable(member).code})")
    name, method = ("begins", "startswith") if node.word == "BEGINS" else ("ends", "endswith")
    given = emitter.code.bind_object(tuple(fixed))
    if computed:
        return _boolean_operand(f"{name}({x.code}, (*{given}, {', '.join(computed)}))", node.negated)
    general = f"{name}({x.code}, {given})"
    words = [word for text in fixed if (word := _decode_literal(text)) is not None]
    # A member that is not UTF-8 can only be compared as bytes.
    if len(words) < len(fixed) or not words:
        return _boolean_operand(general, node.negated)
    return _boolean_operand(
        f"({x.code}.{method}({emitter.code.bind_object(tuple(words))}) if type({x.code}) is str else {general})",
        node.negated,
    )


PREDICATE_EMITTERS: dict[type[n.Node], Callable[[PredicateEmitter, Any], Emission]] = {
    n.Compare: _emit_compare,
    n.Between: _emit_between,
    n.Is: _emit_is,
    n.Like: _emit_like,
    n.In: _emit_in,
    n.Affix: _emit_affix,
}
