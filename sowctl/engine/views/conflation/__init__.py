"""Conflated topics: messages of a topic or view that change once in an interval (``behaviour`` 5.3).

In the order of processing:

* ``timeline``: the changes of a topic in the order of time.
* ``replay_tables``: the rows and groups of a view while its history is replayed, in tables.
* ``row_replay``: changed records applied to these rows, groups and messages.
* ``rowchanges``: the changes of a view's rows in the order of time.
* ``source_changes``: the changes of the source of a conflated topic, of any kind.
* ``conflation_rule``: the rule of conflation, from changes of the source to those of the conflated topic.
* ``outputs``: the messages that a conflated topic shows: enrichment, logical topic names.
* ``state_tables``: the stored state: its meta record and its table of pending messages.
* ``source_digests``: changes of a source without a journal, found by digests.
* ``conflation_store``: the stored state, advanced to the clock (sow-view(5)).
* ``conflated_source``: a conflated topic as a source: from its stored state, or computed.
"""
