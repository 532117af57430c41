"""Publishing: from an input to acknowledged entries. In the order of processing:

* ``row_target``: conversion of rows of files and frames to messages of a topic.
* ``publish_input``: the inputs of a run of publish, and its position in them.
* ``batches``: messages of the inputs, collected into batches.
* ``limits``: sizes of batches.
* ``read_ahead``: a second process that reads large inputs ahead and computes keys.
* ``routing``: the topic and the publisher of each message of a batch.
* ``publishers``: a publisher's identity and sequence numbers, which detect duplicates.
* ``prepare``: keys, lifetimes and times of messages, before any lock is taken.
* ``enrichment``: fields that the configuration constructs, before and after a message has its key.
* ``refusal_policy``: the policy for refused messages: skip, stop, abort.
* ``rejects``: refused messages and their position in the input.
* ``session``: journal and stores of the topics in use, locked for each batch.
* ``writer_opening``: opens a topic for writing: creates, catches up or rebuilds its store.
* ``unapplied_entries``: the journal entries after the position of that store.
* ``topicwriter``: one topic opened for writing.
* ``dryrun``: one topic opened for a dry run.
* ``delta_merge``: enrichment with the previous record, and delta merge, under the locks.
* ``outcome``: the outcome of each message, its time and lifetime; used by bulk writes too.
* ``batch_outcomes``: the outcomes of a large batch, by columns.
* ``input_state``: an input as the state of a topic, in a temporary directory.
* ``group_commit``: batches from their locks to their acknowledgement, synced together.
* ``entries``: the entries of one topic in a batch, from prepared messages and their outcomes.
* ``commit``: writes entries to the journal and the memtables, as one group.
* ``publish_report``: counts durable batches and reports them to the caller.
* ``rekey``: moves records to the keys of their topic's current definition, as one group.
"""
