"""Codes of the expression language; sowctl-expressions(7) lists their titles, too."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-EXP-001": """2 invalid character

        Why: The expression has a character that the language does not use, such as an operator of another
        language.
        Do: Use the operator in the hint, or quote the text.
        """,
    "SOW-EXP-002": """2 malformed number

        Why: Digits are followed by letters, or a number has two decimal points or an empty exponent.
        Do: Write a decimal number, or quote the value if it is text.
        """,
    "SOW-EXP-003": """2 unterminated string

        Why: The string has no closing quote of the same kind. A shell may have removed the quote.
        Do: Close the string with the same quote; escape a quote inside with a backslash.
        """,
    "SOW-EXP-004": """2 malformed path

        Why: The path has a slash without a step after it.
        Do: Start a step with a letter, digit, underscore or ``@``; enclose other names in brackets: ``[/odd
        name]``.
        """,
    "SOW-EXP-005": """2 malformed bracket

        Why: A bracket is not closed, contains no path, or contains a qualifier without a path after it.
        Do: Write ``[/odd name]`` for a path, ``[topic]./field`` for a qualified field.
        """,
    "SOW-EXP-006": """2 bare word

        Why: A word is neither a field nor a function. Fields start with a slash, text is quoted.
        Do: Write ``/word`` or ``'word'``.
        """,
    "SOW-EXP-007": """2 unexpected end of expression

        Why: The expression ends where an operand, an operator or a closing parenthesis is required.
        Do: Complete the expression; the hint lists what is valid here.
        """,
    "SOW-EXP-008": """2 expression is nested too deeply

        Why: Parentheses, calls or operators are nested more deeply than the parser allows.
        Do: Split the expression, or remove unnecessary parentheses.
        """,
    "SOW-EXP-009": """2 expression is not UTF-8

        Why: The expression has bytes that are not valid UTF-8.
        Do: Write it in UTF-8.
        """,
    "SOW-EXP-010": """2 unknown function

        Why: Neither the language nor a module of the configuration has a function with this name.
        Do: ``sowctl functions`` lists all functions; the message names similar ones.
        """,
    "SOW-EXP-011": """2 wrong number of arguments

        Why: The function was called with too many or too few arguments.
        Do: ``sowctl functions NAME`` prints the arguments.
        """,
    "SOW-EXP-012": """2 function not allowed here

        Why: The function is volatile or looks up other topics, which is not allowed where results must be
        stable: in the filter of a view or queue, or in an aggregate.
        Do: Use it in Preprocessing or Enrichment, and filter by the field that it sets.
        """,
    "SOW-EXP-013": """2 OF CURRENT or OF PREVIOUS not allowed here

        Why: The expression has access to only one message, or to no previous record.
        Do: Remove the words; Enrichment supports both, Preprocessing neither.
        """,
    "SOW-EXP-014": """2 qualifier not allowed here

        Why: A field is qualified with a topic, but the expression reads messages of only one topic.
        Do: Remove the qualifier; qualifiers are for views.
        """,
    "SOW-EXP-015": """2 aggregate outside a projection, or nested aggregate

        Why: Aggregates require groups, which exist only in the projection of a view or an aggregated query.
        Do: Move the aggregate to the projection, with a grouping.
        """,
    "SOW-EXP-016": """2 invalid pattern

        Why: The regular expression does not compile.
        Do: Correct it at the position in the message.
        """,
    "SOW-EXP-017": """2 pattern is not a literal

        Why: The pattern of a match is a field or a call, but patterns are compiled before data is read.
        Do: Write the pattern as a string literal.
        """,
    "SOW-EXP-018": """2 unexpected token

        Why: The parser found a word or an operator that is not valid at this position, for example two operands
        without an operator, or an extra comma.
        Do: See the position of the caret; the hint lists what is valid there.
        """,
    "SOW-EXP-020": """2 missing AS

        Why: A constructed field or a projection has no destination.
        Do: Add ``AS /destination``.
        """,
    "SOW-EXP-021": """2 destination with a subscript or a qualifier

        Why: A destination must be a plain path; elements of arrays and fields of other topics cannot be set.
        Do: Use a plain path.
        """,
    "SOW-EXP-022": """2 duplicate destination

        Why: Two fields of a projection or construction have the same destination, so one of them would be lost.
        Do: Change one of the destinations.
        """,
    "SOW-EXP-023": """2 unqualified field in a join

        Why: In a join, an unqualified field is ambiguous.
        Do: Write it as ``[topic]./field``.
        """,
    "SOW-EXP-024": """2 HINT outside preprocessing and enrichment

        Why: Hints control how a message is rewritten, and this expression does not rewrite messages.
        Do: Remove the hint.
        """,
    "SOW-EXP-025": """2 malformed select list

        Why: A select list consists of paths with a plus or minus sign.
        Do: Write it like ``-/,+/id,+/name``.
        """,
    "SOW-EXP-026": """2 malformed join

        Why: A join is a field of one topic, an equals sign, and a field of another topic.
        Do: Write it like ``[orders]./customer = [customers]./id``.
        """,
    "SOW-EXP-027": """2 join without a known topic

        Why: The left side of the join names a topic that no earlier join has introduced, or both sides name the
        same topic.
        Do: Order the joins so that the topic on the left side is already known.
        """,
    "SOW-EXP-028": """2 qualifier is not a source of the view

        Why: A field is qualified with a topic that the view does not read.
        Do: Name one of the topics of the view, with its type if two share the name.
        """,
    "SOW-EXP-030": """7 match exceeds the step limit; found while data is read

        Why: The pattern required too many steps on a record, and the regular expression engine gave up. Either
        result would be a guess.
        Do: Make nested quantifiers possessive, or anchor the pattern.
        """,
    "SOW-EXP-031": """3 user function failed or returned an unsupported value; found while data is read

        Why: A function of a plug-in raised an exception for a record, or returned a list, an object or another
        unsupported Python value.
        Do: Fix the function; it must return None, bool, int, float, str or bytes.
        See: sowctl-plugins(7)
        """,
    "SOW-EXP-032": """2 expression is too long

        Why: An expression in the configuration exceeds the maximum length. Such expressions are usually
        generated by mistake.
        Do: Shorten it; use a lookup for long lists of values.
        """,
    "SOW-EXP-034": """7 total step limit of patterns exceeded; found while data is read

        Why: Each match stays below the limit of one match (SOW-EXP-030), but many messages take nearly as many steps:
        more than 1,000,000,000 in one run and 100,000 more for each record examined. The first 16,000 steps of a match
        are not counted, nor are 16 for each byte of the text, up to 64 KiB of it.
        Do: Make nested quantifiers possessive, or anchor the pattern.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-035": """7 result longer than 64 MiB; found while data is read

        Why: A function returned more than 64 MiB of text, the maximum size of a message; or the long results
        for one batch of messages exceed 512 MiB in total. Nested REPLACE and CONCAT multiply a text.
        Do: Use SUBSTR to shorten the text first.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-036": """7 evaluation time limit exceeded; found while data is read

        Why: A program that uses the Python API set a time limit with EvaluationLimits, and it was exceeded.
        Do: Allow more time, or reduce the work: use a filter that an index can answer, or fewer topics.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-037": """7 GROUP_CONCAT longer than 64 MiB; found while data is read

        Why: The distinct values of one group have more bytes in total than a message can have.
        Do: Group by more fields, or filter, so that each group has fewer values.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-040": """2 path of more than 256 steps

        Why: The path is deeper than any message can be nested.
        Do: Shorten it.
        """,
    "SOW-EXP-041": """2 expression of more than 40,000 tokens

        Why: The expression is too large to compile in reasonable time.
        Do: Split it; for long lists of keys, use ``--sow-key`` or a file of messages.
        """,
    "SOW-EXP-050": """5 inconsistent aggregate

        Why: A cached group of a view has fewer messages than a change removes, or other ones. The group is
        corrupt or belongs to another state of the sources.
        Do: No action is needed: the view cache is rebuilt from its sources.
        """,
}
