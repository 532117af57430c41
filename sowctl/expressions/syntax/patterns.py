"""Patterns of ``LIKE``, ``REGEXP_MATCH`` and ``REGEXP_REPLACE`` over bytes (``sowctl-expressions(7)``, patterns).

The engine is PCRE2 with its default options; it is loaded only for patterns other than a text with optional ``^`` or
``$``, and for the search of a scan before it decodes. A match that needs more steps than the engine's limit
raises MatchLimitExceededError, never "no match", and the steps of many long matches are counted: the engine does not
report the number of steps of a match, so it is tried with a low limit first, which suffices for nearly all, then with
higher ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from sowctl.expressions.syntax.errors import ExpressionError, MatchLimitExceededError, build_expression_error
from sowctl.expressions.syntax.nodes import Pattern

# Characters that match themselves in the engine, and escaped punctuation, which does too. Bytes from 0x80 on are
# included, because patterns never match in UTF mode.
_SIMPLE_PATTERN = re.compile(rb"(\^?)((?:[A-Za-z0-9 _,:;/@!%&~\"'<>=#`\x80-\xff-]|\\[.+*?^$()|/{}\[\]\\-])*)(\$?)")
_ESCAPED_PATTERN = re.compile(rb"\\(.)", re.DOTALL)

MAX_MATCH_STEPS = 10_000_000
"""The engine's own limit for one match."""
UNCOUNTED_STEPS = 16_000
"""Steps of one match that are not counted: about 50 us; a scan may use them for every message."""
UNCOUNTED_STEPS_PER_BYTE = 16
"""The same for each of the first :data:`UNCOUNTED_STEPS_BYTES` of a text: an ordinary pattern takes one or less."""
UNCOUNTED_STEPS_BYTES = 64 << 10
UNCOUNTED_SCAN_STEPS = 1_000
"""The same if many matches are searched in one text."""
_STEP_LIMITS = (UNCOUNTED_STEPS, *(UNCOUNTED_STEPS << shift for shift in (2, 4, 6, 8)), MAX_MATCH_STEPS)
"""Limits with which a match is tried, in this order; all tries together take less than 1.5 times the last."""
UNCOUNTED_MATCHES = 100
"""Uncounted matches in one text, and one more for each :data:`BYTES_PER_UNCOUNTED_MATCH` of its first MiB."""
BYTES_PER_UNCOUNTED_MATCH = 8
UNCOUNTED_MATCHES_BYTES = 1 << 20
STEPS_PER_MATCH = 300
"""Steps counted for each further match: the time of a call."""
_INTERPRETER_STEP_RATIO = 10
"""Steps of machine code that take the time of one step of the interpreter."""


class PlainPattern:
    """A pattern that is a plain text, at the start, at the end, or anywhere."""

    __slots__ = ("at_end", "at_start", "text", "word")

    def __init__(self, text: bytes, at_start: bool, at_end: bool) -> None:
        self.text = text
        self.at_start = at_start
        self.at_end = at_end
        self.word = _decode_pattern(text)

    def is_found(self, subject: bytes) -> bool:
        """Return whether the pattern matches somewhere in ``subject``."""
        # Tests of bytes give the result of the engine without loading it.
        if self.at_start:
            if self.at_end:
                # ``$`` matches at the end and before a line feed at the end of the subject.
                return subject == self.text or subject == self.text + b"\n"
            # Without the multiline option ^ matches only at the start.
            return subject.startswith(self.text)
        if self.at_end:
            return subject.endswith((self.text, self.text + b"\n"))
        return self.text in subject

    def find_spans(self, subject: bytes) -> Iterator[tuple[int, int]]:
        """Positions of all matches, left to right."""
        size = len(self.text)
        if self.at_start or self.at_end:
            if self.is_found(subject):
                # An anchored text occurs once; the line feed that ``$`` tolerates is not part of it.
                end = subject.endswith(b"\n") and self.at_end and not subject.endswith(self.text)
                start = 0 if self.at_start else len(subject) - size - end
                yield start, start + size
            return
        start = subject.find(self.text)
        while start >= 0:
            yield start, start + size
            start = subject.find(self.text, start + size)


class StepCounter(Protocol):
    """Counts the steps of long matches."""

    def spend_steps(self, steps: int) -> None:
        """Raises BoundExceededError if there are too many."""
        ...


