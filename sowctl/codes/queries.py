"""Codes of queries, of comparing, of rebuilding and verifying stores, and of snapshots."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-QRY-001": """2 no SOW key

        Why: The text is no whole number below 2 to the power of 64, which SOW keys of this topic are.
        Do: ``--meta`` shows the keys; ``get --fields`` takes the values of the key fields.
        """,
    "SOW-QRY-002": """2 a wrong number of key values

        Why: The topic's key has another number of fields than values were given.
        Do: Give one value for each field of the Key, in its order.
        See: sowctl-get(1)
        """,
    "SOW-QRY-003": """2 a filter for messages without fields

        Why: The filter reads fields, and messages of this type have none.
        Do: Leave out the fields, or query the records by SOW key.
        """,
    "SOW-QRY-004": """3 a stored message that cannot be read

        Why: A record of a topic that takes messages unseen is no message of its type, so that the filter cannot be
        answered for it.
        Do: Query it by key, or without a filter; publish the record anew.
        """,
    "SOW-QRY-005": """2 values for a topic without key fields

        Why: The topic's keys are chosen by its publishers or come from a generator, so there are no fields to give
        values for.
        Do: Give the keys themselves, without ``--fields``.
        See: sowctl-get(1)
        """,
    "SOW-QRY-010": """2 an offset without a limit

        Why: ``--skip-n`` leaves out the first records of a page, and a page needs ``--top-n``.
        Do: Add ``--top-n``.
        """,
    "SOW-QRY-011": """2 an impossible batch size

        Why: A batch has from 1 to 10,000 records.
        Do: Give a number in that range.
        """,
    "SOW-QRY-012": """2 a negative page

        Why: Limit and offset are not negative.
        Do: Give 0 or more.
        """,
    "SOW-QRY-013": """2 a projection into a type that cannot be written

        Why: Messages of this type cannot be made of fields.
        Do: Query the records themselves, or project topics of another type.
        """,
    "SOW-QRY-014": """2 a projection that is too long

        Why: The text of a projection has a largest size.
        Do: Shorten it.
        """,
    "SOW-QRY-015": """2 an aggregated query that is not fully said

        Why: Projection and grouping belong together, read one topic, and go without a select list.
        Do: Give ``--projection`` and ``--grouping``; an empty grouping makes one group of all.
        """,
    "SOW-QRY-016": """2 a continuation that cannot be told

        Why: Going on after a key has a meaning only where the records of one topic come in the order of their keys.
        Do: Name one topic, and leave the order out; pages by ``--top-n`` and ``--skip-n`` work with any.
        """,
    "SOW-QRY-017": """2 an option text that cannot be read

        Why: An option of ``--options`` is not known, or its value is not what it takes. Unknown options are never
        ignored.
        Do: Write it like ``top_n=10,select=[-/,+/id]``.
        """,
    "SOW-QRY-018": """2 keys of a file of logical topics

        Why: The store belongs to a Pattern topic, whose keys are those of its logical topics.
        Do: Give SOW keys as ``--meta`` shows them, or name a logical topic with its configuration.
        See: sowctl-get(1)
        """,
    "SOW-QRY-019": """2 nothing that could be computed again

        Why: ``--fresh`` computes what a view or a conflated topic shows from the records or the journal of its topics.
        Topics, queues and files are not computed from others; of a conflated topic whose source no journal records,
        only what was kept is known.
        Do: Leave ``--fresh`` out, or name a view or conflated topic.
        """,
    "SOW-QRY-020": """6 a reading process that ended early

        Why: An evaluation over a large file reads parts of it in processes of their own, and one of them ended
        without its answer.
        Do: Look whether memory ran out; try again.
        See: sowctl-eval(1)
        """,
    "SOW-QRY-021": """10 no journal of the topic

        Why: ``--journal`` asks what the journals hold, and none records this topic.
        Do: Leave ``--journal`` out where the topic has History.
        See: sowctl-history(1)
        """,
    "SOW-QRY-022": """2 no history

        Why: The topic has no History, so its store holds present records only.
        Do: ``--journal`` shows what the journals hold, where there are any.
        See: sowctl-history(1)
        """,
    "SOW-QRY-023": """2 origins of derived fields

        Why: Views, conflated topics and queues are computed: no entry of the journal sets their fields.
        Do: Ask for the record of the topic that they are made of.
        See: sowctl-blame(1)
        """,
    "SOW-QRY-024": """2 a field that no record has

        Why: With ``--strict`` the query names a field that none of the records has, in its filter, order, select list,
        projection, grouping or columns. Without it such a field is NULL everywhere, and a note tells of it.
        Do: Mend the name, or leave ``--strict`` out.
        """,
    "SOW-DIF-001": """2 states without common keys

        Why: The two sides make the keys of their records in different ways, so that nothing says which belong together.
        Do: Name the fields by which they do: ``--on /orderId``.
        """,
    "SOW-DIF-002": """2 states of different message types

        Why: The messages of the two sides are of different types, such as json and fix.
        Do: Compare states of one type.
        """,
    "SOW-DIF-003": """2 no field to pair records by

        Why: ``--on`` names the whole message, not a field of it.
        Do: Give paths of fields, separated by commas.
        """,
    "SOW-DIF-004": """2 single keys of states with different keys

        Why: ``--key`` names a record by the key of its topic, and the sides have no keys in common: records are paired
        by fields.
        Do: Choose the records by ``--filter``.
        """,
    "SOW-DIF-005": """2 sides that do not go together

        Why: One word is an instance and the other is none, a range is asked of what no journal records, or there is
        only one state.
        Do: Name two topics, two instances, or one topic with an instant: ``sowctl diff orders@-1h``.
        """,
    "SOW-DIF-006": """2 an option that does not go with envelopes

        Why: Envelopes make the records of the one side into those of the other, whole records and all that differ.
        Do: Leave the option out; ``--filter`` and ``--key`` choose records.
        """,
    "SOW-RPL-001": """2 a bound for live stores

        Why: A replay up to some point would take later records out of stores that are in use.
        Do: Add ``--into`` with another directory.
        """,
    "SOW-RPL-002": """8 a rebuild that would lose records

        Why: The journals do not reach back to the topic's first entry, or a repair has cut entries of the topic out of
        them, so the new store could have fewer records than the old one.
        Do: Put the older journals back. ``--force`` rebuilds from what is left and keeps the present file beside it.
        """,
    "SOW-RPL-003": """2 building and comparing at once

        Why: ``--verify`` compares the live stores and ``--into`` builds others.
        Do: Use one of them.
        """,
    "SOW-RPL-004": """8 a file that is there already

        Why: A store is to be built where a file exists.
        Do: Name another directory, or give ``--force``.
        """,
    "SOW-RPL-005": """2 a comparison with the past

        Why: ``--verify`` compares the present state; a bound would compare it with another one.
        Do: Leave ``--until`` out; ``sowctl hash --at`` has the digest of a past state.
        """,
    "SOW-RPL-006": """6 a file that cannot be kept aside

        Why: The damaged or replaced store is kept under another name, and the file system refused that. Nothing was
        changed.
        Do: Move the file away by hand, then replay again.
        """,
    "SOW-RPL-010": """8 records under other keys

        Why: The journal or the store holds records under keys that the present Key does not make, so that a rebuild
        would mix two kinds of keys.
        Do: Put the former Key back, or write the new keys to the journal with ``--rekey``.
        """,
    "SOW-RPL-011": """8 a record without key under the new definition

        Why: A record cannot get a key under the present definition: a field is missing, or its publisher gave no key.
        Nothing was changed.
        Do: Correct or delete such records under the former Key, then change it again.
        """,
    "SOW-RPL-012": """8 new keys from chains

        Why: Keys from chains depend on the order in which messages came, which a rekey does not have.
        Do: Publish the records into a topic of another name.
        """,
    "SOW-RPL-013": """8 two records under one new key

        Why: Under the present definition two records with different key values get the same key. Nothing was changed.
        Do: Choose another Key; without a KeyDomain every logical topic has keys of its own.
        """,
    "SOW-RPL-014": """2 a rekey somewhere else

        Why: ``--rekey`` writes the new keys to the journal of the configuration and makes its stores anew, so it goes
        with neither another place nor a comparison.
        Do: Leave ``--verify``, ``--into`` and ``--journal`` out; ``--dry-run`` says what would be written.
        """,
    "SOW-SNP-001": """8 a snapshot that is there already

        Why: The file that the snapshot should be written to exists.
        Do: Name another file, or give ``--force``.
        """,
}
