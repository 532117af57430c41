"""Codes of instances and their topics, and of findings of ``check`` about stores and journals."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CHK-001": """0 missing store of a topic in the journal

        Why: The journal has entries of the topic, but the store file is missing. Until it is rebuilt, reads use
        the journal, which is slower. This is a warning: no data is lost.
        Do: ``sowctl replay TOPIC`` rebuilds the store; so does the next publish.
        """,
    "SOW-CHK-002": """8 store of another definition

        Why: The file is intact, but was created for another topic, instance, message type or key than the
        configured one.
        Do: Restore the previous definition or the right file; after a change of Key alone, ``sowctl replay
        --rekey TOPIC`` gives the records their new keys.
        """,
    "SOW-CHK-003": """8 records with other keys than configured

        Why: The keys of the records differ from those computed with the configured Key, although the file names
        this definition: the records were published with another definition, or by other means.
        Do: Restore the previous Key, or compute new keys with ``sowctl replay --rekey TOPIC`` if the topic has
        a journal.
        """,
    "SOW-CHK-004": """0 unusable sorted run

        Why: A file beside the store, left by an interrupted publish or bulk load, is damaged or of another version. Its
        entries are in the journal and are read from there: no data is lost, but reads are slower.
        Do: No action is needed; ``sowctl replay TOPIC`` brings the store up to date and removes the file.
        See: sow-run(5)
        """,
    "SOW-ENG-001": """5 journal lacks entries that the store needs

        Why: The store has not applied some entries of its topic, and the journal files with these entries are
        missing. To continue would silently lose the changes.
        Do: Restore the older journal files, in place or in the archive.
        See: sow-journal(5)
        """,
    "SOW-ENG-002": """5 journal ends before the position of the store

        Why: The store has applied entries that are not in the journal: the end of the journal was lost, or the
        journal was replaced by an older copy.
        Do: Restore the journal from a copy. To continue without the lost entries, see 'Accepting a loss' in
        sow-journal(5).
        See: sow-journal(5)
        """,
    "SOW-ENG-003": """5 store of another journal

        Why: The store has applied entries of a journal with another lineage, in which the same txids have
        different meanings.
        Do: Restore the journal of the store, or move the store aside and rebuild it from the current journal.
        See: sow-store(5)
        """,
    "SOW-ENG-010": """10 no store yet

        Why: The command or job needs the store of the topic, but nothing has been published to the topic, or the
        topic is transient and has no journal, so its records are not kept. Commands that read records treat such a
        topic as empty, with a note.
        Do: Publish to the topic. To keep records, configure a FileName or add the topic to the TransactionLog.
        """,
    "SOW-ENG-011": """10 missing store that the journals cannot restore

        Why: The store file is missing, and the journals begin after the first entry of the topic, so a rebuilt
        store could lack records.
        Do: Restore the store or the older journals. If they are lost, ``sowctl replay TOPIC`` builds a store
        from the remaining journals, which may be incomplete; a note has the first txid.
        """,
    "SOW-ENG-012": """10 no such topic

        Why: The configuration (or, for a dump, the journal) has no topic with this name and type.
        Do: Correct the name; the hint lists similar names, and ``sowctl info`` all topics.
        """,
    "SOW-ENG-013": """10 no such file

        Why: The target is a path, but no file or directory has this name. Stores cannot be read from URLs,
        because they are memory-mapped files.
        Do: Correct the path; names of topics do not end in ``.sow``. Copy a store from its URL to this machine;
        ``sowctl journal dump`` and ``sowctl replay`` can read an archived journal at its URL.
        """,
    "SOW-ENG-014": """10 pattern matches no topic

        Why: The target is a regular expression that matches no name: of topics, views, conflated topics and
        queues for commands that read; only of topics for commands that write or inspect stores. Patterns are
        not anchored, and are case-sensitive.
        Do: ``sowctl info`` lists the topics; ``--literal-topic`` treats the text as a name.
        """,
    "SOW-ENG-015": """10 name without configuration

        Why: The target is not a file, and there is no configuration that could define a topic with this name.
        Do: Use ``--config``, or the path of a ``.sow`` file.
        """,
    "SOW-ENG-016": """10 topic without SOW

        Why: The topic exists only in the transaction log: its messages are in the journal, but it has no
        records.
        Do: ``sowctl journal dump NAME`` prints its messages.
        """,
    "SOW-ENG-020": """4 no transaction log

        Why: The command requires the journal, but the configuration has no TransactionLog.
        Do: Use a configuration with a TransactionLog. For topics without a journal, only the current state is
        available.
        """,
    "SOW-ENG-021": """8 messages would not be kept

        Why: The topic is transient and has no journal, so published messages would be lost when the command
        exits.
        Do: Configure a FileName or add the topic to the TransactionLog; ``--allow-volatile`` publishes anyway.
        """,
    "SOW-ENG-022": """8 records from before the journal

        Why: The store has records that were published before the topic had a journal. A rebuild from the
        journal would silently lose them.
        Do: Export the records with ``--meta``, move the store aside, and publish them as envelopes, which
        writes them to the journal.
        """,
    "SOW-ENG-023": """8 store of another topic

        Why: The file with the name of the store belongs to another topic or message type.
        Do: Move each store to its place, or correct the FileName. The file can be read by its path.
        """,
    "SOW-ENG-030": """2 name with several message types

        Why: Topics of different message types have this name, but the command requires a single topic.
        Do: Write the name with its type as in the hint, or use ``--message-type``.
        """,
    "SOW-ENG-031": """2 not a topic with a store

        Why: The name belongs to a view, conflated topic or queue, whose records are derived from other topics.
        Views and conflated topics can be read, but not published to or deleted from.
        Do: Publish to the source topics, or delete from them.
        """,
    "SOW-ENG-032": """2 several logical topics

        Why: The topic has a Pattern and holds the records of several logical topics; a message must name its
        logical topic.
        Do: Name the logical topic, or publish envelopes with the member ``topic``.
        """,
    "SOW-ENG-033": """2 invalid regular expression for names

        Why: The target is a regular expression over names, but it does not compile.
        Do: Correct it, or use ``--literal-topic`` if it is a name.
        """,
    "SOW-ENG-040": """6 temporary file cannot be written

        Why: A rebuild writes data that exceeds memory to temporary files, and a write failed. No store was
        replaced.
        Do: Free space on the file system of the path in the message.
        """,
    "SOW-ENG-041": """5 damaged or incomplete staged segment

        Why: The output of a task of a bulk load differs from what was read back. Staged data is verified before
        the commit, so nothing was published.
        Do: Run the load again; if the error recurs, check the disk of the staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-042": """6 staged segment cannot be written

        Why: A task could not write its output to the staging directory. Nothing was published.
        Do: Free space there, or use another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-043": """2 unknown bulk operation

        Why: The operation of a bulk write must be publish, delta or delete.
        Do: Use ``publish``, ``delta`` or ``delete``.
        See: sowctl-spark(7)
        """,
    "SOW-ENG-044": """6 staging directory cannot be created

        Why: The directory for the output of tasks cannot be created.
        Do: Check permissions and free space there, or use another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-045": """10 no default staging directory

        Why: The topic has neither a store nor a journal beside which messages could be staged.
        Do: Name a staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-046": """2 bulk load into a topic with chains

        Why: The key of each message depends on earlier messages, so tasks cannot prepare messages
        independently.
        Do: Publish them in order with ``sowctl publish``.
        """,
    "SOW-ENG-047": """2 bulk load into a Pattern topic

        Why: Bulk loads require a topic with a store of its own; the logical topics of a Pattern topic share
        one.
        Do: Use ``sowctl publish``.
        """,
    "SOW-ENG-048": """4 entry point cannot be loaded

        Why: A Python package is registered for a module of the configuration, but importing it failed.
        Do: Fix or reinstall the package; the message has the reason.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-050": """10 past state not available

        Why: The topic retains no history for this instant, and no journal has all changes since then.
        Do: Use the instant in the hint or a later one, or restore older journals.
        """,
    "SOW-ENG-051": """4 entry point registered by several packages

        Why: Two installed packages register the same name, so the choice between them would be arbitrary.
        Do: Uninstall one of them.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-052": """4 invalid key generator

        Why: The options of the generator conflict with its kind, or are rejected by the package of its module.
        Do: Correct the options at the position in the message.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-053": """10 missing chain file

        Why: The topic makes keys by chaining and has no journal from which the chains could be rebuilt. Without
        the file, known records would get new keys.
        Do: Restore the file. With an empty file, chains are started again from the records.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-054": """5 chains contradict the records

        Why: The validation of a chaining generator found a record whose value does not lead to its key: the
        chain file and the store are from different times.
        Do: Move the file aside to rebuild it from the journals; without a journal, replace it with an empty
        file.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-055": """6 chain file cannot be read or written

        Why: The file system reported an error.
        Do: Check permissions and free space at the path in the message.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-056": """5 not a chain file

        Why: The file does not have the header or the content of a chain file.
        Do: Restore it, or correct the FileName option of the generator.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-057": """4 invalid constructed field

        Why: A Field of Preprocessing or Enrichment does not compile. Without it, stored messages would lack
        fields that other programs expect.
        Do: ``sowctl validate`` prints the position and the reason.
        See: sow-config(5)
        """,
    "SOW-ENG-058": """4 enrichment not supported for the message type

        Why: Messages of this type cannot be parsed and rewritten, so no field can be constructed in them.
        Do: Remove Preprocessing and Enrichment, or change the message type.
        See: sowctl-messages(7)
        """,
    "SOW-ENG-059": """4 Pattern with enrichment

        Why: A topic with a Pattern supports neither Preprocessing nor Enrichment.
        Do: Define the topics that need it by name, before the Pattern topic.
        """,
    "SOW-ENG-060": """4 missing module of a function

        Why: An expression calls a function of a module for which no Python package is installed.
        Do: Install a package that registers the name of the module.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-061": """4 no such function in the module

        Why: The package registered for the module has no function with this name.
        Do: Correct the name in the configuration, or update the package.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-062": """4 invalid Lookup

        Why: The value of a Lookup option is incomplete, names a missing topic, or has a count that differs from
        its number of fields.
        Do: Write ``name;count;type;topic;returnField;lookupField;...``.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-063": """11 indexes are being built by another process

        Why: Another process is building the same memo indexes.
        Do: Wait until it finishes; queries work meanwhile.
        See: sow-memo(5)
        """,
    "SOW-ENG-064": """6 indexes cannot be written

        Why: The directory of memo indexes is not writable. Queries work without indexes.
        Do: Check permissions and free space at the path in the message.
        See: sow-memo(5)
        """,
    "SOW-ENG-065": """2 nothing to index

        Why: The target has no store of its own.
        Do: Name a topic with a store.
        See: sowctl-store-reindex(1)
        """,
    "SOW-ENG-070": """10 no such entry

        Why: No journal file has an entry with this bookmark or txid: it never existed, or its file was removed.
        Do: ``sowctl journal dump`` prints the bookmarks. A bare number is a txid; a time since 1970 needs a
        unit.
        """,
    "SOW-ENG-071": """10 bookmark older than the journals

        Why: The entry of the bookmark was in a journal file that was removed, together with later entries.
        Starting at the oldest file would silently skip them.
        Do: Restore the older files, in place or in the archive. If they are lost, start with the current state,
        or with all remaining entries with ``--bookmark-not-found epoch``.
        See: sowctl-behaviour(7)
        """,
    "SOW-ENG-072": """10 position undone by a restore

        Why: The instance was restored to a txid before this position, and started a new history above every
        txid that may have been assigned. Neither the entry nor the state of a subscriber at that position is
        part of it.
        Do: Read the current state: query, then subscribe. The message names both histories and the start of the
        new one.
        See: sow-backup(5)
        """,
    "SOW-ENG-080": """2 file of another kind

        Why: The file was named as a store, but is a journal, a memo index, a configuration or compressed data.
        It is not damaged.
        Do: Use the command in the hint to read the file.
        """,
    "SOW-ENG-085": """5 store of a diverged copy of the journal

        Why: Journal and store have the same lineage, but the last entries applied to the store are not those of
        this journal: two copies of an instance were continued separately.
        Do: Put the store beside its own journal, or rebuild it from this one with ``sowctl replay``.
        See: sow-store(5)
        """,
    "SOW-ENG-086": """8 store replaced by another process

        Why: While this run had the store open, another process rebuilt it with another definition. Nothing of
        the batch was written.
        Do: Run the command again with the current configuration.
        """,
    "SOW-ENG-087": """8 FileName already in use

        Why: The FileName of the topic is the configuration or a journal file, which must not be overwritten by
        a store.
        Do: Give the topic a different FileName.
        """,
    "SOW-ENG-088": """8 FileName of a file that is not a store

        Why: The file with the FileName of the topic is not a store, and existing files are not replaced by
        default.
        Do: Give the topic a different FileName; ``sowctl replay --force`` renames the file and creates a store.
        """,
    "SOW-ENG-089": """5 store of a history that ended with a restore

        Why: The store has applied entries that were undone by the restore of the instance: it belongs to a copy
        that was continued separately, or was put back after the restore.
        Do: Put it beside the journal of its own history, or rebuild it from this one with ``sowctl replay``.
        See: sow-backup(5)
        """,
    "SOW-ENG-090": """2 result already consumed

        Why: The result of a query can be iterated once, and it was already consumed or closed. Reading it again
        would look like an empty result.
        Do: Run the query again, or keep the records of the first iteration.
        See: sowctl-python(7)
        """,
}
