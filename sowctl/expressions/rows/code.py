"""Pieces of generated Python: operands, lines, functions, slots. The code itself is determined by ``emitter.py``.

Generated code has one assignment per node, so that neither CPython's limit of nested parentheses nor that of nested
blocks is reached: blocks deeper than ``MAX_INDENTATION`` become separate functions. No text of an expression ever
becomes code; literals, patterns and functions are constants of the namespace.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from msgspec import Struct

from sowctl.expressions.rows.runtime import RUNTIME_NAMES
from sowctl.expressions.syntax.nodes import Field
from sowctl.expressions.syntax.patterns import RegexPattern
from sowctl.values.fields import Slot

MAX_INDENTATION = 30
"""Indentation at which a block becomes a separate function; CPython refuses 100."""


class Operand(Struct, frozen=True):
    """A piece of Python that evaluates to a value.

    ``kind``: ``slot`` (as read from the message), ``scalar``, ``number`` (or None), ``text`` (bytes or None),
    ``bool``, ``truth`` (Boolean or None), ``const`` (with the value in ``value``). ``simple``: a name, cheap to repeat.
    """

    code: str
    kind: str
    simple: bool = True
    value: Any = None


Emission: TypeAlias = Generator["Emission", Any, Any]
"""Emits a node: yields the emissions of operands, receives their results, returns its own."""

SlotKey: TypeAlias = tuple[tuple[str, ...], str, bool]


class SlotRequest:
    """A slot during code generation: its requirements are complete only at the end."""

    __slots__ = ("field", "listed", "text")

    def __init__(self, field: Field) -> None:
        self.field = field
        self.text = False
        self.listed = False

    def build_slot(self) -> Slot:
        """The slot to be read by the message type."""
        return Slot(self.field.path, self.text, self.listed)


class GeneratedCode:
    """Lines of one compiled expression under construction."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = dict(RUNTIME_NAMES)
        self.lines: list[str] = []
        self.functions: list[str] = []
        self.indent = 2
        self.inner = False
        self.uses_header = False
        self.matchers: list[RegexPattern] = []
        self.is_bounded = False
        self.slots: dict[SlotKey, tuple[int, SlotRequest]] = {}
        self.previous: dict[SlotKey, tuple[int, SlotRequest]] = {}
        self._temps = 0
        self._constants: dict[tuple[str, str], str] = {}

    def add_line(self, line: str) -> None:
        """Append a line at the current indentation."""
        self.lines.append(" " * self.indent + line)

    def name_local(self) -> str:
        """A new local name."""
        self._temps += 1
        return f"t{self._temps}"

    def bind_local(self, code: str, kind: str) -> Operand:
        """Assign ``code`` to a new local name."""
        name = self.name_local()
        self.add_line(f"{name} = {code}")
        return Operand(name, kind)

    def make_repeatable(self, operand: Operand) -> Operand:
        """The operand in a form that may be repeated."""
        return operand if operand.simple else self.bind_local(operand.code, operand.kind)

    def bind_object(self, value: Any, prefix: str = "k") -> str:
        """A name in the namespace for an object."""
        # The number of names only grows, so no name is used twice.
        name = f"{prefix}{len(self.names)}"
        self.names[name] = value
        return name

    def bind_constant(self, value: Any) -> Operand:
        """A literal as a constant of the namespace."""
        if value is None:
            return Operand("None", "const", True, None)
        # By type and repr, because 1, 1.0 and TRUE are equal in Python but differ here, and NaN equals nothing.
        key = (type(value).__name__, repr(value))
        name = self._constants.get(key)
        if name is None:
            name = self._constants[key] = self.bind_object(value, "c")
        return Operand(name, "const", True, value)

    def bind_slot(self, field: Field, text: bool, listed: bool) -> Operand:
        """The operand that reads a field."""
        previous = field.modifier == "PREVIOUS"
        table = self.previous if previous else self.slots
        key = (field.qualifier, str(field.path), previous)
        if key not in table:
            table[key] = (len(table), SlotRequest(field))
        position, wanted = table[key]
        # Every use of a field adds its requirements to the field's only slot; the message type reads it once.
        wanted.text = wanted.text or text
        wanted.listed = wanted.listed or listed
        # Separate functions cannot access the names that the loop unpacks, so they index the row.
        if self.inner:
            return Operand(f"{'prev' if previous else 'row'}[{position}]", "slot")
        return Operand(f"{'p' if previous else 's'}{position}", "slot")

    def emit_function(self, body: Emission) -> Emission:
        """Emit ``body``, which returns an Operand, into a separate function and call it."""
        # The body is written into its own empty lists; slots, constants and names are shared with the enclosing
        # function.
        saved = self.lines, self.indent, self.inner
        self.lines, self.indent, self.inner = [], 1, True
        result: Operand = yield body
        self.add_line(f"return {result.code}")
        name = f"f{len(self.functions)}"
        self.functions.append("\n".join([f"def {name}(row, prev, env, header):", *self.lines]))
        self.lines, self.indent, self.inner = saved
        # The caller receives a call, not the literal, so it cannot treat the result as one.
        kind = "scalar" if result.kind == "const" else result.kind
        return self.bind_local(f"{name}(row, prev, env, header)", kind)

    def build_source(self, final: str, arguments: str = "rows, env, headers, previous") -> str:
        """The main function: the row loop around the lines; ``final`` is the code at the end of a row."""
        # The for statement unpacks the slots itself if nothing else needs the row.
        targets, sources, unpack = ["row"], ["rows"], []
        if self.uses_header:
            targets.append("header")
            sources.append("headers")
        if self.previous:
            targets.append("prev")
            sources.append("previous")
            unpack.append(_local_names("p", len(self.previous)) + " = prev")
        if self.slots and (self.functions or len(targets) > 1):
            unpack.append(_local_names("s", len(self.slots)) + " = row")
        elif self.slots:
            targets[0] = "(" + _local_names("s", len(self.slots)) + ")"
        each = targets[0] if len(targets) == 1 else f"({', '.join(targets)})"
        pairs = sources[0] if len(sources) == 1 else f"zip({', '.join(sources)})"
        # Functions of the expression always take header and prev, so both names exist even if no row has them.
        defaults = [] if self.uses_header else [" header = None"]
        defaults += [] if self.previous else [" prev = None"]
        head = [f"def run({arguments}):", " out = []", " append = out.append", *defaults]
        loop = [f" for i, {each} in enumerate({pairs}):", *("  " + line for line in unpack), *self.lines, "  " + final]
        # One try around the loop costs nothing per row; afterwards ``i`` is the index of the row.
        if self.is_bounded:
            loop = [" i = -1", " try:", *(" " + line for line in loop)]
            loop += [
                "  env.examined += i + 1",
                " except BoundExceededError as error:",
                "  raise error.at(i) from None",
            ]
        return "\n".join([*head, *loop, " return out"])


def _local_names(letter: str, count: int) -> str:
    return ", ".join(f"{letter}{number}" for number in range(count)) + ("," if count == 1 else "")


def run_emission(emission: Emission) -> Any:
    """Run an emission without recursion and return its result."""
    # A list of generators instead of Python's stack: the depth of an expression is bounded by memory only.
    stack = [emission]
    result: Any = None
    while stack:
        try:
            below = stack[-1].send(result)
        except StopIteration as stop:
            stack.pop()
            result = stop.value
        else:
            stack.append(below)
            result = None
    return result
