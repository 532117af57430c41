"""Bulk writes: many tasks stage messages, one commit publishes them, all or nothing. In the order of processing:

* ``staging``: the directory of a run, and what tasks receive and return.
* ``remoteruns``: the directory of a run at a URL.
* ``owner``: the owner of a staging directory, and whether that process has ended.
* ``task``: one attempt of one task: messages in, segments out.
* ``segments``: the files between tasks and commit.
* ``merge``: segments merged into input order; the records that an overwrite deletes.
* ``limits``: sizes of what is decided, sorted and written at once.
* ``delta_merge``: enrichment and delta merge, with the records as of the commit.
* ``outcomes``: the outcome of every message.
* ``entries``: the remaining messages as journal entries or stored values.
* ``commit``: one group in the journal, or one transaction in a store without a journal.
"""
