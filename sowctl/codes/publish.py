"""Codes of publishing and deleting."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-PUB-001": """3 message larger than a slab

        Why: The message exceeds the limit given by the SlabSize of the topic; a server would reject it, too.
        Do: Increase SlabSize of the topic, up to 1GB, or make the message smaller.
        """,
    "SOW-PUB-002": """3 missing key field

        Why: A key field of the message is missing or NULL, so the message has no key.
        Do: Set the field. ``--allow-null-key`` accepts NULL as a key value.
        """,
    "SOW-PUB-003": """3 missing or invalid SOW key

        Why: Publishers choose the keys of this topic, and the message has no key, or a key with characters that
        are not in the Base64 alphabet.
        Do: Use ``--sow-key``, or the member ``sow_key`` of envelopes, with letters, digits, ``+``, ``/`` and
        ``=``.
        """,
    "SOW-PUB-004": """3 invalid timestamp

        Why: The timestamp of the message is not a valid time.
        Do: Correct the timestamp, or omit it to use the current time.
        """,
    "SOW-PUB-005": """3 invalid expiration

        Why: The expiration of an envelope is negative, or not a valid time.
        Do: Use a number of seconds, 0 for no expiration, or a time.
        """,
    "SOW-PUB-006": """3 timestamp out of order

        Why: The timestamp of the message is before the last one of the topic, or before 1970. Timestamps of a
        topic must not go backwards, because earlier states are computed from them.
        Do: Publish messages in timestamp order, or without timestamps. A wrong timestamp in the future remains
        in effect until the clock reaches it.
        """,
    "SOW-PUB-007": """3 SOW key collision

        Why: Two records with different key values have the same 64-bit key. The second message is rejected,
        because it would replace the record of the first.
        Do: Use a KeyDomain or another Key for the topic; collisions are very rare.
        """,
    "SOW-PUB-008": """3 messages of several clients

        Why: The envelopes of a run name different clients, which have separate sequence numbers. Journal
        entries, as printed by ``journal dump``, keep their clients, but not in an all-or-nothing run.
        Do: Publish the messages of each client separately, or name one client for all with ``--client``; remove
        ``--on-error abort``.
        """,
    "SOW-PUB-010": """4 missing key generator module

        Why: The keys of the topic come from a module for which no Python package is installed.
        Do: Install a package that registers the name of the module.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-011": """2 SOW key for a topic with computed keys

        Why: ``--sow-key`` was given, but the keys of the topic come from fields or from a generator.
        Do: Remove ``--sow-key``.
        """,
    "SOW-PUB-012": """2 sequence number out of range

        Why: Sequence numbers range from 1 to 18446744073709551615 (64 bits).
        Do: Use a number in this range.
        """,
    "SOW-PUB-013": """2 sequence number without client

        Why: Sequence numbers identify repeated messages of one client, so they require a client name.
        Do: Add ``--client``.
        """,
    "SOW-PUB-014": """2 invalid batch size

        Why: A batch has from 1 to 1,000,000 messages.
        Do: Use a number in this range.
        """,
    "SOW-PUB-015": """2 missing topic

        Why: No topic was named, and the messages do not name one.
        Do: Name the topic, or publish envelopes with the member ``topic``.
        """,
    "SOW-PUB-016": """3 no key from the generator

        Why: The key generator of the topic returned no key for the message, or raised an exception.
        Do: See the error text of the generator in the message.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-017": """3 message belongs to two chains

        Why: The values of the message belong to two different records of a topic with chaining keys, so its
        record is ambiguous.
        Do: Correct the message, or the values that connect it to the other chain.
        See: sowctl-plugins(7)
        """,
    "SOW-PUB-018": """3 no record to update

        Why: With ``--update-only``, a delta requires an existing record, and this key has none.
        Do: Publish the complete message first, or remove ``--update-only``.
        """,
    "SOW-PUB-019": """3 unknown command in an envelope

        Why: The member ``command`` is not ``publish``, ``delta_publish`` or ``sow_delete``; or the
        ``operation`` of a journal entry is a queue operation, not ``publish`` or ``delete``. Deletions are
        supported only by ``publish``, not by bulk loads or ``key``. Such envelopes are not published as
        messages.
        Do: Remove these envelopes; delete with ``publish --framing envelope`` or ``delete``.
        """,
    "SOW-PUB-020": """7 too many rejected messages

        Why: More messages were rejected than ``--max-errors`` allows. Messages acknowledged before remain
        published; a bulk load published nothing.
        Do: Correct the input; ``--rejects FILE`` saves the rejected messages.
        """,
    "SOW-PUB-021": """3 invalid stored message

        Why: Enrichment reads the existing record, whose message is invalid for the type of the topic: the topic
        accepts messages unparsed, or its type was changed.
        Do: Publish a complete message with that key first.
        """,
    "SOW-PUB-022": """3 missing logical topic

        Why: An envelope for a topic with a Pattern has no topic, or one that does not match the Pattern.
        Do: Set the member ``topic`` to a matching name.
        """,
    "SOW-PUB-023": """4 chains in a Pattern topic

        Why: A chaining generator manages the chains of one topic, but a Pattern topic consists of many.
        Do: Define the topics that need chains by name, before the Pattern topic.
        """,
    "SOW-PUB-024": """2 key for a topic without SOW

        Why: The topic exists only in the transaction log, so its messages have no records and no keys.
        Do: Remove the key.
        """,
    "SOW-PUB-025": """4 key fields for a type without fields

        Why: The topic has a Key, but its messages cannot be parsed into fields.
        Do: Remove the Key; publishers then choose the keys.
        """,
    "SOW-PUB-026": """2 client name is not UTF-8

        Why: The name given with ``--client`` is not valid UTF-8.
        Do: Write it in UTF-8.
        """,
    "SOW-PUB-027": """6 input process terminated

        Why: Large input is read in a separate process, which was terminated from outside, for example for lack
        of memory. Messages acknowledged before remain published.
        Do: Publish the remaining messages; the last line of the report says where they begin.
        """,
    "SOW-PUB-028": """3 record cannot be deleted by an envelope

        Why: A ``sow_delete`` deletes the record with the key of its message, and a record of Kafka with a null
        message the one of its key. A topic that exists only in the transaction log has no records, in a topic with
        chains the key of a message is ambiguous, and the key of Kafka must have the key fields of the topic.
        Do: Delete by SOW key: ``sowctl delete TOPIC --sow-key KEY``.
        See: sowctl-delete(1)
        """,
    "SOW-PUB-029": """7 sequence numbers of the client exhausted

        Why: The next message would exceed the highest sequence number, 18446744073709551615, so its batch was
        not published; earlier batches were.
        Do: Publish with another ``--client``, which counts from 1. If you used ``--sequence``, start with a
        lower number.
        See: sowctl-publish(1)
        """,
    "SOW-PUB-030": """2 unchanged messages cannot be skipped

        Why: ``--skip-unchanged`` compares each message with the record of its key. A topic that exists only in the
        transaction log has no records; with keys from chains, a message that is not written would leave the chain
        incomplete.
        Do: Publish without ``--skip-unchanged``.
        See: sowctl-publish(1)
        """,
    "SOW-PUB-031": """2 input cannot be the state of the topic

        Why: ``publish --replace-all`` and ``diff`` with a file make records of the input as if the topic were empty.
        A topic that exists only in the transaction log, a view or a queue has no records of its own to compare, and
        keys from chains depend on all earlier messages.
        Do: Publish without ``--replace-all``; to compare, query the topic and compare the outputs.
        See: sowctl-publish(1)
        """,
    "SOW-PUB-032": """2 option not supported with --replace-all

        Why: The input replaces all records as one group with one timestamp: a rejected message would delete its
        record, a delta has no record to be merged into, and the messages are not written in the order of the input.
        Do: Remove the option. ``--timestamp`` sets the time of the replacement.
        See: sowctl-publish(1)
        """,
    "SOW-PUB-033": """8 input without records would delete all records

        Why: The input of ``publish --replace-all`` is empty, and the topic has records. An empty file is more often a
        failed export than a wish to delete everything.
        Do: Check the input. To delete all records, use ``--force``.
        See: sowctl-publish(1)
        """,
    "SOW-DEL-001": """2 missing or conflicting selection for a delete

        Why: A delete requires exactly one of a filter, SOW keys and data.
        Do: Give one of them.
        """,
    "SOW-DEL-002": """2 delete in a store file

        Why: A delete is written to the journal and requires the definition of the topic, which a store file
        does not have.
        Do: Name the topic and its configuration.
        """,
    "SOW-DEL-003": """2 empty filter

        Why: An empty filter matches every record; in scripts, the usual cause is an unset variable.
        Do: To delete every record, use the filter ``1=1``.
        """,
    "SOW-DEL-004": """3 data does not identify a record

        Why: A message that identifies a record to delete is invalid, or has no key. Nothing was deleted.
        Do: Correct the message; only its key fields are required.
        """,
    "SOW-DEL-005": """2 data for a topic whose publishers choose keys

        Why: Keys cannot be computed from messages of this topic.
        Do: Select the records with ``--sow-key``.
        """,
    "SOW-DEL-006": """2 data for a topic with chains

        Why: Any value of a chain leads to the record, so a message does not identify a record unambiguously.
        Do: Select the records with ``--sow-key``.
        """,
    "SOW-DEL-007": """2 filter of a delete without a condition

        Why: A filter such as ``10001`` or ``/qty`` is true of each record in which that value is not 0 or missing,
        which is seldom what is meant where records are deleted.
        Do: Give a key with ``--key``, or a comparison.
        """,
}
