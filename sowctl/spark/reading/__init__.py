"""Reading stores and journals as Arrow batches: the driver's plans, and the tasks' reading.

Stores:

* ``positions``: one state of a topic, the same for all tasks.
* ``storereader``: ranges of keys, read by tasks.
* ``pinned_state``: copies of a state that many tasks read; the option ``pin``.
* ``instants``: many past states in one reading.

Journals:

* ``bounds``: the entries that options ask for.
* ``journalplan``: the partitions of a journal.
* ``journalreader``: reading partitions of a journal.
* ``journalstream``: a journal as a stream.
* ``initial_state``: the records that a stream begins with.
* ``journalbatches``: entries to Arrow batches.
* ``journalchanges``: the effect of entries on records.

For both:

* ``multi_reader``: several stores or journals as one table.
* ``malformed_messages``: messages that do not fit their declared fields.
* ``limits``: the sizes of partitions.
* ``missing_files``: the error of a task that does not find the files of the plan.
"""
