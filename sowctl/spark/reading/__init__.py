"""Reading stores and journals as Arrow batches: planning on the driver, and reading in tasks.

Stores:

* ``positions``: the same state of a topic for all tasks.
* ``storereader``: reading ranges of keys in tasks.
* ``pinned_state``: copies of a state for many tasks; the option ``pin``.
* ``instants``: reading many past states together.

Journals:

* ``bounds``: the entries that options select.
* ``journalplan``: the partitions of a journal.
* ``journalreader``: reading partitions of a journal.
* ``journalstream``: a journal as a stream.
* ``initial_state``: the records with which a stream starts.
* ``journalbatches``: conversion of entries to Arrow batches.
* ``journalchanges``: the effect of entries on records.

For both:

* ``multi_reader``: several stores or journals as one table.
* ``malformed_messages``: messages that do not match their declared fields.
* ``limits``: the sizes of partitions.
* ``missing_files``: the error if a task does not find the files of the plan.
"""
