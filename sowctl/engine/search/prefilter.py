"""What a stored JSON message must show for a filter to be true: records without it need not be decoded.

``/region = 'EMEA'`` is true only where some text of the message is exactly ``EMEA``: a text without a numeric reading
equals no number (``sowctl-expressions(7)``, comparison). JSON spells such a text in quotes, as it is or with escapes.
``/price > 90`` is true only where behind some name ``price`` stands a number above 90, or something that is no number.

Stored values are searched whole, and many at once (:mod:`sowctl.store.integrity`). Their headers and checksums may
look like a trace, too; then a record is decoded in vain.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil, floor

from msgspec import Struct

from sowctl.engine.search import figures
from sowctl.expressions.rewrites.intervals import Bounds, bounds_of, strings_of
from sowctl.expressions.syntax.errors import MatchLimitExceededError
from sowctl.expressions.syntax.nodes import Affix, Between, Compare, Field, Like, Literal, Node, Pattern
from sowctl.expressions.syntax.patterns import Regex
from sowctl.store.integrity import JOINED_BYTES, SECRET_SIZE, Marks, numbers_of

_BEGINNING = re.compile(rb"\^?([A-Za-z0-9 _,:;/@!%&~'<>=#`-]+)(.?)")
MOST_WHOLE = 10**15
"""Whole numbers up to here are Doubles."""
_EXPONENT = rb"[\d.]++[eE]"
"""Behind a minus it makes no difference: such numbers are all kept, or none."""
_DIGIT = rb"\d"


class Trace(Struct, frozen=True):
    """Something to look for: a pattern, ``spelled``. ``texts``: what in it JSON may also spell with escapes."""

    texts: tuple[bytes, ...]
    spelled: bytes


def words(texts: Sequence[bytes], *, whole: bool = True) -> Trace:
    """One of several pieces of text; ``whole``: from quote to quote."""
    ways = b"|".join(map(_literal, texts))
    ways = b"(?:%b)" % ways if len(texts) > 1 else ways
    # Every byte is spelled as \x.., so nothing in a text can act as a part of the pattern.
    return Trace(tuple(texts), b'"%b"' % ways if whole else ways)


def numbers(name: bytes, spelled: bytes) -> Trace:
    """Behind ``name`` a number whose text begins as ``spelled`` says, or something that is no number."""
    # "Something that is no number" is let through: a text in quotes may still compare as a number.
    return Trace((name,), rb'"%b"\s*+:\s*+(?:%b|[^-\d\s])' % (_literal(name), spelled))


def _literal(text: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in text)


class _Search:
    """A pattern, looked for in a run, and how often it was found."""

    def __init__(self, pattern: bytes, marks: Marks) -> None:
        self._code = Regex(pattern + marks.behind)
        self.fast = self._code.compiled
        self.looked = self.found = 0

    def numbers(self, run: bytes) -> list[int]:
        """Numbers of the values of ``run`` in which it stands, ascending."""
        return numbers_of(self._code.captured(run))

    def judge(self, looked: int, found: int) -> None:
        """Take note of what share of the records has it."""
        self.looked += looked
        self.found += found

    @property
    def known(self) -> bool:
        """Whether it was looked for in enough records to be judged."""
        return self.looked >= figures.ENOUGH

    @property
    def share(self) -> float:
        """Which share of the records has it."""
        return self.found / self.looked


class Traces:
    """All traces of a filter, to be looked for in stored values of JSON messages. ``marks``: those of marked runs."""

    def __init__(self, traces: Sequence[Trace], marks: Marks) -> None:
        self.marks = marks
        searches = [_Search(trace.spelled, marks) for trace in traces]
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
        self._escapes = _Search(escapes, marks)
        """A backslash and what follows it where that spells one of their characters: only these have two spellings."""
        self._spelled = [(trace.spelled, escapes) for trace in traces]
        self._anywhere: list[Regex] | None = None
        self._runs = self._showing = 0

    @property
    def pays(self) -> bool:
        """Whether looking for them has spared decoding so far."""
        return bool(self._searches)

    def shown(self, values: Sequence[bytes], run: bytes | None = None) -> Sequence[int]:
        """Places of the values that may show all traces, ascending. ``run``: all of them, marked, if they are joined.

        Only an escape can spell a text otherwise: a value that has one counts.
        """
        if run is None:
            if sum(map(len, values)) > JOINED_BYTES:
                return self._shown_in_halves(values)
            run = self.marks.joined(values)
        try:
            places = self._shown(values, run)
        # A search that gives up has proven nothing, so every record counts as one that may match.
        except MatchLimitExceededError:
            return range(len(values))
        # A search that most records pass spares little and costs its time for each: it is dropped. Fewer searches let
        # more records through, and never lose one.
        self._searches = [one for one in self._searches if not one.known or one.share <= figures.SHARE]
        if not self._sorted and all(one.known for one in self._searches):
            self._sorted = True
            # Once all are judged, the rarest goes first: those behind it look at few records.
            self._searches.sort(key=lambda one: one.share)
        return places

    def stand_in(self, run: memoryview) -> bool:
        """Whether all traces may stand in ``run``, messages back to back without marks: where one does not, none of
        them matches.

        A message that is a JSON text ends where the text does, so nothing that follows can hide a trace in it.
        """
        if self._runs >= figures.RUNS and self._showing > figures.SHARE * self._runs:
            return True
        if self._anywhere is None:
            self._anywhere = [Regex(b"(?:%b)|%b" % ways) for ways in self._spelled]
        self._runs += 1
        text = bytes(run)
        try:
            shown = all(pattern.found(text) for pattern in self._anywhere)
        except MatchLimitExceededError:
            shown = True
        self._showing += shown
        return shown

    def _shown(self, values: Sequence[bytes], run: bytes) -> Sequence[int]:
        escaped = set(self._escapes.numbers(run))
        places: Sequence[int] = range(len(values))
        for search in self._searches:
            if len(places) < figures.AGAIN * len(values):
                again = search.numbers(self.marks.joined([values[place] for place in places]))
                found = [places[number] for number in again]
            else:
                found = search.numbers(run)
                if len(places) < len(values):
                    found = sorted(set(found).intersection(places))
            if escaped:
                # A value with an escape stays in for every search, because this text may be the one that is escaped in
                # it.
                found = sorted(escaped.union(found))
            # Judged by what was left when it was asked, so the order of searches shows in their shares.
            search.judge(len(places), len(found))
            places = found
        return places

    def _shown_in_halves(self, values: Sequence[bytes]) -> Sequence[int]:
        """As :meth:`shown`, for values that are too large to be copied together; one alone may always show all."""
        half = len(values) // 2
        if not half:
            return range(len(values))
        return [*self.shown(values[:half]), *(half + place for place in self.shown(values[half:]))]


# What a filter needs, found in its conditions one by one.


def looked_for(conditions: Sequence[Node], random: Callable[[int], bytes]) -> Traces | None:
    """What finds the messages for which all ``conditions`` may be true; None where they need not show anything."""
    traces = traces_of(conditions)
    return Traces(traces, Marks(random(SECRET_SIZE))) if traces else None


def traces_of(conditions: Sequence[Node]) -> list[Trace]:
    """What a JSON message must show for all ``conditions`` to be true; single words first."""
    found = [words(texts) for texts in dict.fromkeys(_words(conditions))]
    found += [words(pieces, whole=False) for pieces in dict.fromkeys(_pieces(conditions))]
    found.sort(key=lambda trace: len(trace.texts))
    return found + [numbers(name, text) for name, text in dict.fromkeys(_numbers(conditions))]


def _words(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        texts = strings_of(condition)
        # If one alternative cannot be looked for, the condition is left out whole: else its records would be lost.
        if texts and len(texts) <= figures.WORDS and all(map(_is_plain, texts)):
            yield texts


def _pieces(conditions: Sequence[Node]) -> Iterator[tuple[bytes, ...]]:
    for condition in conditions:
        # A negated condition is true of messages that do not show the text.
        if not isinstance(condition, Affix | Like) or condition.negated or not isinstance(condition.operand, Field):
            continue
        pieces = [needed_piece(condition.pattern)] if isinstance(condition, Like) else _members(condition.items)
        known = tuple(piece for piece in pieces if piece is not None and _is_piece(piece))
        if len(known) == len(pieces) <= figures.WORDS:
            yield known


def _members(items: Sequence[Node]) -> list[bytes | None]:
    return [item.value if isinstance(item, Literal) and isinstance(item.value, bytes) else None for item in items]


def _is_piece(piece: bytes) -> bool:
    """Whether a text of which this is a part stands in the message. That of a Boolean does not: it is a digit."""
    return piece not in (b"0", b"1") and _is_plain(piece)


def needed_piece(pattern: Pattern) -> bytes | None:
    """Bytes that every text with a match has in it, as far as they stand at the beginning of the pattern."""
    if pattern.exact:
        return pattern.text
    start = _BEGINNING.match(pattern.text)
    # An alternative, or an option such as (?i), makes the beginning something that a match need not have.
    if start is None or b"|" in pattern.text or b"(?" in pattern.text:
        return None
    # The character before one of these may be missing in a match.
    return start[1][:-1] if start[2] in (b"*", b"?", b"{") else start[1]


def _numbers(conditions: Sequence[Node]) -> Iterator[tuple[bytes, bytes]]:
    for condition in conditions:
        field = condition.left if isinstance(condition, Compare) else None
        field = condition.operand if isinstance(condition, Between) else field
        bounds = bounds_of(condition)
        if bounds is None or not isinstance(field, Field):
            continue
        # The last name of the path is enough: the same name elsewhere in the message only makes decoding be in vain.
        name, text = field.path.steps[-1].name.encode(), spelled(bounds)
        if text is not None and _is_plain(name):
            yield name, text


def _is_plain(text: bytes) -> bool:
    """Whether JSON can spell a text only by itself, or with a backslash; and it is not too long to be looked for."""
    return 0 < len(text) <= figures.LONGEST and b'"' not in text and b"\\" not in text and min(text) >= 0x20


# The texts of numbers between bounds.


def spelled(bounds: Bounds) -> bytes | None:
    """A pattern for the beginning of the text of all numbers between ``bounds``; None where it would tell nothing.

    It tells numbers apart by their digits before the point alone, ranges by the first two of these, so it lets more
    through than lies between the bounds, and everything with an exponent. A text is read as the nearest Double, which
    never crosses a whole number that a Double can be, though it may reach one: ``0.99999999999999999999`` equals 1.
    """
    low, high = bounds.low, bounds.high
    if low is not None and low == high and 1 <= low < MOST_WHOLE:
        return _same(low) + rb"|" + _EXPONENT
    least = _least(low, bounds.open_low) if low is not None and abs(low) < MOST_WHOLE else 0
    most = _most(high, bounds.open_high) if high is not None and abs(high) < MOST_WHOLE else None
    if most is None:
        if least < 1:
            return None
        numbers = _from(least)
    elif most < 0:
        numbers = rb"-"
    elif least < 1:
        numbers = rb"-|" + _up_to(most)
    else:
        numbers = rb"(?=%b)(?:%b)" % (_up_to(most), _from(least))
    return numbers + rb"|" + _EXPONENT


def _same(number: int | float) -> bytes:
    """A pattern for the beginning of texts that may be read as ``number``, which is 1 or more."""
    whole = floor(number)
    here = rb"%d(?!\d)" % whole
    # A text just below a whole number may be read as that number, at most a sixteenth below it: up to MOST_WHOLE
    # doubles are an eighth apart at most.
    return here if whole != number else here + rb"|%d\.9" % (whole - 1)


def _least(low: int | float, is_open: bool) -> int:
    """The smallest whole part of numbers above ``low``: just below a closed bound lie texts that are read as it."""
    whole = floor(low)
    return whole if is_open or whole != low else whole - 1


def _most(high: int | float, is_open: bool) -> int:
    """The largest whole part of numbers below ``high``."""
    return ceil(high) - 1 if is_open else floor(high)


def _from(least: int) -> bytes:
    """Whole parts of at least ``least``, which is positive, told by how many digits there are and the first two."""
    digits = b"%d" % least
    rest = len(digits) - 1
    # Any number with more digits is larger.
    ways = [_DIGIT * (rest + 2)]
    if digits[0] < 0x39:
        ways.append(b"[%c-9]" % (digits[0] + 1) + _DIGIT * rest)
    if rest:
        ways.append(b"%c[%c-9]" % (digits[0], digits[1]) + _DIGIT * (rest - 1))
    else:
        ways.append(digits)
    return b"|".join(ways)


def _up_to(most: int) -> bytes:
    """Whole parts of at most ``most``, which is not negative, told likewise."""
    digits = b"%d" % most
    rest = len(digits) - 1
    ways = [rb"\d{1,%d}" % rest] if rest else []
    if digits[0] > 0x30:
        ways.append(b"[0-%c]" % (digits[0] - 1) + _DIGIT * rest)
    if rest:
        ways.append(b"%c[0-%c]" % (digits[0], digits[1]) + _DIGIT * (rest - 1))
    else:
        ways.append(digits)
    return rb"(?:%b)(?!\d)" % b"|".join(ways)
