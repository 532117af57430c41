"""Codes of commands on configurations; those of rules are explained by the rules' own pages."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CFG-050": """2 unknown rule

        Why: An argument of ``--select`` or ``--ignore`` is not an ID, an ID prefix, a code or a title of a
        rule.
        Do: ``sowctl lint --list`` lists the rules.
        See: sowctl-lint(1)
        """,
    "SOW-CFG-051": """2 directory without configurations

        Why: A directory is searched for ``*.xml`` files, but there are none.
        Do: Name the file, or the right directory.
        See: sowctl-lint(1)
        """,
    "SOW-CFG-060": """2 invalid topic or name

        Why: An argument of ``config init`` does not have the form ``NAME=/key,/key``, has a key field without a
        slash, is not printable, or is a name that is invalid in file names.
        Do: Use printable characters, without slash, backslash, ``$`` and ``~`` in names.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-061": """2 unknown message type for a new topic

        Why: ``config init`` supports only built-in message types.
        Do: Use one of the types in the hint; add other types to the file manually.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-062": """2 key fields for a type without fields

        Why: Messages of type ``binary`` have no fields for a key.
        Do: Remove the keys: publishers then choose the keys.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-063": """2 duplicate topic

        Why: Two topics of the same message type have the same name.
        Do: Remove one, or give it another name or type.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-064": """2 missing topic

        Why: A configuration requires a topic, and there is no terminal to ask for one.
        Do: Name one with ``--topic``, for example ``orders=/orderId``.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-065": """2 ambiguous keys

        Why: ``--key`` of ``config init`` applies to every topic without its own keys. With several topics and
        several keys, it is ambiguous whether each topic has all keys or one. If all topics have keys, it applies to
        none.
        Do: Write the keys after the topic: ``--topic orders=/orderId --topic prices=/symbol``.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-066": """2 expiration and history of a new topic

        Why: ``sowctl.create`` was told to give a topic both. The versions of records that expire are not kept.
        Do: Remove ``expiration`` or ``history`` from the topic.
        See: sowctl-python(7)
        """,
    "SOW-CFG-067": """2 invalid new element

        Why: With the new element of ``config add``, ``sowctl validate`` would report an error. The message has its
        reason; the file was not changed.
        Do: Correct the argument that the message is about, or change the file manually.
        See: sowctl-lint(7)
        """,
    "SOW-CFG-068": """4 configuration that cannot be edited

        Why: ``config add`` edits the text of the main file, in UTF-8. The element to change is in an included
        file or has unexpected content, or the file has another encoding.
        Do: Edit the file in the message manually, or save it as UTF-8.
        See: sow-config(5)
        """,
    "SOW-CFG-069": """2 missing option for a new element

        Why: A view requires ``--projection``, ``--grouping`` and one of ``--source`` and ``--join``;
        ``--granularity`` requires ``--history``.
        Do: Add the option in the message.
        See: sowctl-config-add-view(1)
        """,
    "SOW-CFG-070": """8 configuration changed meanwhile

        Why: Between reading and writing the file, ``config add`` found that another program had changed it.
        The file was not written.
        Do: Run the command again.
        See: sow-config(5)
        """,
}