class RegexPattern:
    """A pattern that PCRE2 matches; ``compiled``: to machine code, which not every machine allows.

    ``step_counter`` counts the steps of long matches; without one each match may take :data:`MAX_MATCH_STEPS`.
    """

    __slots__ = ("_bound", "_brief", "_code", "_engine", "_tiers", "_whole", "compiled", "source")

    def __init__(self, source: bytes) -> None:
        from sowctl import pcre

        self._engine = pcre
        self.source = source
        self.compiled = True
        self._tiers: dict[tuple[int, bool], Any] = {}
        self._whole = self._code = self._compile_with_limit(0, machine=True)
        self._brief: Any = None
        self._bound: StepCounter | None = None

    @property
    def step_counter(self) -> StepCounter | None:
        """The counter of the steps of long matches."""
        return self._bound

    @step_counter.setter
    def step_counter(self, bound: StepCounter) -> None:
        if self._bound is None:
            self._code, self._brief = self._compile_with_limit(UNCOUNTED_STEPS, machine=True), None
        self._bound = bound

    def _compile_with_limit(self, steps: int, *, machine: bool) -> Any:
        """The pattern compiled with a limit of ``steps``, 0 for the engine's own, to machine code or not."""
        code = self._tiers.get((steps, machine))
        if code is None:
            # A limit at the start of a pattern can only lower the engine's, and limits in the pattern itself are kept.
            front = b"(*LIMIT_MATCH=%d)" % steps if steps else b""
            code = self._engine.compile_code(front + self.source, self._engine.ALT_BSUX)
            if machine:
                try:
                    self._engine.compile_machine_code(code)
                except self._engine.LibraryError:
                    self.compiled = False
            self._tiers[steps, machine] = code
        return code

    def _retry_match(self, subject: bytes, start: int, options: int, error: Any, tiers: Sequence[int]) -> Any:
        """Match with higher limits, and without machine code if its stack, which is of fixed size, was too small."""
        engine = self._engine
        tiers = tiers if self._bound is not None else (0,)
        machine, place = self.compiled, 0
        while True:
            if error.code == engine.JIT_STACK_LIMIT and machine:
                # A too small stack is not an error of the pattern: the interpreter, whose stack grows, is tried before
                # anything is refused.
                machine = False
            elif error.code not in engine.LIMIT_ERRORS:
                raise error
            else:
                place += 1
                if place == len(tiers):
                    raise MatchLimitExceededError(self.source) from None
            if self._bound is not None:
                steps = tiers[place] if machine else _INTERPRETER_STEP_RATIO * tiers[place]
                # In advance: a match beyond the bound is not started.
                self._bound.spend_steps(
                    max(0, steps - UNCOUNTED_STEPS_PER_BYTE * min(len(subject), UNCOUNTED_STEPS_BYTES))
                )
            try:
                code = self._compile_with_limit(tiers[place], machine=machine)
                return engine.match(code, subject, len(subject), start, engine.get_match_context(), options)[0]
            except engine.LibraryError as another:
                error = another

    def is_found(self, subject: bytes) -> bool:
        """Return whether the pattern matches somewhere in ``subject``."""
        engine = self._engine
        try:
            return engine.match(self._code, subject, len(subject), 0, engine.get_match_context(), 0)[0] is not None
        except engine.LibraryError as error:
            return self._retry_match(subject, 0, 0, error, _STEP_LIMITS) is not None

    def extract_groups(self, subject: bytes) -> bytes:
        """The first groups of all matches, concatenated; no match may be empty. Raises as :meth:`rewrite_matches`."""
        return self.rewrite_matches(subject, b"$1")

    def rewrite_matches(self, subject: bytes, replacement: bytes) -> bytes:
        """``replacement`` for every match, concatenated, with its groups (``$1``); no match may be empty.

        Raises MatchLimitExceededError also if the engine's small stack does not suffice.
        """
        engine = self._engine
        try:
            found: bytes = engine.substitute_all(self._whole, replacement, subject)
            return found
        except engine.LibraryError as error:
            if error.code == engine.JIT_STACK_LIMIT or error.code in engine.LIMIT_ERRORS:
                raise MatchLimitExceededError(self.source) from error
            raise

    def find_spans(self, subject: bytes) -> Iterator[tuple[int, int]]:
        """Positions of all matches as in Perl: an empty match does not directly follow another empty one."""
        engine, size = self._engine, len(subject)
        context = engine.get_match_context()
        # Compiled on first use: LIKE, the most frequent use of patterns, never needs it.
        code = self._brief
        if code is None:
            code = self._brief = (
                self._whole if self._bound is None else self._compile_with_limit(UNCOUNTED_SCAN_STEPS, machine=True)
            )
        free = UNCOUNTED_MATCHES + min(size, UNCOUNTED_MATCHES_BYTES) // BYTES_PER_UNCOUNTED_MATCH
        start = options = count = 0
        before = None
        while True:
            try:
                data = engine.match(code, subject, size, start, context, options)[0]
            except engine.LibraryError as error:
                data = self._retry_match(subject, start, options, error, (UNCOUNTED_SCAN_STEPS, *_STEP_LIMITS))
            if data is None:
                return
            span: tuple[int, int] = engine.find_group_span(data, subject, 0)
            if span == before:
                return
            yield span
            count += 1
            if count > free and self._bound is not None:
                self._bound.spend_steps(STEPS_PER_MATCH)
            before, start = span, span[1]
            # Without this option the same empty match would be found repeatedly.
            options = engine.NOTEMPTY_ATSTART if span[0] == start else 0


Matcher = PlainPattern | RegexPattern


def _decode_pattern(text: bytes) -> str | None:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None


def compile_pattern(pattern: Pattern, text: str) -> Matcher | None:
    """The matcher of a pattern; None for the empty pattern, which is NULL.

    Raises ExpressionError ``SOW-EXP-016`` at the pattern's position in ``text`` if the engine rejects it.
    """
    if not pattern.text:
        return None
    # A raw string is searched byte by byte; it has no special characters.
    if pattern.exact:
        return PlainPattern(pattern.text, False, False)
    simple = _SIMPLE_PATTERN.fullmatch(pattern.text)
    # Plain texts need no engine, which is then never loaded.
    if simple is not None and simple[2]:
        return PlainPattern(_ESCAPED_PATTERN.sub(rb"\1", simple[2]), bool(simple[1]), bool(simple[3]))
    from sowctl.pcre import PatternError

    try:
        return RegexPattern(pattern.text)
    except PatternError as error:
        raise _build_pattern_error(error, pattern, text) from None


def _build_pattern_error(error: Exception, pattern: Pattern, text: str) -> ExpressionError:
    words = str(getattr(error, "msg", error)).rpartition("; ")[2]
    at = getattr(error, "pos", None)
    where = f" (byte {at} of the pattern)" if at is not None else ""
    hint = "a raw string such as r'a+b' is matched literally"
    return build_expression_error(
        "SOW-EXP-016", f"the pattern is rejected: {words}{where}", text, pattern.span[0], hint=hint
    )
