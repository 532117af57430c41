"""Codes of message types, of framings of input, of keys and bookmarks, and of paths and times."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-IDN-001": """2 no bookmark

        Why: The text has not the form of a bookmark: a publisher and a sequence number, each followed by a bar. Where
        a txid or a time may stand, too, it is none of them.
        Do: Copy it from the output of ``sowctl journal dump``.
        See: sowctl-behaviour(7)
        """,
    "SOW-IDN-002": """2 no range of bookmarks

        Why: A range is a bracket, a place, a colon, a place and a bracket: ``[`` and ``]`` take the entries at the
        edges in, ``(`` and ``)`` leave them out. The text has not this form.
        Do: Write it as in ``[20260105T000000:20260106T000000)``; each side may be a time, a bookmark, a txid or a list.
        See: sowctl-behaviour(7)
        """,
    "SOW-IDN-010": """3 half a surrogate pair

        Why: A text in the message holds one half of a pair that only together is a character. Two such halves would
        become one text, and so one key.
        Do: Repair the program that writes such texts; the message is refused.
        See: sowctl-messages(7)
        """,
    "SOW-IDN-011": """2 a key with half a surrogate pair

        Why: The key that was asked for holds half a pair, which is no character; no record can have such a key.
        Do: Give the key's text, or the SOW key as a number.
        See: sowctl-messages(7)
        """,
    "SOW-INP-001": """3 a message that is too long

        Why: A line, or what stands between two zero bytes, is longer than a message may be.
        Do: Mend the input, or choose another ``--framing``.
        """,
    "SOW-INP-002": """3 an input that ends within a message

        Why: With lengths before messages, the input ends before the announced bytes have come. The messages before it
        are whole.
        Do: Send the input whole; publish the rest from where the report says it begins.
        """,
    "SOW-INP-003": """7 a length that is too large

        Why: The four bytes before a message announce more than a message may have. Behind a wrong length nothing in
        the input can be found any more.
        Do: Check whether the input is framed by lengths at all; text mostly has ``--framing lines``.
        """,
    "SOW-INP-004": """2 an unknown framing

        Why: There is no framing of this name.
        Do: Take one of those in the hint.
        """,
    "SOW-INP-005": """6 an input that cannot be read

        Why: The operating system refused to read the input.
        Do: Look at the file or the device that it comes from.
        """,
    "SOW-INP-006": """3 an input that is not UTF-8

        Why: The input begins as UTF-16 or UTF-32 does, or a text has bytes that are not UTF-8. Messages of json, fix
        and nvfix, envelopes, SQL and commands of the shell are UTF-8; read as such, another encoding would give other
        names and values. XML may say its encoding itself.
        Do: Convert it: ``iconv -f UTF-16 -t UTF-8 FILE``.
        """,
    "SOW-INP-007": """3 lines that end in carriage returns alone

        Why: The input has carriage returns and no line feed. Lines end in a line feed, before which a carriage return
        may stand, so that the whole input would be one message, and all behind the first carriage return a value.
        Do: Write line feeds: ``tr '\\r' '\\n' < FILE``. If it is one message that contains carriage returns, publish
        it with ``--framing nul``.
        """,
    "SOW-INP-010": """3 no envelope

        Why: With ``--framing envelope`` every line is one JSON object with the message and its metadata, and this
        line is not.
        Do: Mend the line, or choose another ``--framing``.
        """,
    "SOW-INP-011": """3 an unknown member of an envelope

        Why: An envelope has a member that is not known; it could be a misspelled one that matters.
        Do: Take the names in the message.
        """,
    "SOW-INP-012": """3 a member given twice

        Why: An envelope gives one of its members twice, and which one counts would be chance.
        Do: Leave one of them out.
        """,
    "SOW-INP-013": """3 a member of the wrong kind

        Why: A member of an envelope has a value that it cannot have, such as a text for a number.
        Do: Write the kind that the message names.
        """,
    "SOW-INP-014": """3 an envelope without one message

        Why: An envelope carries ``data`` or ``data_base64``, and has both or neither.
        Do: Give exactly one of them.
        """,
    "SOW-INP-015": """3 data that is no Base64

        Why: The member ``data_base64`` of an envelope cannot be decoded.
        Do: Encode the message's bytes in Base64.
        """,
    "SOW-MSG-001": """3 a message that is not UTF-8

        Why: A text in the message has bytes that are no characters.
        Do: Mend the message; the page says which types hold bytes of any kind.
        """,
    "SOW-MSG-002": """3 a malformed message

        Why: The bytes are no message of the topic's type. The message says where that shows first.
        Do: Mend the message, or check the topic's message type and the framing of the input.
        """,
    "SOW-MSG-003": """3 a message nested too deeply

        Why: Containers stand inside one another beyond the limit.
        Do: Flatten the message.
        """,
    "SOW-MSG-004": """3 a message that is too large

        Why: The message has more bytes than any message may have.
        Do: Split it, or store it elsewhere and publish where it is.
        """,
    "SOW-MSG-005": """2 a type without fields

        Why: Something asks for a field of a type whose messages have none, or cannot be taken apart.
        Do: Leave the filter, key or select list out, or choose another type.
        """,
    "SOW-MSG-006": """4 an unknown message type

        Why: The topic's type is neither built in nor defined by a MessageType of the configuration, or the Module of
        its definition is not known.
        Do: Correct the name, or add the definition.
        """,
    "SOW-MSG-007": """4 a definition of a type that cannot be used

        Why: A MessageType lacks something or contradicts itself: a struct without fields, a protobuf file that does
        not compile, a part that is not defined.
        Do: Correct it at the place in the message.
        """,
    "SOW-MSG-008": """2 a field that the type cannot have

        Why: A destination cannot be written in this type: a name that XML does not allow, a nested path in a flat
        message, a part that is not there.
        Do: Choose a destination that the type can hold.
        """,
    "SOW-MSG-009": """3 a value that the type cannot hold

        Why: A constructed value cannot be written in this type, such as a separator in a FIX field.
        Do: Replace such values in the expression.
        """,
    "SOW-MSG-010": """3 a message with too many fields

        Why: A flat message has more fields than are read; each costs many times its bytes in memory.
        Do: Split the message.
        """,
    "SOW-MSG-011": """12 a type that needs more packages

        Why: The message type is read with a Python package that is not installed.
        Do: Install the extra that the hint names.
        """,
    "SOW-VAL-001": """2 no field identifier

        Why: The text is no path of a field: it begins with a slash, and each step is a name, with an index in
        brackets where it goes into an array.
        Do: Write it like ``/customer/name``, ``/items[0]/sku`` or ``[/odd name]``.
        See: sowctl-expressions(7)
        """,
    "SOW-VAL-010": """2 no instant

        Why: The text is no time in any of the known forms: ISO 8601, compact, a number with a unit since 1970, or a
        length of time before now.
        Do: Take one of the forms in the hint.
        See: sowctl-behaviour(7)
        """,
    "SOW-VAL-020": """2 an instant out of range

        Why: The time lies before the year 1 or behind 9999, mostly because a number has another unit than was meant.
        Do: Give the unit: ``s``, ``ms``, ``us`` or ``ns``.
        See: sowctl-behaviour(7)
        """,
    "SOW-VAL-021": """2 a path of more than 256 steps

        Why: No message is nested that deeply, so the path can never lead to anything.
        Do: Shorten it.
        See: sowctl-expressions(7)
        """,
}
