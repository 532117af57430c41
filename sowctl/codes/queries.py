"""Codes of queries, of comparing, of rebuilding and verifying stores, and of snapshots."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-QRY-001": """2 invalid SOW key

        Why: The SOW keys of this topic are integers from 0 to 2^64-1.
        Do: ``--meta`` prints the keys; ``get --fields`` accepts the values of the key fields.
        """,
    "SOW-QRY-002": """2 wrong number of key values

        Why: The number of values differs from the number of key fields of the topic.
        Do: Give one value for each field of the Key, in that order.
        See: sowctl-get(1)
        """,
    "SOW-QRY-003": """2 filter for messages without fields

        Why: The filter reads fields, but messages of this type have none.
        Do: Remove the fields from the filter, or query the records by SOW key.
        """,
    "SOW-QRY-004": """3 invalid stored message

        Why: The topic accepts messages unparsed, and a record is invalid for the type of the topic, so the
        filter cannot be evaluated.
        Do: Query the record by key, or without a filter; publish a valid message.
        """,
    "SOW-QRY-005": """2 values for a topic without key fields

        Why: The keys of the topic are chosen by publishers or come from a generator, so it has no key fields.
        Do: Give SOW keys: ``--sow-key`` instead of ``--key``, or ``get`` without ``--fields``.
        See: sowctl-get(1)
        """,
    "SOW-QRY-010": """2 offset without a limit

        Why: ``--skip-n`` skips records of a page, which requires ``--top-n``.
        Do: Add ``--top-n``.
        """,
    "SOW-QRY-011": """2 invalid batch size

        Why: A batch has from 1 to 10,000 records.
        Do: Use a number in this range.
        """,
    "SOW-QRY-012": """2 negative limit or offset

        Why: Limit and offset must not be negative.
        Do: Use 0 or more.
        """,
    "SOW-QRY-013": """2 projection not supported for the message type

        Why: Messages of this type cannot be constructed from fields.
        Do: Query the records themselves, or project topics of another type.
        """,
    "SOW-QRY-014": """2 projection is too long

        Why: The projection exceeds the maximum length.
        Do: Shorten it.
        """,
    "SOW-QRY-015": """2 incomplete aggregated query

        Why: Projection and grouping require each other and a single topic, and cannot be combined with a select
        list.
        Do: Use ``--projection`` and ``--grouping``; an empty grouping makes one group of all records.
        """,
    "SOW-QRY-016": """2 --after-key not possible

        Why: Continuing after a key requires a single topic in key order.
        Do: Name one topic and remove ``--order-by``; paging with ``--top-n`` and ``--skip-n`` works with any
        order.
        """,
    "SOW-QRY-017": """2 invalid option string

        Why: An option in ``--options`` is unknown, or has an invalid value. Unknown options are never ignored.
        Do: Write it like ``top_n=10,select=[-/,+/id]``.
        """,
    "SOW-QRY-018": """2 key values for a store of logical topics

        Why: The store belongs to a Pattern topic, whose keys depend on its logical topics.
        Do: Give SOW keys as printed by ``--meta``, or name a logical topic with its configuration.
        See: sowctl-get(1)
        """,
    "SOW-QRY-019": """2 nothing to recompute

        Why: ``--fresh`` recomputes views and conflated topics from the records or the journal of their sources.
        Topics, queues and files are not derived; a conflated topic whose source has no journal cannot be
        recomputed.
        Do: Remove ``--fresh``, or name a view or conflated topic.
        """,
    "SOW-QRY-020": """6 reader process terminated

        Why: Large files are evaluated in several processes, and one of them ended without a result.
        Do: Check whether the system ran out of memory, and try again.
        See: sowctl-eval(1)
        """,
    "SOW-QRY-021": """10 no journal of the topic

        Why: ``--journal`` reads the journals, but the topic has no journal.
        Do: Remove ``--journal`` if the topic has History.
        See: sowctl-history(1)
        """,
    "SOW-QRY-022": """2 no history

        Why: The topic has no History, so its store has only current records.
        Do: Use ``--journal`` to read the journals, if the topic has one.
        See: sowctl-history(1)
        """,
    "SOW-QRY-023": """2 blame for a derived topic

        Why: Records of views, conflated topics and queues are computed: no journal entry sets their fields.
        Do: Use the record of the source topic.
        See: sowctl-blame(1)
        """,
    "SOW-QRY-024": """2 field occurs in no record

        Why: With ``--strict``, a field in the filter, order, select list, projection, grouping or columns must
        occur in some record. Without it, such a field is NULL, and a note is printed.
        Do: Correct the name, or remove ``--strict``.
        """,
    "SOW-QRY-025": """3 too many members for blame

        Why: A version of the record has more than 500,000 members and objects, at all depths together, the maximum
        for ``blame``, which keeps the origin of each.
        Do: Use ``history``, which shows the versions of the record, and ``diff``, which compares two states.
        See: sowctl-blame(1)
        """,
    "SOW-DIF-001": """2 no common keys

        Why: The two sides compute the keys of their records differently, so records cannot be matched by key.
        Do: Name the fields to match records by: ``--on /orderId``.
        """,
    "SOW-DIF-002": """2 different message types

        Why: The messages of the two sides have different types, such as json and fix.
        Do: Compare states of the same type.
        """,
    "SOW-DIF-003": """2 no field to match records by

        Why: ``--on`` names the whole message instead of a field.
        Do: Give field paths, separated by commas.
        """,
    "SOW-DIF-004": """2 --key without common keys

        Why: ``--key`` selects records by key, but the two sides have no common keys: records are matched by
        fields.
        Do: Select the records with ``--filter``.
        """,
    "SOW-DIF-005": """2 sides cannot be compared

        Why: Only one side is an instance, a range is used for a topic without a journal, or there is only one
        state.
        Do: Name two topics, two instances, or one topic with an instant: ``sowctl diff orders@-1h``.
        """,
    "SOW-DIF-006": """2 option not supported with envelopes

        Why: Envelopes transform the records of one side into those of the other; they need complete records,
        and all differences.
        Do: Remove the option; ``--filter`` and ``--key`` select records.
        """,
    "SOW-RPL-001": """2 --until for live stores

        Why: A replay up to an earlier position would remove later records from stores in use.
        Do: Add ``--into`` with another directory.
        """,
    "SOW-RPL-002": """8 rebuild would lose records

        Why: The journals do not reach back to the first entry of the topic, or a repair has removed entries of
        the topic, so the new store could have fewer records than the old one.
        Do: Restore the older journals. ``--force`` rebuilds from the remaining entries and keeps the current
        file beside the new one.
        """,
    "SOW-RPL-003": """2 --verify with --into

        Why: ``--verify`` compares the live stores, ``--into`` builds others.
        Do: Use only one of them.
        """,
    "SOW-RPL-004": """8 file exists

        Why: A store is to be built where a file exists.
        Do: Name another directory, or use ``--force``.
        """,
    "SOW-RPL-005": """2 --verify with --until

        Why: ``--verify`` compares the current state, not that of an earlier position.
        Do: Remove ``--until``; ``sowctl hash --at`` prints the digest of a past state.
        """,
    "SOW-RPL-006": """6 file cannot be renamed

        Why: The damaged or replaced store is to be kept under another name, but the file system reported an
        error. Nothing was changed.
        Do: Move the file manually, then run the replay again.
        """,
    "SOW-RPL-010": """8 records with other keys

        Why: The journal or the store has records with keys of a definition other than the current Key, so a
        rebuild would mix keys of two kinds.
        Do: Restore the previous Key, or write the new keys to the journal with ``--rekey``.
        """,
    "SOW-RPL-011": """8 record without key in the new definition

        Why: A record has no key in the current definition: a field is missing, or its publisher gave no key.
        Nothing was changed.
        Do: Correct or delete such records with the previous Key, then change it again.
        """,
    "SOW-RPL-012": """8 rekey with chains

        Why: Keys from chains depend on the order of messages, which a rekey does not have.
        Do: Publish the records to a topic with another name.
        """,
    "SOW-RPL-013": """8 duplicate new key

        Why: In the current definition, two records with different key values get the same key. Nothing was
        changed.
        Do: Choose another Key; without a KeyDomain, every logical topic has its own keys.
        """,
    "SOW-RPL-014": """2 unsupported option with --rekey

        Why: ``--rekey`` writes the new keys to the journal of the configuration and rebuilds its stores, so it
        cannot be combined with another location or a comparison.
        Do: Remove ``--verify``, ``--into`` and ``--journal``; ``--dry-run`` shows what would be written.
        """,
    "SOW-SNP-001": """8 output file exists

        Why: The file for the snapshot exists.
        Do: Name another file, or use ``--force``.
        """,
}
