"""Pages of the rules of structure: existence, place, multiplicity and requirement of elements."""

from __future__ import annotations

PAGES: dict[str, str] = {
    "S001": """What: a known element in a place where it does not belong.

        Why: it is not recognised there and has no effect.
        Example: a Queue at the top level, or a section ``<Queues>``.
        Instead: move it to the element that the message names.
        """,
    "S002": """What: an element that is not known in this place.

        Why: usually a misspelling; it has no effect. Names that are not documented but occur in running instances
        (LeaseTimeout, ReuseAddr, AccessControlAllowOrigin, BatchSize) are a warning.
        Example: ``<Filename>`` for ``<FileName>``; names are case-sensitive.
        Instead: write the name that the message suggests, if it has one; else remove the element. sowctl config schema
        lists the elements.
        """,
    "S003": """What: an element that may appear once appears again.

        Why: it is not documented which of the two is used.
        Example: two ``<FileName>`` in one Topic, a second ``<SOW>``, or Name together with its synonym Topic.
        Instead: remove one of them.
        """,
    "S004": """What: the configuration has no Name.

        Why: it is the one required element: journals, logs and replication are named after it.
        Example: ``<AMPSConfig><SOW/></AMPSConfig>``.
        Instead: add ``<Name>orders-1</Name>`` at the top.
        """,
    "S005": """What: a Transport without Name.

        Why: a server refuses it; logs, actions and Admin refer to the name.
        Example: ``<Transport><Type>tcp</Type></Transport>``.
        Instead: add ``<Name>any-tcp</Name>``.
        """,
    "S006": """What: a Transport without Type.

        Why: it determines how the transport connects.
        Example: ``<Transport><Name>any</Name></Transport>``.
        Instead: add tcp, tcps, amps-replication, amps-replication-secure or amps-unix.
        """,
    "S009": """What: a required element is empty.

        Why: an empty name or path counts as missing.
        Example: ``<Name></Name>``.
        Instead: write the value, or remove the element that needs it.
        """,
    "S020": """What: an entry of SOW without Name.

        Why: name and message type are the identity of a topic.
        Example: ``<Topic><MessageType>json</MessageType></Topic>``.
        Instead: add ``<Name>orders</Name>``.
        """,
    "S021": """What: an entry of SOW without MessageType.

        Why: name and message type are the identity of a topic; a server refuses the entry.
        Example: ``<Topic><Name>orders</Name></Topic>``.
        Instead: add ``<MessageType>json</MessageType>``.
        """,
    "S030": """What: a History without Window or without Granularity.

        Why: both are required: the time for which versions are kept, and the minimum time between them.
        Example: ``<History><Window>1d</Window></History>``.
        Instead: add the other; a Granularity of ``0s`` keeps every update.
        """,
    "S031": """What: a HashIndex without Key.

        Why: there is nothing to index.
        Example: ``<HashIndex/>``.
        Instead: add ``<Key>/customer</Key>``, once for each field.
        """,
    "S032": """What: Preprocessing or Enrichment without Field.

        Why: there is nothing to do.
        Example: ``<Enrichment></Enrichment>``.
        Instead: add ``<Field>/a + /b AS /sum</Field>``, or remove the element.
        """,
    "S033": """What: a KeyGenerator without Module.

        Why: the module computes the keys.
        Example: ``<KeyGenerator><Options/></KeyGenerator>``.
        Instead: add the name of a module that is loaded in Modules.
        """,
    "S037": """What: a View without UnderlyingTopic, Projection or Grouping, or with an empty one.

        Why: a view requires all three: the topics that it reads, the fields of its records, and the fields that form a
        group.
        Example: a View with Projection and no Grouping.
        Instead: add the missing part.
        """,
    "S039": """What: a ConflatedTopic without UnderlyingTopic.

        Why: it is a copy of another topic.
        Example: ``<ConflatedTopic><Name>c</Name></ConflatedTopic>``.
        Instead: add ``<UnderlyingTopic>orders</UnderlyingTopic>``.
        """,
    "S054": """What: a Module without Name or Library.

        Why: other elements refer to the name; the library is what is loaded.
        Example: ``<Module><Name>keys</Name></Module>``.
        Instead: add the missing element.
        """,
    "S055": """What: an Action without On or without Do.

        Why: it would never run, or do nothing; an If without them has no effect.
        Example: ``<Action><Do>...</Do></Action>``.
        Instead: specify when it runs (On) and what it does (Do).
        """,
    "S064": """What: a TransactionLog without JournalDirectory.

        Why: there is no directory for the journal files.
        Example: ``<TransactionLog><Topic>...</Topic></TransactionLog>``.
        Instead: add ``<JournalDirectory>./journal</JournalDirectory>``.
        """,
    "S065": """What: a Topic of TransactionLog without Name or MessageType.

        Why: both are needed to determine which messages are logged.
        Example: ``<Topic><Name>orders</Name></Topic>``.
        Instead: add the missing element.
        """,
    "S066": """What: a user-defined Function without Name, Module or Symbol.

        Why: all three are needed to find it.
        Example: ``<Function><Name>F</Name><Module>m</Module></Function>``.
        Instead: add the missing element.
        """,
    "S069": """What: a replication Destination without SyncType, Transport, Topic, or both Name and Group.

        Why: they determine the target, the messages, and how a message is acknowledged.
        Example: a Destination with only Topic and Transport.
        Instead: add the missing parts.
        """,
    "S075": """What: an element that expects text contains elements.

        Why: usually an end tag is missing, and the following elements became part of this one.
        Example: ``<Name>orders<Key>/id</Key></Name>``.
        Instead: close it where its text ends.
        """,
}
