"""Codes of the expression language; sowctl-expressions(7) lists their titles, too."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-EXP-001": """2 a character that starts no token

        Why: The text holds a sign that the language does not have, such as ``==`` of another language.
        Do: Take the sign that the hint names, or put the text in quotes.
        """,
    "SOW-EXP-002": """2 a malformed number

        Why: Digits are followed by letters, or a number has two points or an empty exponent.
        Do: Write a decimal number; put it in quotes where it is a text.
        """,
    "SOW-EXP-003": """2 a string without end

        Why: A quote opens a string and none of its kind closes it. A shell may have taken the quote away.
        Do: Close it with the same quote; a backslash stands before a quote inside.
        """,
    "SOW-EXP-004": """2 a malformed path

        Why: A slash begins a path, and no step follows it.
        Do: Begin a step with a letter, digit, underscore or ``@``; other names stand in brackets: ``[/odd name]``.
        """,
    "SOW-EXP-005": """2 a malformed bracket

        Why: A bracket has no end, holds no path, or holds a qualifier behind which the path is missing.
        Do: Write ``[/odd name]`` for a path, ``[topic]./field`` for a qualified field.
        """,
    "SOW-EXP-006": """2 a bare word, neither field nor function

        Why: A word stands alone. Fields begin with a slash, and texts have quotes.
        Do: Write ``/word`` or ``'word'``.
        """,
    "SOW-EXP-007": """2 the text ends too early

        Why: The expression stops where an operand, an operator or a closing parenthesis is wanted.
        Do: Complete it; the hint says what could follow.
        """,
    "SOW-EXP-008": """2 the expression is nested too deeply

        Why: Parentheses, calls or operators stand inside one another beyond what the parser allows.
        Do: Split the expression, or remove needless parentheses.
        """,
    "SOW-EXP-009": """2 the text is not UTF-8

        Why: The expression has bytes that are no characters.
        Do: Write it in UTF-8.
        """,
    "SOW-EXP-010": """2 an unknown function

        Why: There is no function of that name, and no module of the configuration adds one.
        Do: ``sowctl functions`` lists them; the message names near ones.
        """,
    "SOW-EXP-011": """2 a wrong number of arguments

        Why: The function was called with more or fewer arguments than it takes.
        Do: ``sowctl functions NAME`` shows them.
        """,
    "SOW-EXP-012": """2 a function that is forbidden in the context

        Why: The function changes its result from call to call, or looks up other topics, where a result must stay the
        same: in the filter of a view or queue, in an aggregate.
        Do: Use it in Preprocessing or Enrichment, and filter by the field that was written there.
        """,
    "SOW-EXP-013": """2 OF CURRENT or OF PREVIOUS where it is forbidden

        Why: There is only one message here, or no record before it, so the words have no meaning.
        Do: Leave them out; Enrichment knows both, Preprocessing neither.
        """,
    "SOW-EXP-014": """2 a qualifier where it is forbidden

        Why: A field names its topic, and this expression reads messages of one topic only.
        Do: Leave the qualifier out; it belongs to views.
        """,
    "SOW-EXP-015": """2 an aggregate outside a projection, or inside another aggregate

        Why: Aggregates sum up groups of records, and only the projection of a view or an aggregated query has groups.
        Do: Move it to the projection, with a grouping.
        """,
    "SOW-EXP-016": """2 a pattern that the engine rejects

        Why: The regular expression does not compile.
        Do: Correct it at the place in the message.
        """,
    "SOW-EXP-017": """2 a pattern that is no literal

        Why: The pattern of a match is a field or a call. Patterns are compiled once, before data is read.
        Do: Write the pattern as a literal text.
        """,
    "SOW-EXP-018": """2 a token that cannot stand there

        Why: The parser met a word or sign that nothing before it allows: two operands without an operator, a comma
        too many.
        Do: Look at the caret; the hint lists what could stand there.
        """,
    "SOW-EXP-020": """2 AS is missing

        Why: A constructed field or a projection says what to compute, not where to put it.
        Do: Add ``AS /destination``.
        """,
    "SOW-EXP-021": """2 a destination with a subscript or a qualifier

        Why: Fields are written by names; an element of an array or a field of another topic cannot be one.
        Do: Name a plain path.
        """,
    "SOW-EXP-022": """2 two fields with one destination

        Why: Two fields of a projection or construction write to the same path, so one of them would be lost.
        Do: Give one of them another destination.
        """,
    "SOW-EXP-023": """2 a field of a join without its topic

        Why: In a join, a field could belong to several topics.
        Do: Write it as ``[topic]./field``.
        """,
    "SOW-EXP-024": """2 HINT outside preprocessing and enrichment

        Why: Hints say how a message is rewritten, and nothing is rewritten here.
        Do: Leave the hint out.
        """,
    "SOW-EXP-025": """2 a malformed select list

        Why: The list is not made of plus or minus signs with paths.
        Do: Write it like ``-/,+/id,+/name``.
        """,
    "SOW-EXP-026": """2 a malformed join

        Why: A join is not one field of a topic, an equals sign, and one field of another topic.
        Do: Write it like ``[orders]./customer = [customers]./id``.
        """,
    "SOW-EXP-027": """2 a join that attaches nothing

        Why: The first side of the join names a topic that no earlier join has brought in, or both sides name one
        topic.
        Do: Order the joins so that the first side is known already.
        """,
    "SOW-EXP-028": """2 a qualifier that names no source of the view

        Why: A field is qualified with a topic that the view does not read.
        Do: Name one of the view's topics, with its type where two share the name.
        """,
    "SOW-EXP-030": """7 a match that exceeds the step limit; found while data is read

        Why: The pattern tries so many ways on some record that the engine gives up. Deciding either way would be a
        wrong answer.
        Do: Make nested quantifiers possessive, or anchor the pattern.
        """,
    "SOW-EXP-031": """3 a user function that fails or gives what is no value of the language; found while data is read

        Why: A function of a plug-in raised an exception on a record, or gave a list, an object or another Python
        value.
        Do: Repair the function; it gives None, bool, int, float, str or bytes.
        See: sowctl-plugins(7)
        """,
    "SOW-EXP-032": """2 an expression that is too long

        Why: An expression in a configuration is longer than is compiled. Such texts are mostly generated by mistake.
        Do: Shorten it; long lists of values are better looked up.
        """,
    "SOW-EXP-034": """7 patterns whose long matches take too many steps in all; found while data is read

        Why: Each match stays below the limit of one match (SOW-EXP-030), but many messages take nearly as many steps:
        more than 1,000,000,000 in one run and 100,000 more for each record examined. The first 16,000 steps of a match
        are not counted, nor are 16 for each byte of the text, up to 64 KiB of it.
        Do: Make nested quantifiers possessive, or anchor the pattern.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-035": """7 a function that makes a text of more than 64 MiB; found while data is read

        Why: No message may be that long. The same is said where the long texts that are made for one batch of messages
        have more than 512 MiB together: nested REPLACE and CONCAT multiply a text.
        Do: Take a part of the text first, with SUBSTR.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-036": """7 an evaluation that took longer than the program allows; found while data is read

        Why: A program that uses the Python API gave EvaluationLimits with seconds, and these are over.
        Do: Allow more time, or ask for less: a filter that an index can answer, fewer topics.
        See: sowctl-expressions(7)
        """,
    "SOW-EXP-040": """2 a path of more than 256 steps

        Why: No message is nested that deeply, so the path can never lead to anything.
        Do: Shorten it.
        """,
    "SOW-EXP-041": """2 an expression of more than 40,000 words and signs

        Why: The text is too large to be compiled in reasonable time.
        Do: Split it; long lists of keys belong to ``--sow-key`` or to a file of messages.
        """,
    "SOW-EXP-050": """5 an aggregate that gives back what it never got

        Why: A kept group of a view holds fewer messages, or others, than a change takes from it. The group was spoilt
        or belongs to another state of the sources.
        Do: Nothing: a view's cache that shows this is made anew from its sources.
        """,
}
