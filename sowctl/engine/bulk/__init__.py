"""Bulk writes: many tasks stage messages, and one commit publishes them atomically. In the order of processing:

* ``staging``: the directory of a run, the plan for tasks, and their results.
* ``remoteruns``: the directory of a run at a URL.
* ``owner``: the owner of a staging directory, and whether that process has ended.
* ``task``: one attempt of one task, which writes messages to segments.
* ``segments``: the files from tasks to the commit.
* ``merge``: merging segments into input order, and the deletions of an overwrite.
* ``limits``: sizes of the parts in which a run is decided, sorted and written.
* ``delta_merge``: enrichment and delta merge with the records as of the commit.
* ``outcomes``: the outcome of every message.
* ``entries``: the remaining messages as journal entries or stored values.
* ``commit``: one group in the journal, or one transaction in a store without a journal.
"""
