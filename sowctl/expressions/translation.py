"""Suggestions for texts that other languages would accept: SQL, C, Python, JSONPath and OData.

Used only for texts that do not compile. The suggested text compiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from sowctl.expressions.checker import NO_FUNCTIONS, check_node
from sowctl.expressions.context import Context
from sowctl.expressions.functions import FUNCTIONS, Function
from sowctl.expressions.syntax.errors import FOREIGN_FUNCTIONS, ExpressionError
from sowctl.expressions.syntax.foreign_tokens import ForeignToken, build_field, tokenize_foreign
from sowctl.expressions.syntax.lexer import KEYWORDS
from sowctl.expressions.syntax.nodes import Node, Pattern
from sowctl.expressions.syntax.parser import parse_expression, parse_field, parse_projection
from sowctl.expressions.syntax.patterns import compile_pattern
from sowctl.expressions.syntax.trees import walk_tree

MAX_TRANSLATED_CHARACTERS = 2_000
"""Maximum length of a text that is translated, in characters."""
_MAX_DEPTH = 40
_MAX_REASONS = 3

_COMPARISONS = {
    "=": "=", "==": "=", "===": "=", "<=>": "=", "EQ": "=", "EQUALS": "=",
    "!=": "<>", "<>": "<>", "!==": "<>", "≠": "<>", "NE": "<>",
    "<": "<", "LT": "<", ">": ">", "GT": ">",
    "<=": "<=", "=<": "<=", "≤": "<=", "LE": "<=", "LTE": "<=",
    ">=": ">=", "=>": ">=", "≥": ">=", "GE": ">=", "GTE": ">=",
}  # fmt: skip
_LOGIC = {"&&": "AND", "&": "AND", "∧": "AND", "||": "OR", "|": "OR", "∨": "OR", "!": "NOT", "¬": "NOT"}
_OPERATORS = (
    _COMPARISONS
    | {word: meant for word, meant in _LOGIC.items() if meant != "NOT"}
    | {word: word for word in ("AND", "OR", "+", "-", "*", "%", "/", "MOD", ",", "AS")}
    | {"//": "/", "DIV": "/"}
)
_SQL_PATTERNS = {"LIKE": "", "ILIKE": "(?i)", "~~": "", "~~*": "(?i)", "GLOB": "", "SIMILAR": ""}
"""Operators whose patterns have wildcards, with the prefix of the regular expression."""
_REGEX_PATTERNS = {
    "=~": "", "~": "", "=~*": "(?i)", "~*": "(?i)", "RLIKE": "", "REGEXP": "", "REGEX": "", "MATCHES": "", "MATCH": "",
}  # fmt: skip
_TEXT_SEARCHES = frozenset(("CONTAINS", "CONTAINING", "ICONTAINS"))
_ELEMENT_SEARCHES = frozenset(("HAS", "INCLUDES", "@>"))
_BEGINS = frozenset(("STARTSWITH", "STARTS_WITH", "STARTS", "HASPREFIX", "HAS_PREFIX", "BEGINSWITH", "BEGINS_WITH"))
_ENDS = frozenset(("ENDSWITH", "ENDS_WITH", "HASSUFFIX", "HAS_SUFFIX"))
_NOTHING = frozenset(("NONE", "NIL", "UNDEFINED", "EMPTY", "MISSING", "BLANK", "NULL"))
_SOMETHING = frozenset(("DEFINED", "PRESENT", "SET"))
_PRESENCE_TESTS = frozenset(("EXISTS", "HAS", "HASFIELD", "HAS_FIELD", "DEFINED", "IS_DEFINED", "ISNOTNULL", "NOTNULL"))
_ABSENCE_TESTS = frozenset(("ISNULL", "IS_NULL", "ISEMPTY", "IS_EMPTY", "EMPTY", "MISSING", "ISBLANK"))
_SEARCH_FUNCTIONS = frozenset(("CONTAINS", "ICONTAINS", "CONTAINS_SUBSTR", "STR_CONTAINS"))
_ELEMENT_FUNCTIONS = frozenset(
    ("ARRAY_CONTAINS", "LIST_CONTAINS", "LIST_HAS", "ARRAY_HAS", "JSON_CONTAINS", "INCLUDES", "MEMBER_OF")
)
_REGEX_FUNCTIONS = frozenset(
    ("REGEXP_LIKE", "REGEXP_MATCHES", "REGEXP_CONTAINS", "RLIKE", "REGEX", "REGEXP", "MATCHES", "MATCH", "TEST")
)
_SWAPPED_FUNCTIONS = frozenset(("LOCATE", "CHARINDEX"))
_UNTRANSLATED_FUNCTIONS = frozenset(("DATE_FORMAT", "POSITION", "STR_TO_DATE", "TO_CHAR", "TO_DATE"))
"""Functions whose arguments differ from those of the function with the same purpose."""
_METHODS = {"STRIP": "TRIM", "TOLOWERCASE": "LOWER", "TOUPPERCASE": "UPPER"}
_NAMES_OF_NOW = frozenset(("CURRENT_TIMESTAMP", "NOW", "SYSDATE", "GETDATE"))
_WORDS_AS_FIELDS = frozenset(("TEXT", "HINT", "ASC", "DESC", "CURRENT", "PREVIOUS", "OPTIONAL", "SET_CURRENT", "AS"))
_PAIRS_OF_WORDS = frozenset((("NOT", "NULL"), ("OF", "CURRENT"), ("OF", "PREVIOUS")))
_ENDS_OF_CONDITIONS = frozenset(("ORDER", "GROUP", "LIMIT", "HAVING"))
_REGEX_CHARACTERS = re.compile(r"[\\.^$*+?()\[\]{}|]")
_BOUNDARIES = frozenset(("AND", "OR", "NOT", "&&", "||", "&", "|", "!", "(", ")", ",", "WHERE", ";"))

_COUNT_PATTERN = re.compile(r"\bCOUNT\s*\(\s*\*\s*\)", re.IGNORECASE)
_ELEMENT_WORDS = " in a text, = for an element of an array"
_FIELD_REASON = "start a field with a slash"
_SIGN_END = "\0"
"""Ends a piece that is joined to the next one without a space."""


class Translation(Struct, frozen=True):
    """A text of this language with the intended meaning of another text; ``reasons`` are the differences."""

    text: str
    reasons: Sequence[str]


def add_suggestion(
    error: ExpressionError, text: str, context: Context, extra: Mapping[str, Function] = NO_FUNCTIONS
) -> ExpressionError:
    """The error, with a text that compiles in its hint and as its fact ``suggestion``, if one is known."""
    found = suggest_text(text, context, extra)
    if found is not None:
        error.hint = f"{'; '.join(found.reasons[:_MAX_REASONS])}: {found.text}"
        error.facts["suggestion"] = found.text
    elif not context.rules.aggregates and _COUNT_PATTERN.search(text):
        error.hint = "a filter sees one record at a time; in a projection, COUNT(1) AS /count counts records"
    return error


def suggest_text(text: str, context: Context, extra: Mapping[str, Function] = NO_FUNCTIONS) -> Translation | None:
    """The intended meaning of a text that does not compile in a context, as one that does; None if unknown."""
    if len(text) > MAX_TRANSLATED_CHARACTERS:
        return None
    found = translate_text(text, is_filter=not context.rules.aggregates)
    if found is None or not found.reasons:
        return None
    try:
        for node in _parse_nodes(found.text, context):
            check_node(node, found.text, context, extra)
            for part in walk_tree(node):
                if isinstance(part, Pattern):
                    compile_pattern(part, found.text)
    except ExpressionError:
        return None
    return found


def _parse_nodes(text: str, context: Context) -> list[Node]:
    if context.rules.aggregates:
        return [field.expression for field in parse_projection(text)]
    return [parse_field(text).expression if context.rules.hints else parse_expression(text)]


def suggest_list(text: str, read: Callable[[str], object]) -> Translation | None:
    """The intended grouping or order if its fields are not paths; ``read`` raises for an invalid text."""
    tokens = tokenize_foreign(text) if len(text) <= MAX_TRANSLATED_CHARACTERS else None
    pieces = []
    for token in tokens or ():
        if token.kind == "word" and token.upper not in ("ASC", "DESC", "TEXT"):
            path = build_field(token.name)
            pieces.append(token.text if path is None else path)
        else:
            pieces.append(token.text)
    found = _join_pieces(pieces)
    try:
        read(found)
    except ExpressionError:
        return None
    return Translation(found, [_FIELD_REASON])


def add_list_suggestion(error: ExpressionError, text: str, read: Callable[[str], object]) -> ExpressionError:
    """The error of a grouping or an order, with what :func:`suggest_list` suggests."""
    found = suggest_list(text, read)
    if found is not None:
        error.hint = f"{found.reasons[0]}: {found.text}"
        error.facts["suggestion"] = found.text
    return error


def translate_text(text: str, *, is_filter: bool = True) -> Translation | None:
    """The text in this language; None if parts of it are not understood."""
    tokens = tokenize_foreign(text)
    if not tokens:
        return None
    translator = _Translator(tokens, is_filter)
    try:
        pieces = translator.translate_filter() if is_filter else translator.translate_fields()
    except _UnknownPartError:
        return None
    return Translation(_join_pieces(pieces), list(translator.reasons))


def is_sql_pattern(pattern: str) -> bool:
    """Return whether a pattern has SQL wildcards and nothing that only regular expressions have."""
    wild = pattern.startswith(("%", "__", "_%")) or pattern.endswith(("%", "__", "%_"))
    return wild and _REGEX_CHARACTERS.search(pattern) is None


def translate_sql_pattern(pattern: str) -> str:
    """The regular expression equivalent to a pattern with the wildcards % and _."""
    return _translate_wildcards(pattern, "%", "_")


def _translate_wildcards(pattern: str, many: str, one: str) -> str:
    if not pattern.strip(many):
        return "."
    middle = pattern.strip(many)
    begin = "" if pattern.startswith(many) else "^"
    end = "" if pattern.endswith(many) else "$"
    parts = {many: ".*", one: "."}
    return begin + "".join(parts.get(char) or _escape_pattern(char) for char in middle) + end


def quote_text(text: str) -> str:
    """The text as a string of this language, or as a pattern."""
    return "'" + text.replace("'", "\\'") + "'"


class _UnknownPartError(Exception):
    """A part of the text is not understood."""


_Range: TypeAlias = tuple[int, int]
"""Index of the first token, and one past the last."""


def _join_pieces(pieces: Sequence[str]) -> str:
    """One text of words and signs; no space between a sign (``+`` with nothing before it) and its operand."""
    text = ""
    for piece in pieces:
        touches = not text or text.endswith(("(", _SIGN_END)) or piece in (")", ",")
        text = text.removesuffix(_SIGN_END) + ("" if touches else " ") + piece
    return text


class _Translator:
    """Translates the tokens of one text; ``reasons`` are those of the changes so far, in their order."""

    def __init__(self, tokens: Sequence[ForeignToken], is_filter: bool) -> None:
        self._tokens = tokens
        self._is_filter = is_filter
        self.reasons: dict[str, None] = {}

    def _explain(self, reason: str) -> None:
        self.reasons.setdefault(reason)

    def _explain_word(self, meant: str, written: str) -> None:
        if meant != written.upper():
            self._explain(f"write {meant} for {written}")

    def _get_word(self, place: int, end: int) -> str:
        """The word or operator at a place, in upper case; empty for anything else."""
        return self._tokens[place].upper if 0 <= place < end else ""

    def _find_condition(self) -> _Range:
        """Begin and end of the condition: for a SELECT the part after WHERE."""
        begin, end = 0, len(self._tokens)
        words = [token.upper for token in self._tokens]
        if words[0] == "SELECT" and "WHERE" in words:
            begin = words.index("WHERE")
        if words[begin] == "WHERE":
            begin += 1
            end = next((place for place in range(begin, end) if words[place] in _ENDS_OF_CONDITIONS), end)
            self._explain("a filter is the condition alone, without WHERE")
        if end > begin and words[end - 1] == ";":
            end -= 1
            self._explain("write no ; at the end")
        return begin, end

    def translate_range(self, begin: int, end: int, depth: int = 0, *, listed: bool = False) -> list[str]:
        """The pieces of the tokens from ``begin`` to ``end``; ``listed``: they are members of a list after IN."""
        if depth > _MAX_DEPTH or begin == end:
            raise _UnknownPartError
        pieces: list[str] = []
        place, operand = begin, True
        while place < end:
            translate = self._translate_operand if operand else self._translate_operator
            place, operand = translate(pieces, place, end, depth, listed)
        return pieces

    def translate_filter(self) -> list[str]:
        """The pieces of one expression."""
        return self.translate_range(*self._find_condition())

    def translate_fields(self) -> list[str]:
        """The pieces of the fields of a projection; each that is more than a path gets a destination."""
        pieces: list[str] = []
        names: set[str] = set()
        for begin, end in self._split_arguments(0, len(self._tokens)):
            words = [token.upper for token in self._tokens[begin:end]]
            field = []
            if "AS" not in words and end - begin > 1:
                # SQL allows a name after an expression without AS, or no name.
                named = self._tokens[end - 1].kind == "word" and words[-2] == ")"
                name = self._tokens[end - 1].name if named else self._choose_name(begin, end, names)
                end -= named
                field = ["AS", _build_field(name)]
                self._explain("write AS and a path for the name of a value")
                names.add(name)
            pieces += [*self.translate_range(begin, end), *field, ","]
        return pieces[:-1]

    def _choose_name(self, begin: int, end: int, taken: set[str]) -> str:
        """A name for a value: that of its first function, with that of its first field if it is in use."""
        words = [token.name.lower() for token in self._tokens[begin:end] if token.kind == "word"]
        first = words[0] if words else "value"
        field = next((token for token in self._tokens[begin + 1 : end] if token.kind in ("word", "path")), None)
        name = first if field is None or first not in taken else f"{first}_{(field.name or field.text).split('/')[-1]}"
        if name in taken:
            raise _UnknownPartError
        return name

    # operands -------------------------------------------------------------------------------------------------------

    def _translate_operand(self, pieces: list[str], place: int, end: int, depth: int, listed: bool) -> tuple[int, bool]:
        """Add an operand or a prefix of one; returns the next place, and whether an operand must follow."""
        token = self._tokens[place]
        word = token.upper
        if word == "(":
            close = self._find_close(place, end)
            pieces.append(f"({_join_pieces(self.translate_range(place + 1, close, depth + 1, listed=listed))})")
            return close + 1, False
        if word in ("!", "¬"):
            self._explain_word("NOT", token.text)
            pieces.append("NOT")
            return place + 1, True
        if word in ("+", "-"):
            pieces.append(token.text + _SIGN_END)
            return place + 1, True
        if token.kind == "operator":
            raise _UnknownPartError
        if word == "NOT":
            pieces.append(token.text)
            return place + 1, True
        if token.kind == "method" or (token.kind == "word" and self._get_word(place + 1, end) == "("):
            return self._translate_call(pieces, place, end, depth), False
        if word in ("DATE", "TIMESTAMP") and place + 1 < end and self._tokens[place + 1].kind == "string":
            self._explain(f"write the text without {word}")
            return place + 1, True
        pieces.append(self._translate_value(place, end, listed))
        return place + 1, False

    def _translate_value(self, place: int, end: int, listed: bool) -> str:
        """The literal or field at a place."""
        token = self._tokens[place]
        word = token.upper
        if token.kind == "string":
            if token.changed:
                self._explain("write straight quotation marks: '")
            if self._get_word(place - 1, end) == "AS":
                self._explain(_FIELD_REASON)
                return _build_field(token.text[1:-1])
            if self._is_quoted_name(place, end):
                self._explain(f"{token.text} is text, not a field")
                return _build_field(token.text[1:-1])
            return self._translate_string(token.text)
        if token.kind == "path":
            if token.changed:
                self._explain(_FIELD_REASON)
            return token.text
        if token.kind == "regex":
            raise _UnknownPartError
        if token.kind == "number" and token.changed:
            self._explain("write numbers in decimal digits")
        if token.kind != "word" or word in ("NULL", "NAN", "TRUE", "FALSE"):
            return token.text
        if word in ("NONE", "NIL", "UNDEFINED"):
            self._explain_word("NULL", token.text)
            return "NULL"
        if word in _NAMES_OF_NOW:
            self._explain_word("UNIX_TIMESTAMP()", token.text)
            return "UNIX_TIMESTAMP()"
        # user and bookmark are fields rather than functions.
        if word == token.text and "_" in word and word in FUNCTIONS and not FUNCTIONS[word].least:
            self._explain_word(f"{word}()", token.text)
            return f"{word}()"
        if word in KEYWORDS and word not in _WORDS_AS_FIELDS:
            raise _UnknownPartError
        if listed or self._is_compared_text(place):
            self._explain(f"write '{token.text}' for text, /{token.text} for a field")
            return quote_text(token.text)
        self._explain(_FIELD_REASON)
        return _build_field(token.text)

    def _is_compared_text(self, place: int) -> bool:
        """Return whether a word is at a place where text is likely: ``symbol = IBM``."""
        equal = _COMPARISONS.get(self._get_word(place - 1, place)) in ("=", "<>")
        before = self._tokens[place - 2] if equal and place > 1 else None
        return before is not None and (before.kind in ("word", "path") or before.text == ")")

    def _is_quoted_name(self, place: int, end: int) -> bool:
        """Return whether a string in double quotes is compared with a literal, so that a field must be meant."""
        token = self._tokens[place]
        if token.text[0] != '"' or not token.text[1:-1].isidentifier():
            return False
        if place and self._tokens[place - 1].upper not in _BOUNDARIES:
            return False
        other = self._tokens[place + 2].kind if place + 2 < end else ""
        return self._get_word(place + 1, end) in _COMPARISONS and other in ("string", "raw", "number")

    def _translate_string(self, text: str) -> str:
        content = _read_content(text)
        quote = text[0]
        if quote * 2 not in text[1:-1].replace("\\" + quote, ""):
            return text
        self._explain(f"write \\{quote} for a quote inside a string")
        return quote + content.replace(quote, "\\" + quote) + quote

    def _find_close(self, open_at: int, end: int) -> int:
        """The place of the bracket that closes the one at ``open_at``."""
        depth = 0
        for place in range(open_at, end):
            word = self._tokens[place].upper
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            if not depth:
                return place
        raise _UnknownPartError

    def _split_arguments(self, begin: int, end: int, separators: Sequence[str] = (",",)) -> list[_Range]:
        """The ranges of the arguments between two brackets."""
        ranges, depth, start = [], 0, begin
        for place in range(begin, end):
            word = self._tokens[place].upper
            depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
            if not depth and word in separators:
                ranges.append((start, place))
                start = place + 1
        return [*ranges, (start, end)] if begin < end else []

    # calls ----------------------------------------------------------------------------------------------------------

    def _translate_call(self, pieces: list[str], place: int, end: int, depth: int) -> int:
        """Add the function or method call at a place; returns the place after it."""
        token = self._tokens[place]
        close = self._find_close(place + 1, end)
        ranges = self._split_arguments(place + 2, close)
        name = _METHODS.get(token.name.upper(), token.name.upper())
        written = f".{token.name}()" if token.kind == "method" else f"{token.name}()"
        # The reason for a replaced call comes before those of changes inside it.
        marks = dict(self.reasons)
        if name == "COUNT" and [self._get_word(*one) for one in ranges] == ["*"]:
            self._explain("write COUNT(1) for COUNT(*)")
            pieces.append("COUNT(1)")
            return close + 1
        arguments = [_join_pieces(self.translate_range(*one, depth + 1)) for one in ranges]
        inner = [reason for reason in self.reasons if reason not in marks]
        self.reasons = marks
        literals = [self._get_literal(*one) for one in ranges]
        if token.kind == "method":
            arguments.insert(0, token.text)
            literals.insert(0, None)
        built = _build_test(name, arguments, literals)
        if built is not None:
            words, operator = built
            self._explain(f"write {operator} for {written}" + (_ELEMENT_WORDS if name in _SEARCH_FUNCTIONS else ""))
            before, after = self._get_word(place - 1, end) or "(", self._get_word(close + 1, end) or ")"
            pieces.append(words if {before, after} <= _BOUNDARIES else f"({words})")
        elif name in ("ANY", "SOME") and self._get_word(place - 1, end) in _COMPARISONS and len(arguments) == 1:
            self._explain(f"a comparison looks at all elements of a field, without {name}")
            pieces.append(arguments[0])
        elif name in _UNTRANSLATED_FUNCTIONS:
            raise _UnknownPartError
        else:
            meant = FOREIGN_FUNCTIONS.get(name, name)
            if name in _SWAPPED_FUNCTIONS:
                arguments[:2] = arguments[1::-1]
            if token.kind == "method" or meant != name:
                self._explain(f"write {meant}() for {written}")
            pieces.append(f"{token.name if meant == token.name.upper() else meant}({', '.join(arguments)})")
        self.reasons |= dict.fromkeys(inner)
        return close + 1

    def _get_literal(self, begin: int, end: int) -> ForeignToken | None:
        """The string or pattern that is the whole argument."""
        token = self._tokens[begin] if end - begin == 1 else None
        return token if token is not None and token.kind in ("string", "raw", "regex") else None

    # operators ------------------------------------------------------------------------------------------------------

    def _translate_operator(
        self, pieces: list[str], place: int, end: int, depth: int, listed: bool
    ) -> tuple[int, bool]:
        """Add an operator with its operands; returns the next place, and whether an operand must follow."""
        token = self._tokens[place]
        word = token.upper
        meant = _OPERATORS.get(word)
        if meant is not None:
            if meant == "," and not depth and self._is_filter:
                raise _UnknownPartError
            if meant in ("=", "<>") and self._get_word(place + 1, end) in _NOTHING:
                self._add_null_test(pieces, f"{token.text} {self._tokens[place + 1].text}", meant == "<>")
                return place + 2, False
            # Synonyms that this language has, too, need no reason.
            if word not in ("==", "!="):
                self._explain_word(meant, token.text)
            pieces.append(token.text if word in ("==", "!=") or meant == word else meant)
            return place + 1, True
        if word in ("ISNULL", "NOTNULL"):
            self._add_null_test(pieces, token.text, word == "NOTNULL")
            return place + 1, False
        if (word, self._get_word(place + 1, end)) in _PAIRS_OF_WORDS:
            pieces.append(f"{token.text} {self._tokens[place + 1].text}")
            return place + 2, False
        if word == "IS":
            return self._translate_is(pieces, place, end)
        negated = word == "NOT" or word.startswith("!~")
        if word == "NOT":
            place, word = place + 1, self._get_word(place + 1, end)
        elif negated:
            word = word[1:]
        if word in ("IN", "BETWEEN"):
            translate = self._translate_in if word == "IN" else self._translate_between
            return translate(pieces, place, end, depth, negated)
        return self._translate_search(pieces, place, end, word, negated)

    def _add_null_test(self, pieces: list[str], written: str, negated: bool) -> None:
        pieces.append("IS NOT NULL" if negated else "IS NULL")
        self._explain_word(pieces[-1], written)

    def _translate_is(self, pieces: list[str], place: int, end: int) -> tuple[int, bool]:
        """``IS`` with its operand: this language has it only for NULL and NAN."""
        negated = self._get_word(place + 1, end) == "NOT"
        value = place + 1 + negated
        word = self._get_word(value, end)
        if word in ("NULL", "NAN"):
            pieces.append(" ".join(token.text for token in self._tokens[place : value + 1]))
            return value + 1, False
        if word in _NOTHING or word in _SOMETHING:
            written = " ".join(token.text for token in self._tokens[place : value + 1])
            self._add_null_test(pieces, written, negated != (word in _SOMETHING))
            return value + 1, False
        self._explain("write <> for IS NOT" if negated else "write = for IS")
        pieces.append("<>" if negated else "=")
        return value, True

    def _translate_in(self, pieces: list[str], place: int, end: int, depth: int, negated: bool) -> tuple[int, bool]:
        pieces.append(("NOT " if negated else "") + self._tokens[place].text)
        place += 1
        if self._get_word(place, end) in ("(", "[", "{"):
            close = self._find_close(place, end)
            if self._tokens[place].text != "(":
                self._explain("write a list in parentheses")
            pieces.append(f"({_join_pieces(self.translate_range(place + 1, close, depth + 1, listed=True))})")
            return close + 1, False
        if place == end or self._tokens[place].kind == "operator":
            raise _UnknownPartError
        self._explain("IN takes a list in parentheses; a field in it stands for all its elements")
        # A single word is the array that is searched.
        inner: list[str] = []
        place, _ = self._translate_operand(inner, place, end, depth, False)
        pieces.append(f"({_join_pieces(inner)})")
        return place, False

    def _translate_between(
        self, pieces: list[str], place: int, end: int, depth: int, negated: bool
    ) -> tuple[int, bool]:
        pieces.append(("NOT " if negated else "") + self._tokens[place].text)
        first = place + 1
        ranges: list[_Range] = []
        if self._get_word(first, end) in ("(", "["):
            last = self._find_close(first, end)
            ranges = self._split_arguments(first + 1, last, (",", "AND"))
            last += 1
        if len(ranges) != 2:
            # Without brackets the second value is one token, or a call.
            place = next((one for one in range(first, end) if self._get_word(one, end) in (",", "AND")), end)
            last = place + 2
            if self._get_word(place + 1, end) == "-" or self._get_word(last, end) == "(":
                last = self._find_close(last, end) + 1 if self._get_word(last, end) == "(" else last + 1
            if last > end:
                raise _UnknownPartError
            ranges = [(first, place), (place + 1, last)]
            if self._get_word(place, end) == ",":
                self._explain("write BETWEEN a AND b")
        else:
            self._explain("write BETWEEN a AND b")
        least, most = (_join_pieces(self.translate_range(*one, depth + 1)) for one in ranges)
        pieces += [least, "AND", most]
        return last, False

    def _translate_search(self, pieces: list[str], place: int, end: int, word: str, negated: bool) -> tuple[int, bool]:
        """An operator that searches a text, with its pattern."""
        written = self._tokens[place].text if place < end else ""
        value = place + 1
        if (word, self._get_word(value, end)) in (
            ("SIMILAR", "TO"),
            ("STARTS", "WITH"),
            ("BEGINS", "WITH"),
            ("ENDS", "WITH"),
        ):
            written += f" {self._tokens[value].text}"
            value += 1
        if value >= end:
            raise _UnknownPartError
        token = self._tokens[value]
        negation = "NOT " if negated else ""
        if word in _BEGINS or word in _ENDS:
            operator = "BEGINS WITH" if word in _BEGINS else "ENDS WITH"
            self._explain_word(operator, written)
            pieces.append(negation + operator)
            if token.upper == "(":
                close = self._find_close(value, end)
                pieces.append(f"({_join_pieces(self.translate_range(value + 1, close, 1, listed=True))})")
                return close + 1, False
            given = self._read_text(token)
            pieces.append(quote_text(given) if given is not None else f"({self._translate_value(value, end, False)})")
            return value + 1, False
        if word in _ELEMENT_SEARCHES:
            self._explain(f"write = for {written}, which holds for any element")
            inner = self._translate_value(value, end, True)
            if negated:
                pieces[-1] = f"NOT {pieces[-1]}"
            pieces += ["=", inner]
            return value + 1, False
        given = self._read_text(token)
        if given is None:
            raise _UnknownPartError
        if word in _TEXT_SEARCHES:
            self._explain(f"write LIKE for {written}{_ELEMENT_WORDS}")
            given = _escape_pattern(given) if token.kind != "raw" else given
            pattern = quote_text(("(?i)" if word == "ICONTAINS" else "") + given)
        elif word in _SQL_PATTERNS:
            pattern = self._build_pattern(word, token, given)
            self._explain_word("LIKE", written)
        elif word in _REGEX_PATTERNS:
            self._explain_word("LIKE", written)
            pattern = token.text if token.kind == "raw" else quote_text(_REGEX_PATTERNS[word] + given)
        else:
            raise _UnknownPartError
        pieces += [f"{negation}LIKE", pattern]
        return value + 1, False

    def _read_text(self, token: ForeignToken) -> str | None:
        """The text of a string, a pattern or a word whose quotes a shell has removed; None for anything else."""
        if token.kind in ("string", "raw"):
            return _read_content(token.text.lstrip("rR")) if token.kind == "string" else token.text[2:-1]
        if token.kind == "word" and token.upper not in KEYWORDS:
            self._explain("write text in quotes")
            return token.text
        return token.text if token.kind == "regex" else None

    def _build_pattern(self, word: str, token: ForeignToken, given: str) -> str:
        """The pattern of an operator whose patterns have wildcards."""
        prefix = _SQL_PATTERNS[word]
        if word == "GLOB":
            return quote_text(_translate_wildcards(given, "*", "?"))
        # LIKE of this language takes a regular expression, so only patterns that look like SQL are changed.
        if is_sql_pattern(given) or (word != "LIKE" and not _REGEX_CHARACTERS.search(given)):
            if is_sql_pattern(given):
                self._explain("LIKE takes a regular expression, without % and _")
            return quote_text(prefix + translate_sql_pattern(given))
        return quote_text(prefix + given) if prefix or token.kind == "word" else token.text


def _build_test(name: str, arguments: Sequence[str], literals: Sequence[ForeignToken | None]) -> tuple[str, str] | None:
    """The predicate equivalent to a function of another language, and its operator; None for other functions."""
    if len(arguments) == 1:
        if name in _PRESENCE_TESTS:
            return f"{arguments[0]} IS NOT NULL", "IS NOT NULL"
        return (f"{arguments[0]} IS NULL", "IS NULL") if name in _ABSENCE_TESTS else None
    if len(arguments) != 2:
        return None
    left, right = arguments
    literal = literals[1]
    if name == "ISNULL":
        return f"COALESCE({left}, {right})", "COALESCE()"
    if name in _ELEMENT_FUNCTIONS:
        return f"{left} = {right}", "="
    if name in _BEGINS or name in _ENDS:
        operator = "BEGINS WITH" if name in _BEGINS else "ENDS WITH"
        return f"{left} {operator} {f'({right})' if literal is None else right}", operator
    if name in _SEARCH_FUNCTIONS:
        if literal is None:
            return f"INSTR({left}, {right}) > 0", "INSTR"
        prefix = "(?i)" if name == "ICONTAINS" else ""
        return f"{left} LIKE {quote_text(prefix + _escape_pattern(_read_content(literal.text)))}", "LIKE"
    if name in _REGEX_FUNCTIONS and literal is not None:
        return f"{left} LIKE {quote_text(literal.text) if literal.kind == 'regex' else literal.text}", "LIKE"
    return None


def _read_content(text: str) -> str:
    """The content of a string of another language: a quote is doubled or preceded by a backslash."""
    quote = text[0]
    return text[1:-1].replace("\\" + quote, quote).replace(quote * 2, quote)


def _escape_pattern(text: str) -> str:
    """The regular expression that matches a text."""
    return _REGEX_CHARACTERS.sub(r"\\\g<0>", text)


def _build_field(name: str) -> str:
    path = build_field(name)
    if path is None:
        raise _UnknownPartError
    return path
