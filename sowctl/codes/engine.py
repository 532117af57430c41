"""Codes of instances and their topics, and of what ``check`` finds between stores and journals."""

from __future__ import annotations

CODES: dict[str, str] = {
    "SOW-CHK-001": """0 a topic in the journal without its store

        Why: The journal has entries of the topic, and its store file is not there. Readers answer from the journal
        meanwhile, which is slower. It is a warning: nothing is lost.
        Do: ``sowctl replay TOPIC`` makes the store; the next publish does so too.
        """,
    "SOW-CHK-002": """8 a store of another definition

        Why: The file is sound, but it was made for another topic, instance, message type or key than the
        configuration now has at its place.
        Do: Put the former definition or the right file back; after a change of Key alone, ``sowctl replay --rekey
        TOPIC`` gives the records their new keys.
        """,
    "SOW-CHK-003": """8 records under other keys than the configuration makes

        Why: The keys of the records are not those that the configured Key gives for their messages, though the file
        names this definition: they were published under another one, or by other means.
        Do: Put the former Key back, or give them new keys with ``sowctl replay --rekey TOPIC`` where the topic is
        journalled.
        """,
    "SOW-CHK-004": """0 a sorted run that cannot be used

        Why: A file beside the store, which a bulk load leaves when it is cut off, is damaged or of another version. The
        journal has its entries, and readers and writers take them from there: nothing is lost, it only takes longer.
        Do: Nothing; ``sowctl replay TOPIC`` brings the store up to date and removes the file.
        See: sow-run(5)
        """,
    "SOW-ENG-001": """5 the journal lacks entries that the store needs

        Why: The store has not applied some entries of its topic, and the journal files that held them are gone. Going
        on would lose those changes without a word.
        Do: Put the older journal files back, there or in the archive.
        See: sow-journal(5)
        """,
    "SOW-ENG-002": """5 the journal ends before its store

        Why: The store has applied entries that the journal does not hold: the end of the journal was lost, or an
        older copy was put in its place.
        Do: Restore the journal from a copy. To go on without the lost entries see 'Accepting a loss' in
        sow-journal(5).
        See: sow-journal(5)
        """,
    "SOW-ENG-003": """5 a store of another journal

        Why: The store took its entries from a journal of another lineage, and the same txids mean different things
        there.
        Do: Put the journal that belongs to the store back, or move the store aside and rebuild it from the journal
        that is here.
        See: sow-store(5)
        """,
    "SOW-ENG-010": """10 no store yet

        Why: Nothing was ever published to the topic, or it is transient and no journal records it, so that nothing
        could keep its records.
        Do: Publish to it. A topic that keeps nothing needs a FileName or a place in the TransactionLog.
        """,
    "SOW-ENG-011": """10 a missing store that the journals cannot give back

        Why: The store file is gone, and the journals begin after the topic's first entry, so that a rebuild could
        lack records.
        Do: Put the store or the older journals back. Where they are lost, ``sowctl replay TOPIC`` builds what the
        journals that are left hold, which may be less than was published; a note says from which txid on.
        """,
    "SOW-ENG-012": """10 no such topic

        Why: The configuration (or, for a dump, the journal) has no topic of this name and type.
        Do: Correct the name; a hint says which are near, and ``sowctl info`` lists the topics.
        """,
    "SOW-ENG-013": """10 no such file

        Why: The target was written as a path, and there is no file or directory of that name. Stores at URLs are not
        read: what is mapped into memory lies on a file system of the machine.
        Do: Correct the path; names of topics have no ``.sow`` behind them. Copy a store from its URL here; ``sowctl
        journal dump`` and ``sowctl replay`` read an archive of a journal at its URL.
        """,
    "SOW-ENG-014": """10 a pattern without topics

        Why: The target is a regular expression, and no name matches it: of a topic, view, conflated topic or queue for
        what reads, of a topic alone for what writes or looks into stores. Patterns are not anchored, and letter case
        counts.
        Do: ``sowctl info`` lists the topics; ``--literal-topic`` takes the text as a name.
        """,
    "SOW-ENG-015": """10 a name without configuration

        Why: The target is no file, and there is no configuration in which it could be a topic.
        Do: Give ``--config``, or the path of a ``.sow`` file.
        """,
    "SOW-ENG-016": """10 a topic without SOW

        Why: Only the transaction log names the topic: its messages are journalled, and there is no state to read.
        Do: ``sowctl journal dump --topic NAME`` shows its messages.
        """,
    "SOW-ENG-020": """4 no transaction log

        Why: The command needs the journal, and the configuration has no TransactionLog.
        Do: Use the configuration that has one. Of topics without journal only the present state is known.
        """,
    "SOW-ENG-021": """8 nothing would keep the messages

        Why: The topic is transient and no journal records it, so that a message published to it would be gone when
        the command ends.
        Do: Give the topic a FileName or a place in the TransactionLog; ``--allow-volatile`` publishes all the same.
        """,
    "SOW-ENG-022": """8 records from before the journal

        Why: The store has records that were published before the topic was journalled. The journal cannot bring them
        back, so a rebuild would lose them unnoticed.
        Do: Write them out with ``--meta``, move the store aside, and publish them again as envelopes: then the
        journal has them.
        """,
    "SOW-ENG-023": """8 the store of another topic

        Why: The file at the topic's place says that it is the store of another topic or message type.
        Do: Put each store back in its place, or correct the FileName. Named by its path, the file can be read as what
        it is.
        """,
    "SOW-ENG-030": """2 a name of several message types

        Why: Topics of different message types share the name, and the command works on one.
        Do: Write the name with its type as the hint shows, or give ``--message-type``.
        """,
    "SOW-ENG-031": """2 no topic with a store of its own

        Why: The name belongs to a view, conflated topic or queue, whose records follow those of other topics. Views and
        conflated topics can be read; nothing can be published to them or deleted from them.
        Do: Publish to the topics that it is made of, and delete there.
        """,
    "SOW-ENG-032": """2 many logical topics

        Why: The topic has a Pattern and holds the records of many logical topics; a message must say to which of them
        it belongs.
        Do: Name the logical topic, or publish envelopes with the member ``topic``.
        """,
    "SOW-ENG-033": """2 a pattern of names that is no regular expression

        Why: The target is read as a regular expression over names, and the expression engine refuses it.
        Do: Correct it, or give ``--literal-topic`` where the text is a name.
        """,
    "SOW-ENG-040": """6 a temporary file cannot be written

        Why: A rebuild puts what does not fit into memory into temporary files, and the file system refused one. No
        store was replaced.
        Do: Make room on the file system of the path in the message.
        """,
    "SOW-ENG-041": """5 a staged segment is damaged or incomplete

        Why: What a task of a bulk load wrote is not what was read back. Staged data is read before anything is
        committed, so nothing was published.
        Do: Run the load again; where it happens again, look at the disk of the staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-042": """6 a staged segment cannot be written

        Why: The file system of the staging directory refused a task's output. Nothing was published.
        Do: Make room there, or give another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-043": """2 an unknown bulk operation

        Why: A bulk write publishes, publishes deltas or deletes; this word means none of them.
        Do: Use ``publish``, ``delta`` or ``delete``.
        See: sowctl-spark(7)
        """,
    "SOW-ENG-044": """6 no staging directory

        Why: The directory in which tasks put what they have prepared cannot be made.
        Do: Check permission and free space there, or give another ``--staging`` directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-045": """10 no place to stage

        Why: The topic has neither a file nor a journal beside which messages could be staged.
        Do: Give a staging directory.
        See: sowctl-pipeline(1)
        """,
    "SOW-ENG-046": """2 a bulk load into a topic with chains

        Why: The key of each message depends on the messages before it, so they cannot be prepared by several tasks.
        Do: Publish them in order with ``sowctl publish``.
        """,
    "SOW-ENG-047": """2 a bulk load into a Pattern topic

        Why: Bulk loads write to topics that have a store to themselves; a Pattern topic shares one among logical
        topics.
        Do: Use ``sowctl publish``.
        """,
    "SOW-ENG-048": """4 an entry point that cannot be loaded

        Why: A Python package is registered for a module of the configuration, and importing it failed.
        Do: Repair or reinstall the package; the message has the reason.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-050": """10 a past state that cannot be told

        Why: The topic keeps no history that reaches this instant, and no journal holds every change since then. A
        guess would be a wrong answer, so there is none.
        Do: Ask for the instant in the hint or a later one, or put older journals back.
        """,
    "SOW-ENG-051": """4 an entry point that several packages claim

        Why: Two installed packages register the same name, and which one would be taken is chance.
        Do: Uninstall one of them.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-052": """4 a key generator that cannot be used

        Why: The options of the generator contradict its kind, or what stands in for its module refuses them.
        Do: Correct the options at the place in the message.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-053": """10 the file of chains is missing

        Why: The topic makes keys by chaining and has no journal to read the chains from. Without the file, known
        records would get new keys.
        Do: Restore the file. An empty one in its place starts over from the records alone.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-054": """5 chains that contradict the records

        Why: Validation of a chaining generator found a record whose own value does not lead to its key: the file of
        chains is of another time than the store.
        Do: Move the file aside, which makes it anew from the journals; without a journal put an empty one in its
        place.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-055": """6 the file of chains cannot be read or written

        Why: The file system refused it.
        Do: Check permission and free space at the path in the message.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-056": """5 no file of chains

        Why: The file at that place has another beginning or content than a file of chains.
        Do: Restore it, or correct the FileName option of the generator.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-057": """4 constructed fields that cannot be used

        Why: A Field of Preprocessing or Enrichment does not compile. Publishing without it would store messages that
        lack what other programs expect.
        Do: ``sowctl validate`` shows the place and the reason.
        See: sow-config(5)
        """,
    "SOW-ENG-058": """4 enrichment for a type that cannot be written

        Why: Messages of this type cannot be taken apart and put together again, so no field can be constructed in
        them.
        Do: Remove Preprocessing and Enrichment, or change the message type.
        See: sowctl-messages(7)
        """,
    "SOW-ENG-059": """4 a Pattern with enrichment

        Why: A topic with a Pattern takes neither Preprocessing nor Enrichment.
        Do: Define the topics that need it by their own names, before the Pattern topic.
        """,
    "SOW-ENG-060": """4 a function whose module is not here

        Why: An expression calls a function of a module, and no Python package stands in for that module.
        Do: Install a package that registers the module's name.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-061": """4 a module without this function

        Why: The package that stands in for the module has no function of that name.
        Do: Correct the name in the configuration, or update the package.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-062": """4 a Lookup that cannot be used

        Why: The text of a Lookup option has not its parts, names a topic that is not there, or counts other fields
        than it lists.
        Do: Write ``name;count;type;topic;returnField;lookupField;...``.
        See: sowctl-plugins(7)
        """,
    "SOW-ENG-063": """11 indexes that another process is building

        Why: Two builders of the same memo indexes would do the work twice.
        Do: Wait for the other one; queries are answered meanwhile.
        See: sow-memo(5)
        """,
    "SOW-ENG-064": """6 indexes that cannot be written

        Why: The directory of memo indexes cannot be written. Queries are answered without them.
        Do: Check permission and free space at the path in the message.
        See: sow-memo(5)
        """,
    "SOW-ENG-065": """2 nothing to index

        Why: The target has no store of its own, so there is nothing that an index could be about.
        Do: Name a topic with a store.
        See: sowctl-store-reindex(1)
        """,
    "SOW-ENG-070": """10 no such entry

        Why: No journal file holds an entry with this bookmark or txid: it was never there, or its file was removed.
        Do: ``sowctl journal dump`` shows the bookmarks. A bare number is a txid; a time since 1970 needs a unit.
        """,
    "SOW-ENG-071": """10 a bookmark that is older than the journals

        Why: The entry of the bookmark stood in a journal file that was removed, and entries behind it went with it. To
        begin at the oldest file would leave them out without a word.
        Do: Put the older files back, there or in the archive. Where they are lost, begin with the present state, or
        take everything that is left with ``--bookmark-not-found epoch``.
        See: sowctl-behaviour(7)
        """,
    "SOW-ENG-072": """10 a place that a restore has undone

        Why: The instance was restored to a txid before this place, and began a new history above every txid that may
        have been given. The entry is not in it, and what a subscriber holds of that time is not either.
        Do: Take the state anew: query, then subscribe. The message names both histories and where the new one goes on.
        See: sow-backup(5)
        """,
    "SOW-ENG-080": """2 a file of another kind

        Why: The file was named as a store and is something else: a journal, a memo index, a configuration, compressed
        data. It is not damaged.
        Do: The hint names the command that reads such files.
        """,
    "SOW-ENG-085": """5 a store of another copy of the journal

        Why: Journal and store share their lineage, but the last entries that the store applied are not those of this
        journal: two copies of an instance went on separately.
        Do: Put the store beside its own journal, or let ``sowctl replay`` make it anew from this one.
        See: sow-store(5)
        """,
    "SOW-ENG-086": """8 a store that was replaced meanwhile

        Why: While this run had the store open, another process rebuilt it for another definition. Nothing of the
        batch was written.
        Do: Start again with the present configuration.
        """,
    "SOW-ENG-087": """8 a FileName that is taken

        Why: The topic's FileName names the configuration or a file of the journal, which must never be written as a
        store.
        Do: Give the topic a FileName of its own.
        """,
    "SOW-ENG-088": """8 a FileName of another kind of file

        Why: At the topic's place lies a file that is no store and was none. It is not replaced unasked.
        Do: Give the topic a FileName of its own; ``sowctl replay --force`` keeps the file aside and makes a store.
        """,
    "SOW-ENG-089": """5 a store of a history that a restore ended

        Why: The store has applied entries which the restore of the instance has undone: it belongs to a copy that went
        on by itself, or was put back after the restore.
        Do: Put it back beside the journal of its own history, or let ``sowctl replay`` make it anew from this one.
        See: sow-backup(5)
        """,
    "SOW-ENG-090": """2 a result that is over

        Why: The result of a query is gone through once. It was, or it is closed; read again it would look like one
        without records.
        Do: Ask the query again, or keep what the first reading gave.
        See: sowctl-python(7)
        """,
}
