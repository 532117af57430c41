"""Literal patterns that a stored JSON message must contain to match; other messages need not be decoded.

``/region = 'EMEA'`` is true only if the message contains the string ``EMEA``: a string without a numeric reading equals
no number (``sowctl-expressions(7)``, comparison). JSON writes it in quotes, literally or with escapes. ``/price > 90``
is true only if a name ``price`` is followed by a number above 90, or by a value that is not a number.

Complete stored values are searched, many in one pass (:mod:`sowctl.store.integrity`). A match in a header or checksum
only costs an unnecessary decoding.
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
"""Integers up to this limit are exact as Doubles."""
_EXPONENT_REGEX = rb"[\d.]++[eE]"
"""Unsigned numbers with an exponent. Negative ones need no such pattern: all negative numbers pass, or none."""
_DIGIT_REGEX = rb"\d"


class LiteralPattern(Struct, frozen=True):
    """A pattern to search for, ``spelled``. ``texts``: its parts that JSON may also write with escapes."""

    texts: tuple[bytes, ...]
    spelled: bytes


def build_text_pattern(texts: Sequence[bytes], *, whole: bool = True) -> LiteralPattern:
    """Return the pattern of alternative texts; ``whole``: complete strings, including their quotes."""
    ways = b"|".join(map(_escape_literal, texts))
    ways = b"(?:%b)" % ways if len(texts) > 1 else ways
    # Every byte is written as \x.., so no byte of a text can act as pattern syntax.
    return LiteralPattern(tuple(texts), b'"%b"' % ways if whole else ways)


def build_number_pattern(name: bytes, spelled: bytes) -> LiteralPattern:
    """Return the pattern of ``name`` followed by a number whose text begins with a match of ``spelled``, or by a value
    that is not a number."""
    # Values that are not numbers pass, because a string may compare as a number.
    return LiteralPattern((name,), rb'"%b"\s*+:\s*+(?:%b|[^-\d\s])' % (_escape_literal(name), spelled))


def _escape_literal(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


class _PatternSearch:
    """A pattern to search for in runs, and the counts of its searches and matches."""

    def __init__(self, pattern: bytes, marks: Marks) -> None:
        self._code = RegexPattern(pattern + marks.behind)
        self.fast = self._code.compiled
        self.looked = self.found = 0

    def find_values(self, run: bytes) -> list[int]:
        """Return the numbers of the values of ``run`` that contain the pattern, ascending."""
        return decode_mark_numbers(self._code.extract_groups(run))

    def update_share(self, looked: int, found: int) -> None:
        """Add the counts of a search: records searched and records found."""
        self.looked += looked
        self.found += found

    @property
    def is_judged(self) -> bool:
        """True if enough records were searched to judge the share."""
        return self.looked >= QUERY_LIMITS.prefilter_trial_records

    @property
    def share(self) -> float:
        """The share of searched records that contain the pattern."""
        return self.found / self.looked


class LiteralPatterns:
    """All literal patterns of a filter, searched for in stored values of JSON messages. ``marks``: the separators of
    values in runs."""

    def __init__(self, traces: Sequence[LiteralPattern], marks: Marks) -> None:
        self.marks = marks
        searches = [_PatternSearch(trace.spelled, marks) for trace in traces]
        # Without compiled patterns a search takes ten times as long, longer than decoding.
        self._searches = searches if all(one.fast for one in searches) else []
        self._sorted = False
        texts = [text for trace in traces for text in trace.texts]
        # ASCII characters can be escaped only as u0020 to u007f; others also as surrogates, so any u counts.
        escapes = rb"u00[2-7]" if all(map(bytes.isascii, texts)) else b"u"
        if any(b"/" in text for text in texts):
            # JSON may also escape a slash.
            escapes = rb"(?:%b|/)" % escapes
        escapes = rb"\\" + escapes
        self._escapes = _PatternSearch(escapes, marks)
        """Escapes that may spell characters of the texts. Only through them can a text be written differently."""
        self._spelled = [(trace.spelled, escapes) for trace in traces]
        self._anywhere: list[RegexPattern] | None = None
        self._runs = self._showing = 0

    @property
    def is_worthwhile(self) -> bool:
        """True while the searches save enough decoding to pay."""
        return bool(self._searches)

    def find_candidates(self, values: Sequence[bytes], run: bytes | None = None) -> Sequence[int]:
        """Return the places of the values that may contain all literal patterns, ascending. ``run``: the values joined
        with marks, or None.

        Values with an escape are always candidates: only an escape can spell a text differently.
        """
        if run is None:
            if sum(map(len, values)) > STORE_LIMITS.max_run_bytes:
                return self._search_halves(values)
            run = self.marks.join_values(values)
        try:
            places = self._search_run(values, run)
        # An aborted search proves nothing, so every record is a candidate.
        except MatchLimitExceededError:
            return range(len(values))
        # Drop searches that most records pass: they save little and cost time for each record. Fewer searches only
        # increase the number of candidates.
        self._searches = [
            one for one in self._searches if not one.is_judged or one.share <= QUERY_LIMITS.prefilter_max_share
        ]
        if not self._sorted and all(one.is_judged for one in self._searches):
            self._sorted = True
            # Once all are judged, search for the rarest pattern first, which leaves few records for the others.
            self._searches.sort(key=lambda one: one.share)
        return places

    def can_match_run(self, run: memoryview) -> bool:
        """Return whether all patterns may occur in ``run``, messages joined without marks. False: no message matches.

        The result is reliable without marks: the bytes after a JSON text cannot hide a literal pattern in it.
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
                # A value with an escape passes every search, because the escape may belong to any of the texts.
                found = sorted(escaped.union(found))
            # The share refers to the values left by previous searches, so it depends on the order of searches.
            search.update_share(len(places), len(found))
            places = found
        return places

    def _search_halves(self, values: Sequence[bytes]) -> Sequence[int]:
        """Like :meth:`find_candidates`, for values too large to be joined. A single value is always a candidate."""
        half = len(values) // 2
        if not half:
            return range(len(values))
        return [*self.find_candidates(values[:half]), *(half + place for place in self.find_candidates(values[half:]))]


