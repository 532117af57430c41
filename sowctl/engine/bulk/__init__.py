"""Bulk writes: many tasks stage messages, one commit publishes them, all or nothing. In the order in which data passes:

* ``staging``: a run's directory, and what tasks get and give back.
* ``remoteruns``: that directory at a URL; ``owner``: whose it is, and whether that process has ended.
* ``task``: one attempt of one task: messages in, segments out.
* ``segments``: the files between tasks and commit.
* ``merge``: segments in input order; what an overwrite deletes.
* ``limits``: sizes of what is decided, sorted and written at once.
* ``delta_merge``: enrichment and deltas, over what keys hold by then.
* ``outcomes``: what becomes of every message.
* ``entries``: the surviving messages as journal entries or stored values.
* ``commit``: one group into the journal, or one transaction into a store without one.
"""
