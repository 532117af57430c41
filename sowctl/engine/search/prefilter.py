"""Literal patterns that a stored JSON message must contain to match; others need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.
``/price > 90`` is true only where behind some name ``price`` stands a number above 90, or something that is no number.

Stored values are searched whole, and many at once (:mod:`sowctl.store.integrity`). Their headers and checksums may
match a literal pattern, too; then a record is decoded in vain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor

from msgspec import Struct

from sowctl.engine.search.figures import QUERY_LIMITS
from sowctl.expressions.rewrites.intervals import NumberBounds, find_number_bounds, list_equal_strings
from sowctl.expressions.syntax.errors import MatchLimitExceededError
from sowctl.expressions.syntax.nodes import Affix, Between, Compare, Field, Like, Literal, Node, Pattern
from sowctl.expressions.syntax.patterns import RegexPattern
from sowctl.store.integrity import SECRET_BYTES, Marks, decode_mark_numbers
from sowctl.store.limits import STORE_LIMITS

_PREFIX_PATTERN = re.compile(rb"\^?([A-Za-z0-9 _,:;/@!%&~'<>=#`-]+)(.?)")
MAX_WHOLE_NUMBER = 10**15
"""Whole numbers up to here are Doubles."""
_EXPONENT_REGEX = rb"[\d.]++[eE]"
"""Behind a minus it makes no difference: such numbers are all kept, or none."""
_DIGIT_REGEX = rb"\d"


class LiteralPattern(Struct, frozen=True):
    """Something to look for: a pattern, ``spelled``. ``texts``: what in it JSON may also spell with escapes."""

    texts: tuple[bytes, ...]
    spelled: bytes


def build_text_pattern(texts: Sequence[bytes], *, whole: bool = True) -> LiteralPattern:
    """Return the pattern of any of several pieces of text; ``whole``: from quote to quote."""
    ways = b"|".join(map(_escape_literal, texts))
    ways = b"(?:%b)" % ways if len(texts) > 1 else ways
    # Every byte is spelled as \x.., so nothing in a text can act as a part of the pattern.
    return LiteralPattern(tuple(texts), b'"%b"' % ways if whole else ways)


def build_number_pattern(name: bytes, spelled: bytes) -> LiteralPattern:
    """Return the pattern of ``name`` followed by a number whose text begins as ``spelled`` says, or by a value that is
    no number."""
    # "Something that is no number" is let through: a text in quotes may still compare as a number.
    return LiteralPattern((name,), rb'"%b"\s*+:\s*+(?:%b|[^-\d\s])' % (_escape_literal(name), spelled))


def _escape_literal(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


class _PatternSearch:
    """A pattern, looked for in a run, and how often it was found."""

    def __init__(self, pattern: bytes, marks: Marks) -> None:
        self._code = RegexPattern(pattern + marks.behind)
        self.fast = self._code.compiled
        self.looked = self.found = 0

    def find_values(self, run: bytes) -> list[int]:
        """Numbers of the values of ``run`` in which it stands, ascending."""
        return decode_mark_numbers(self._code.extract_groups(run))

    def update_share(self, looked: int, found: int) -> None:
        """Take note of what share of the records has it."""
        self.looked += looked
        self.found += found

    @property
    def is_judged(self) -> bool:
        """True if it was looked for in enough records to be judged."""
        return self.looked >= QUERY_LIMITS.prefilter_trial_records

    @property
    def share(self) -> float:
        """The share of the records that has it."""
        return self.found / self.looked


class LiteralPatterns:
    """All literal patterns of a filter, searched for in stored values of JSON messages. ``marks``: those of marked
    runs."""

    def __init__(self, traces: Sequence[LiteralPattern], marks: Marks) -> None:
        self.marks = marks
        searches = [_PatternSearch(trace.spelled, marks) for trace in traces]
        # Without machine code looking takes ten times as long: longer than to decode.
        self._searches = searches if all(one.fast for one in searches) else []
        self._sorted = False
        texts = [text for trace in traces for text in trace.texts]
        # An ASCII character can be escaped as u0020 to u007f alone; others also as surrogates, so any u counts for
        # these.
        escapes = rb"u00[2-7]" if all(map(bytes.isascii, texts)) else b"u"
        if any(b"/" in text for text in texts):
            # JSON may write a slash with a backslash before it.
            escapes = rb"(?:%b|/)" % escapes
        escapes = rb"\\" + escapes
        self._escapes = _PatternSearch(escapes, marks)
        """A backslash and what follows it where that spells one of their characters: only these have two spellings."""
        self._spelled = [(trace.spelled, escapes) for trace in traces]
        self._anywhere: list[RegexPattern] | None = None
        self._runs = self._showing = 0

    @property
    def is_worthwhile(self) -> bool:
        """True if looking for them has spared decoding so far."""
        return bool(self._searches)

    def find_candidates(self, values: Sequence[bytes], run: bytes | None = None) -> Sequence[int]:
        """Places of the values that may contain all literal patterns, ascending. ``run``: all of them, marked, if they
        are joined.

        Only an escape can spell a text otherwise: a value that has one counts.
        """
        if run is None:
            if sum(map(len, values)) > STORE_LIMITS.max_run_bytes:
                return self._search_halves(values)
            run = self.marks.join_values(values)
        try:
            places = self._search_run(values, run)
        # A search that gives up has proven nothing, so every record counts as one that may match.
        except MatchLimitExceededError:
            return range(len(values))
        # A search that most records pass spares little and costs its time for each: it is dropped. Fewer searches let
        # more records through, and never lose one.
        self._searches = [
            one for one in self._searches if not one.is_judged or one.share <= QUERY_LIMITS.prefilter_max_share
        ]
        if not self._sorted and all(one.is_judged for one in self._searches):
            self._sorted = True
            # Once all are judged, the rarest goes first: those behind it look at few records.
            self._searches.sort(key=lambda one: one.share)
        return places

    def can_match_run(self, run: memoryview) -> bool:
        """Return whether all patterns may stand in ``run``, messages without marks; False: none of them matches.

        A message that is a JSON text ends where the text does, so no bytes after it can hide a literal pattern in it.
        """
        if (
            self._runs >= QUERY_LIMITS.prefilter_trial_blocks
            and self._showing > QUERY_LIMITS.prefilter_max_share * self._runs
        ):
            return True
        if self._anywhere is None:
            self._anywhere = [RegexPattern(b"(?:%b)|%b" % ways) for ways in self._spelled]
        self._runs += 1
        text = bytes(run)
        try:
            shown = all(pattern.is_found(text) for pattern in self._anywhere)
        except MatchLimitExceededError:
            shown = True
        self._showing += shown
        return shown

    def _search_run(self, values: Sequence[bytes], run: bytes) -> Sequence[int]:
        escaped = set(self._escapes.find_values(run))
        places: Sequence[int] = range(len(values))
        for search in self._searches:
            if len(places) < QUERY_LIMITS.prefilter_rejoin_max_share * len(values):
                again = search.find_values(self.marks.join_values([values[place] for place in places]))
                found = [places[number] for number in again]
            else:
                found = search.find_values(run)
                if len(places) < len(values):
                    found = sorted(set(found).intersection(places))
            if escaped:
                # A value with an escape stays in for every search, because this text may be the one that is escaped in
                # it.
                found = sorted(escaped.union(found))
            # Judged by what was left when it was asked, so the order of searches shows in their shares.
            search.update_share(len(places), len(found))
            places = found
        return places

    def _search_halves(self, values: Sequence[bytes]) -> Sequence[int]:
        """As :meth:`find_candidates`, for values that are too large to be copied together; one alone may always show
        all.
        """
        half = len(values) // 2
        if not half:
            return range(len(values))
        return [*self.find_candidates(values[:half]), *(half + place for place in self.find_candidates(values[half:]))]


# What a filter needs, found in its conditions one by one.


def build_literal_patterns(conditions: Sequence[Node], random: Callable[[int], bytes]) -> LiteralPatterns | None:
    """Build the patterns of messages for which ``conditions`` may be true; None where none are needed."""
    traces = list_literal_patterns(conditions)
    return LiteralPatterns(traces, Marks(random(SECRET_BYTES))) if traces else None


def list_literal_patterns(conditions: Sequence[Node]) -> list[LiteralPattern]:
    """List the patterns that a JSON message must contain to satisfy ``conditions``; single words first."""
    found = [build_text_pattern(texts) for texts in dict.fromkeys(_iterate_words(conditions))]
    found += [build_text_pattern(pieces, whole=False) for pieces in dict.fromkeys(_iterate_pieces(conditions))]
    found.sort(key=lambda trace: len(trace.texts))
    return found + [
        build_number_pattern(name, text) for name, text in dict.fromkeys(_iterate_number_fields(conditions))
    ]


def _iterate_words(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        texts = list_equal_strings(condition)
        # If one alternative cannot be looked for, the condition is left out whole: else its records would be lost.
        if texts and len(texts) <= QUERY_LIMITS.prefilter_max_alternatives and all(map(_is_plain, texts)):
            yield texts


def _iterate_pieces(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        # A negated condition is true of messages that do not show the text.
        if not isinstance(condition, Affix | Like) or condition.negated or not isinstance(condition.operand, Field):
            continue
        pieces = (
            [find_needed_piece(condition.pattern)] if isinstance(condition, Like) else _list_literals(condition.items)
        )
        known = tuple(piece for piece in pieces if piece is not None and _is_piece(piece))
        if len(known) == len(pieces) <= QUERY_LIMITS.prefilter_max_alternatives:
            yield known


def _list_literals(items: Sequence[Node]) -> list[bytes | None]:
    return [item.value if isinstance(item, Literal) and isinstance(item.value, bytes) else None for item in items]


def _is_piece(piece: bytes) -> bool:
    """Return whether a text with this part stands in the message. That of a Boolean does not: it is a digit."""
    return piece not in (b"0", b"1") and _is_plain(piece)


def find_needed_piece(pattern: Pattern) -> bytes | None:
    """Return the bytes at the beginning of the pattern that every matching text contains."""
    if pattern.exact:
        return pattern.text
    start = _PREFIX_PATTERN.match(pattern.text)
    # An alternative, or an option such as (?i), makes the beginning something that a match need not have.
    if start is None or b"|" in pattern.text or b"(?" in pattern.text:
        return None
    # The character before one of these may be missing in a match.
    return start[1][:-1] if start[2] in (b"*", b"?", b"{") else start[1]


def _iterate_number_fields(conditions: Sequence[Node]) -> Iterator[tuple[bytes, bytes]]:
    for condition in conditions:
        field = condition.left if isinstance(condition, Compare) else None
        field = condition.operand if isinstance(condition, Between) else field
        bounds = find_number_bounds(condition)
        if bounds is None or not isinstance(field, Field):
            continue
        # The last name of the path is enough: the same name elsewhere in the message only makes decoding be in vain.
        name, text = field.path.steps[-1].name.encode(), build_bounds_regex(bounds)
        if text is not None and _is_plain(name):
            yield name, text


def _is_plain(text: bytes) -> bool:
    """Return whether JSON spells a text only by itself or with a backslash, and it is not too long."""
    return (
        0 < len(text) <= QUERY_LIMITS.prefilter_max_text_bytes
        and b'"' not in text
        and b"\\" not in text
        and min(text) >= 0x20
    )


# The texts of numbers between bounds.


def build_bounds_regex(bounds: NumberBounds) -> bytes | None:
    """A pattern for the beginning of the text of all numbers between ``bounds``; None where it would tell nothing.

    It tells numbers apart by their digits before the point alone, ranges by the first two of these, so it lets more
    through than lies between the bounds, and everything with an exponent. A text is read as the nearest Double, which
    never crosses a whole number that a Double can be, though it may reach one: ``0.99999999999999999999`` equals 1.
    """
    low, high = bounds.low, bounds.high
    if low is not None and low == high and 1 <= low < MAX_WHOLE_NUMBER:
        return _build_equal_regex(low) + rb"|" + _EXPONENT_REGEX
    least = _compute_min_whole(low, bounds.open_low) if low is not None and abs(low) < MAX_WHOLE_NUMBER else 0
    most = _compute_max_whole(high, bounds.open_high) if high is not None and abs(high) < MAX_WHOLE_NUMBER else None
    if most is None:
        if least < 1:
            return None
        numbers = _build_at_least_regex(least)
    elif most < 0:
        numbers = rb"-"
    elif least < 1:
        numbers = rb"-|" + _build_at_most_regex(most)
    else:
        numbers = rb"(?=%b)(?:%b)" % (_build_at_most_regex(most), _build_at_least_regex(least))
    return numbers + rb"|" + _EXPONENT_REGEX


def _build_equal_regex(number: int | float) -> bytes:
    """A pattern for the beginning of texts that may be read as ``number``, which is 1 or more."""
    whole = floor(number)
    here = rb"%d(?!\d)" % whole
    # A text just below a whole number may be read as that number, at most a sixteenth below it: up to MOST_WHOLE
    # doubles are an eighth apart at most.
    return here if whole != number else here + rb"|%d\.9" % (whole - 1)


def _compute_min_whole(low: int | float, is_open: bool) -> int:
    """The smallest whole part of numbers above ``low``: just below a closed bound lie texts that are read as it."""
    whole = floor(low)
    return whole if is_open or whole != low else whole - 1


def _compute_max_whole(high: int | float, is_open: bool) -> int:
    """The largest whole part of numbers below ``high``."""
    return ceil(high) - 1 if is_open else floor(high)


def _build_at_least_regex(least: int) -> bytes:
    """Return the pattern of whole parts of at least ``least``, which is positive, by the number of digits and the first
    two."""
    digits = b"%d" % least
    rest = len(digits) - 1
    # Any number with more digits is larger.
    ways = [_DIGIT_REGEX * (rest + 2)]
    if digits[0] < 0x39:
        ways.append(b"[%c-9]" % (digits[0] + 1) + _DIGIT_REGEX * rest)
    if rest:
        ways.append(b"%c[%c-9]" % (digits[0], digits[1]) + _DIGIT_REGEX * (rest - 1))
    else:
        ways.append(digits)
    return b"|".join(ways)


def _build_at_most_regex(most: int) -> bytes:
    """Return the pattern of whole parts of at most ``most``, which is not negative, by the number of digits and the
    first two."""
    digits = b"%d" % most
    rest = len(digits) - 1
    ways = [rb"\d{1,%d}" % rest] if rest else []
    if digits[0] > 0x30:
        ways.append(b"[0-%c]" % (digits[0] - 1) + _DIGIT_REGEX * rest)
    if rest:
        ways.append(b"%c[0-%c]" % (digits[0], digits[1]) + _DIGIT_REGEX * (rest - 1))
    else:
        ways.append(digits)
    return rb"(?:%b)(?!\d)" % b"|".join(ways)