# Derivation of patterns from the conditions of a filter.


def build_literal_patterns(conditions: Sequence[Node], random: Callable[[int], bytes]) -> LiteralPatterns | None:
    """Build the patterns of messages that can satisfy ``conditions``; None if no pattern can be derived."""
    traces = list_literal_patterns(conditions)
    return LiteralPatterns(traces, Marks(random(SECRET_BYTES))) if traces else None


def list_literal_patterns(conditions: Sequence[Node]) -> list[LiteralPattern]:
    """List the patterns that a JSON message must contain to satisfy ``conditions``; single texts first."""
    found = [build_text_pattern(texts) for texts in dict.fromkeys(_iterate_words(conditions))]
    found += [build_text_pattern(pieces, whole=False) for pieces in dict.fromkeys(_iterate_pieces(conditions))]
    found.sort(key=lambda trace: len(trace.texts))
    return found + [
        build_number_pattern(name, text) for name, text in dict.fromkeys(_iterate_number_fields(conditions))
    ]


def _iterate_words(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        texts = list_equal_strings(condition)
        # If one alternative cannot be searched for, skip the condition: otherwise its records would be lost.
        if texts and len(texts) <= QUERY_LIMITS.prefilter_max_alternatives and all(map(_is_plain, texts)):
            yield texts


def _iterate_pieces(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        # A negated condition is true for messages that do not contain the text.
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
    """Return whether a text with this piece must occur in the message. 0 and 1 may also be the text of a Boolean."""
    return piece not in (b"0", b"1") and _is_plain(piece)


def find_needed_piece(pattern: Pattern) -> bytes | None:
    """Return a literal prefix of the pattern that every matching text contains; None if there is none."""
    if pattern.exact:
        return pattern.text
    start = _PREFIX_PATTERN.match(pattern.text)
    # With an alternative, or an option such as (?i), a match need not contain the prefix.
    if start is None or b"|" in pattern.text or b"(?" in pattern.text:
        return None
    # The character before one of these quantifiers is optional.
    return start[1][:-1] if start[2] in (b"*", b"?", b"{") else start[1]


def _iterate_number_fields(conditions: Sequence[Node]) -> Iterator[tuple[bytes, bytes]]:
    for condition in conditions:
        field = condition.left if isinstance(condition, Compare) else None
        field = condition.operand if isinstance(condition, Between) else field
        bounds = find_number_bounds(condition)
        if bounds is None or not isinstance(field, Field):
            continue
        # The last name of the path is sufficient: the same name elsewhere only causes an unnecessary decoding.
        name, text = field.path.steps[-1].name.encode(), build_bounds_regex(bounds)
        if text is not None and _is_plain(name):
            yield name, text


def _is_plain(text: bytes) -> bool:
    """Return whether a text needs no escapes in JSON, and is not empty or too long."""
    return (
        0 < len(text) <= QUERY_LIMITS.prefilter_max_text_bytes
        and b'"' not in text
        and b"\\" not in text
        and min(text) >= 0x20
    )


# Patterns of numbers between bounds.


def build_bounds_regex(bounds: NumberBounds) -> bytes | None:
    """Return a pattern for the beginning of the text of all numbers between ``bounds``; None if it would exclude none.

    It examines only the digits before the decimal point, for ranges only the first two of these. So it also accepts
    some numbers outside the bounds, and all with an exponent. A text is read as the nearest Double. Rounding never
    crosses an integer that is a Double, but may reach it: ``0.99999999999999999999`` equals 1.
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
    """Return a pattern for the beginning of texts that may be read as ``number``, which is at least 1."""
    whole = floor(number)
    here = rb"%d(?!\d)" % whole
    # A text at most a sixteenth below an integer may be read as that integer: up to MAX_WHOLE_NUMBER adjacent Doubles
    # differ by at most an eighth.
    return here if whole != number else here + rb"|%d\.9" % (whole - 1)


def _compute_min_whole(low: int | float, is_open: bool) -> int:
    """Return the smallest integer part of numbers above ``low``. Texts just below a closed bound may be read as it."""
    whole = floor(low)
    return whole if is_open or whole != low else whole - 1


def _compute_max_whole(high: int | float, is_open: bool) -> int:
    """Return the largest integer part of numbers below ``high``."""
    return ceil(high) - 1 if is_open else floor(high)


def _build_at_least_regex(least: int) -> bytes:
    """Return the pattern of integer parts of at least ``least``, which is positive, by the number of digits and the
    first two."""
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
    """Return the pattern of integer parts of at most ``most``, which is not negative, by the number of digits and the
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
