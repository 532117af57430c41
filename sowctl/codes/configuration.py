"""Codes of commands on configurations; those of rules are explained by the rules' own pages."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CFG-050": """2 an unknown rule

        Why: A word given to ``--select`` or ``--ignore`` is no id, no beginning of ids, no code and no title of a
        rule.
        Do: ``sowctl lint --list`` shows the rules.
        See: sowctl-lint(1)
        """,
    "SOW-CFG-051": """2 a directory without configurations

        Why: A directory stands for every ``*.xml`` file below it, and there is none.
        Do: Name the file, or the right directory.
        See: sowctl-lint(1)
        """,
    "SOW-CFG-060": """2 a topic or name that cannot be used

        Why: A text for ``config init`` is not of the form ``NAME=/key,/key``, is not printable, or is a name that
        could not be part of a file name.
        Do: Write printable characters, without slash, backslash, ``$`` and ``~`` in names.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-061": """2 an unknown message type for a new topic

        Why: ``config init`` makes topics of built-in message types only, and this is none.
        Do: Take one of those in the hint; other types can be added to the file by hand.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-062": """2 key fields for a type without fields

        Why: Messages of type ``binary`` have no fields, so no key can be made of them.
        Do: Leave the keys out: the publishers then choose the keys.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-063": """2 a topic named twice

        Why: Two topics of one message type were given the same name.
        Do: Leave one out, or give it another name or type.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-064": """2 no topic for a new configuration

        Why: A configuration without topics has no use, and there is no terminal to ask for one.
        Do: Name one with ``--topic``, such as ``orders=/orderId``.
        See: sowctl-config-init(1)
        """,
    "SOW-CFG-065": """2 keys that might be of one topic each

        Why: ``--key`` of ``config init`` is for every topic that names no key of its own. With several topics and
        several keys it is not clear whether each topic has all keys or one.
        Do: Write the keys behind the topic: ``--topic orders=/orderId --topic prices=/symbol``.
        See: sowctl-config-init(1)
        """,
}
