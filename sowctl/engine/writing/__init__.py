"""Publishing: from an input to acknowledged entries. In the order in which data passes:

* ``batches``: messages of the inputs, gathered into batches.
* ``limits``: sizes of batches.
* ``read_ahead``: a second process that does this, and makes keys, where much comes.
* ``routing``: which topic each message of a batch goes to, and who publishes it.
* ``publishers``: a publisher's identity and sequence numbers, which tell duplicates.
* ``prepare``: keys, lifetimes and the times that messages bring, before any lock is taken.
* ``enrichment``: fields that the configuration constructs, before and after a message has its key.
* ``refusal_policy``, ``rejects``: where refused messages end a run; where in the input each stands.
* ``session``: journal and stores of the topics in use, locked for each batch; topics without records.
* ``writer_opening``: a store created, caught up or rebuilt, for one topic to be written.
* ``unapplied_entries``: what the journal holds behind that store.
* ``topicwriter``, ``dryrun``: one topic opened for writing, or for a dry run.
* ``delta_merge``: enrichment with the record as it was, and the merge of deltas, under the locks.
* ``outcome``: the outcome of each message, its time and lifetime; a bulk write asks it, too.
* ``batch_outcomes``: the same of a large batch, by columns.
* ``entries``: the entries of one topic in a batch, from prepared messages and their outcomes.
* ``commit``: entries into journal and memtables, as one group.
* ``rekey``: records under the keys that their topic makes now, as one group.
"""
