"""The verbs: one module for each command on an instance, which calls it under the same name. None imports another; what
two of them share stands below, in the room whose decision it is. In the order of a record's life:

* ``publish``: messages into topics, acknowledged when they are in the journal and synced.
* ``key``: the SOW keys that messages would get. ``eval``: an expression over messages, without an instance.
* ``query``, ``get``: records by filter, and by key. ``explain``: the plans of a query, which the caller hands in.
* ``history``: versions of records. ``snapshot``: a topic as it was, as a store file.
* ``delete``, ``expire``: what takes records away.
* ``replay``: stores from journals. ``reindex``: memo indexes built or removed.
* ``queue``: queues by name, and their messages as records.
* ``maintenance/``: what keeps stores and journals in order.
* ``inspect/``: what messages consist of, figures of them, and what differs between states.
* ``info``, ``check``, ``journal``: what files there are, whether they are sound, what stands in a journal.

The digest of a topic, which the command ``hash`` prints, is :mod:`sowctl.engine.sources.digest`: replay compares it.
"""
