"""Codes of publishing and deleting."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-PUB-001": """3 a message larger than a slab

        Why: The topic's SlabSize leaves room for smaller messages only; a server would refuse it as well.
        Do: Raise SlabSize of the topic, to 1GB at most, or make the message smaller.
        """,
    "SOW-PUB-002": """3 a missing key field

        Why: The message has no value, NULL or nothing at all in a field of the topic's Key, so that it has no
        identity.
        Do: Give the field a value. ``--allow-null-key`` takes NULL for a value of its own.
        """,
    "SOW-PUB-003": """3 no usable SOW key

        Why: The topic's publishers choose the keys, and the message came with none, or with one that has other
        characters than Base64 has.
        Do: Give ``--sow-key``, or the member ``sow_key`` in envelopes; letters, digits, ``+``, ``/`` and ``=`` may
        stand in it.
        """,
    "SOW-PUB-004": """3 a time that cannot be used

        Why: The time that the message brings is no instant.
        Do: Mend it, or leave it out: the message then gets the clock's time.
        """,
    "SOW-PUB-005": """3 a lifetime that cannot be used

        Why: The expiration of an envelope is negative, or no instant.
        Do: Give a number of seconds, 0 for ever, or an instant.
        """,
    "SOW-PUB-006": """3 a time that goes back

        Why: The message's own time lies before the topic's last one, or before 1970, where times begin. States of the
        past depend on times that never go back within a topic.
        Do: Publish messages in the order of their times, or without times of their own. A wrong time far ahead holds
        until the clock reaches it.
        """,
    "SOW-PUB-007": """3 a SOW key that another record has

        Why: Two records with different key values have the same 64-bit key. One would replace the other, so the
        second is refused.
        Do: Use a KeyDomain or another Key for the topic; such a pair is very rare.
        """,
    "SOW-PUB-008": """3 a message of another client

        Why: The envelopes of one run name different clients, whose sequence numbers would get mixed up. Entries of a
        journal, as ``journal dump`` prints them, keep their publishers, but not in a run that is all or nothing.
        Do: Publish clients apart, or name one for all with ``--client``; leave out ``--on-error abort``.
        """,
    "SOW-PUB-010": """4 a key generator whose module is not here

        Why: The topic's keys come from a module, and no Python package stands in for it.
        Do: Install a package that registers the module's name.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-011": """2 a key for a topic that makes its own

        Why: ``--sow-key`` was given, and the topic's keys come from fields or from a generator.
        Do: Leave ``--sow-key`` out.
        """,
    "SOW-PUB-012": """2 a sequence number out of range

        Why: Sequence numbers count from 1 and have 64 bits, so that the last one is 18446744073709551615.
        Do: Give a number in that range.
        """,
    "SOW-PUB-013": """2 a sequence number without client

        Why: Numbers tell repeated messages of one publisher; without a name they mean nothing.
        Do: Add ``--client``.
        """,
    "SOW-PUB-014": """2 an impossible batch

        Why: A batch has from 1 to 1,000,000 messages.
        Do: Give a number in that range.
        """,
    "SOW-PUB-015": """2 no topic to publish to

        Why: No topic was named, and the messages carry none.
        Do: Name it, or publish envelopes with the member ``topic``.
        """,
    "SOW-PUB-016": """3 no key from the generator

        Why: The topic's key generator found no identity in the message, or raised an exception.
        Do: The words in the message are the generator's own.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-017": """3 a message of two chains

        Why: The values of the message lead to two different records of a topic with chaining keys; it belongs to
        neither for certain.
        Do: Mend the message, or the values that joined it to the other chain.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-018": """3 no record to update

        Why: With ``--update-only`` a delta changes records that are there, and this key has none.
        Do: Publish the whole message first, or leave ``--update-only`` out.
        """,
    "SOW-PUB-019": """3 an unknown command in an envelope

        Why: The member ``command`` is none of ``publish``, ``delta_publish`` and ``sow_delete``, or the ``operation``
        of a journal's entry is neither ``publish`` nor ``delete``: it is one of a queue. Deletions are for ``publish``
        alone, not for a bulk load or ``key``. Publishing such an envelope as a message would be wrong.
        Do: Leave such envelopes out; delete with ``publish --framing envelope`` or ``delete``.
        """,
    "SOW-PUB-020": """7 too many refused messages

        Why: More messages were refused than ``--max-errors`` allows. What was acknowledged before stays; a bulk load
        published nothing.
        Do: Mend the input; ``--rejects FILE`` keeps the refused messages.
        """,
    "SOW-PUB-021": """3 a stored message that cannot be read

        Why: Enrichment looks at the record that is there, and its message is none of the topic's type: the topic
        takes messages unseen, or its type was changed.
        Do: Publish a whole message under that key first.
        """,
    "SOW-PUB-022": """3 no logical topic

        Why: An envelope for a topic with a Pattern names no topic, or one that the Pattern does not match.
        Do: Give the member ``topic`` a name that matches.
        """,
    "SOW-PUB-023": """4 chains in a Pattern topic

        Why: A chaining generator keeps the chains of one topic, and a Pattern topic is many.
        Do: Define the topics that need chains by their own names, before the Pattern topic.
        """,
    "SOW-PUB-024": """2 a key for a topic without SOW

        Why: Only the transaction log names the topic, so its messages have no records and no keys.
        Do: Leave the key out.
        """,
    "SOW-PUB-025": """4 key fields of a type without fields

        Why: The topic has a Key, and its messages cannot be taken apart.
        Do: Remove the Key: the publishers of such topics choose the keys.
        """,
    "SOW-PUB-026": """2 a client name that is not UTF-8

        Why: The name given with ``--client`` has bytes that are no characters.
        Do: Write it in UTF-8.
        """,
    "SOW-PUB-027": """6 the process that reads the input was ended

        Why: A large input is read by a process of its own, and something from outside ended it, such as a lack of
        memory. What was acknowledged before stays.
        Do: Publish the rest; the last line of the report says where it begins.
        """,
    "SOW-PUB-028": """3 a record that an envelope cannot delete

        Why: A ``sow_delete`` deletes the record whose key its message has. A topic that only the transaction log names
        has no records, and in a topic with chains a message may have the key of any of its values.
        Do: Delete by SOW key: ``sowctl delete TOPIC --sow-key KEY``.
        See: sowctl-delete(1)
        """,
    "SOW-PUB-029": """7 a client whose sequence numbers are used up

        Why: A sequence number has 64 bits. The next message would get a number behind the last one,
        18446744073709551615, so its batch was not published; those before it were.
        Do: Publish under another ``--client``, which counts from 1. Where ``--sequence`` was given, begin with a lower
        number.
        See: sowctl-publish(1)
        """,
    "SOW-DEL-001": """2 no selector of what to delete, or several

        Why: A delete takes exactly one of a filter, SOW keys and data.
        Do: Give one of them.
        """,
    "SOW-DEL-002": """2 a delete in a bare file

        Why: A delete is journalled and must know the topic's definition, which a store file alone does not have.
        Do: Give the configuration and the topic's name.
        """,
    "SOW-DEL-003": """2 an empty filter

        Why: An empty filter matches every record, and in scripts it is mostly a variable that was not set.
        Do: Write ``1=1`` where every record is meant.
        """,
    "SOW-DEL-004": """3 data that names no record

        Why: A message that should name the record to delete cannot be read, or has no key. Nothing was deleted.
        Do: Mend the message; only its key fields matter.
        """,
    "SOW-DEL-005": """2 data for a topic whose publishers choose keys

        Why: No key can be read from messages of this topic.
        Do: Name the records with ``--sow-key``.
        """,
    "SOW-DEL-006": """2 data for a topic with chains

        Why: Any value of a chain would lead to the record, so a message does not say plainly which one is meant.
        Do: Name the records with ``--sow-key``.
        """,
}
