"""Codes of message types, of framings of input, of keys and bookmarks, and of paths and times."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-IDN-001": """2 invalid bookmark

        Why: A bookmark is a publisher and a sequence number, each followed by a bar. Where a txid or a time is
        accepted, too, the text is neither.
        Do: Copy the bookmark from the output of ``sowctl journal dump``.
        See: sowctl-behaviour(7)
        """,
    "SOW-IDN-002": """2 invalid bookmark range

        Why: A range is a bracket, a position, a colon, a position and a bracket: ``[`` and ``]`` include the
        entries at the edges, ``(`` and ``)`` exclude them.
        Do: Write it as in ``[20260105T000000:20260106T000000)``; each side may be a time, a bookmark, a txid or
        a list.
        See: sowctl-behaviour(7)
        """,
    "SOW-IDN-010": """3 unpaired surrogate

        Why: A string in the message has one half of a surrogate pair, which is not a character. Different
        halves would become the same text, and so the same key.
        Do: Fix the program that writes such strings; the message is rejected.
        See: sowctl-messages(7)
        """,
    "SOW-IDN-011": """2 key with an unpaired surrogate

        Why: The key has one half of a surrogate pair, which is not a character; no record can have such a key.
        Do: Give the text of the key, or the SOW key as a number.
        See: sowctl-messages(7)
        """,
    "SOW-INP-001": """3 message is too long

        Why: A line, or the data between two NUL bytes, exceeds the maximum message size.
        Do: Correct the input, or choose another ``--framing``.
        """,
    "SOW-INP-002": """3 input ends within a message

        Why: With length prefixes, the input ends before the announced number of bytes; or it ends within a JSON array,
        or within an object that spans several lines. Earlier messages are complete.
        Do: Send the complete input; publish the rest from where the report says.
        """,
    "SOW-INP-003": """7 message length is too large

        Why: The four-byte length prefix of a message exceeds the maximum message size. After a wrong length,
        the rest of the input cannot be parsed.
        Do: Check whether the input has length prefixes at all; text usually requires ``--framing lines``.
        """,
    "SOW-INP-004": """2 unknown framing

        Why: There is no framing with this name.
        Do: Use one of the framings in the hint.
        """,
    "SOW-INP-005": """6 input cannot be read

        Why: The operating system could not read the input.
        Do: Check the file or the device.
        """,
    "SOW-INP-006": """3 input is not UTF-8

        Why: The input starts like UTF-16 or UTF-32, or a text has bytes that are not valid UTF-8. Messages of
        json, fix and nvfix, envelopes, SQL and commands of the shell must be UTF-8; another encoding would be
        read as wrong names and values. XML can declare its encoding.
        Do: Convert it: ``iconv -f UTF-16 -t UTF-8 FILE``.
        """,
    "SOW-INP-007": """3 lines end in carriage returns

        Why: The input has carriage returns but no line feed. Lines must end in a line feed, optionally after a carriage
        return, so the whole input would be one message, with everything after the first carriage return in a value.
        Do: Convert it: ``tr '\\r' '\\n' < FILE``. If it is one message that contains carriage returns, publish it with
        ``--framing nul``.
        """,
    "SOW-INP-008": """3 invalid JSON between messages

        Why: The input is an array of messages, or objects over several lines, and is no JSON at this place. The start
        of the next message cannot be found there. Earlier messages are complete.
        Do: Correct the input at this place. If each line is a message, use ``--framing lines``, which rejects only
        the invalid lines.
        """,
    "SOW-INP-009": """7 input is too large for a temporary copy

        Why: Parquet, SQLite and Arrow files are read from several places, so the content of a pipe is copied to a
        temporary file first. It exceeds the limit of such a copy.
        Do: Write the input to a file and give its name; files are not copied.
        """,
    "SOW-INP-010": """3 invalid envelope

        Why: With ``--framing envelope`` or ``--envelope``, every line must be a JSON object with a message and its
        metadata. Of debezium, it must be a change event with an ``op``.
        Do: Correct the line, or choose another ``--framing`` or ``--envelope``.
        """,
    "SOW-INP-011": """3 unknown member of an envelope

        Why: An envelope has an unknown member, which could be a misspelled name.
        Do: Use the names in the message. ``--ignore-unknown-members`` ignores other members; ``--envelope kafka``
        and ``--envelope debezium`` read the envelopes of these systems.
        """,
    "SOW-INP-012": """3 duplicate member of an envelope

        Why: An envelope has two members with the same name.
        Do: Remove one of them.
        """,
    "SOW-INP-013": """3 invalid type of a member

        Why: A member of an envelope has a value of an invalid type, such as a string instead of a number.
        Do: Use the type in the message.
        """,
    "SOW-INP-014": """3 envelope without exactly one message

        Why: An envelope must have either ``data`` or ``data_base64``, but has both or neither. A record of Kafka must
        have ``payload`` or ``value``; a change event must have ``after``, or for a deletion ``before`` or the key of
        its record of Kafka.
        Do: Give exactly one of them. Read deletions without ``before``, as of MongoDB, with the keys of their records,
        for example with ``kcat -J``.
        """,
    "SOW-INP-015": """3 invalid Base64 data

        Why: The member ``data_base64`` of an envelope cannot be decoded.
        Do: Encode the bytes of the message in Base64.
        """,
    "SOW-INP-016": """3 unsupported change event

        Why: The ``op`` of a change event of Debezium is not ``c``, ``r``, ``u`` or ``d``: ``t`` empties a table,
        ``m`` is a message of the database's log.
        Do: Empty the topic with ``sowctl delete TOPIC --filter '1 = 1'``; skip other events with ``--on-error skip``.
        See: sowctl-publish(1)
        """,
    "SOW-INP-017": """2 envelope option without envelopes

        Why: ``--ignore-unknown-members`` and ``--timestamp-unit`` control how the own envelopes are read, but the
        input is read as messages, or as envelopes of another form, whose times have fixed units.
        Do: Add ``--framing envelope``, or remove the option.
        See: sowctl-publish(1)
        """,
    "SOW-MSG-001": """3 message is not UTF-8

        Why: A string in the message has bytes that are not valid UTF-8.
        Do: Correct the message; the manual page lists the types that allow any bytes.
        """,
    "SOW-MSG-002": """3 malformed message

        Why: The message is invalid for the type of the topic, from the position in the error message.
        Do: Correct the message, or check the message type of the topic and the framing of the input.
        """,
    "SOW-MSG-003": """3 message is nested too deeply

        Why: The nesting of objects and arrays exceeds the limit.
        Do: Flatten the message.
        """,
    "SOW-MSG-004": """3 message is too large

        Why: The message exceeds the maximum message size.
        Do: Split it, or store it elsewhere and publish a reference.
        """,
    "SOW-MSG-005": """2 type without fields

        Why: A field is used, but messages of this type have no fields or cannot be parsed.
        Do: Remove the filter, key or select list, or choose another type.
        """,
    "SOW-MSG-006": """4 unknown message type

        Why: The type of the topic is neither built in nor defined by a MessageType of the configuration, or the
        Module of its definition is unknown.
        Do: Correct the name, or add the definition.
        """,
    "SOW-MSG-007": """4 invalid message type definition

        Why: A MessageType is incomplete or inconsistent: a struct without fields, a protobuf file that does not
        compile, an undefined part.
        Do: Correct it at the position in the message.
        """,
    "SOW-MSG-008": """2 field not supported by the message type

        Why: The destination cannot be written in this type: a name that XML does not allow, a nested path in a
        flat message, a missing part.
        Do: Choose a destination that the type supports.
        """,
    "SOW-MSG-009": """3 value not supported by the message type

        Why: A constructed value cannot be written in this type, such as a separator in a FIX field.
        Do: Replace such values in the expression.
        """,
    "SOW-MSG-010": """3 message with too many fields

        Why: A flat message exceeds the maximum number of fields; each field needs many times its size in
        memory.
        Do: Split the message.
        """,
    "SOW-MSG-011": """12 message type requires a missing package

        Why: The message type requires a Python package that is not installed.
        Do: Install the extra in the hint.
        """,
    "SOW-VAL-001": """2 invalid field path

        Why: A field path starts with a slash, and each step is a name, optionally with an array index in
        brackets.
        Do: Write it like ``/customer/name``, ``/items[0]/sku`` or ``[/odd name]``.
        See: sowctl-expressions(7)
        """,
    "SOW-VAL-010": """2 invalid time

        Why: The text is not a time in a supported form: ISO 8601, compact, a number with a unit since 1970, or
        an interval before now.
        Do: Use one of the forms in the hint.
        See: sowctl-behaviour(7)
        """,
    "SOW-VAL-020": """2 time out of range

        Why: The time is before the year 1 or after 9999; the usual cause is a number with a wrong unit.
        Do: Give the unit: ``s``, ``ms``, ``us`` or ``ns``.
        See: sowctl-behaviour(7)
        """,
    "SOW-VAL-021": """2 path of more than 256 steps

        Why: The path is deeper than any message can be nested.
        Do: Shorten it.
        See: sowctl-expressions(7)
        """,
}
