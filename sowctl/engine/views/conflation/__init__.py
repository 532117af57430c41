"""Conflated topics: messages of a topic or view that change at most once per interval (``behaviour`` 5.3).

In the order of processing:

* ``timeline``: the changes of a topic in time order.
* ``replay_tables``: tables of the rows and groups of a view while its history is replayed.
* ``row_replay``: applying changed records to these rows, groups and messages.
* ``rowchanges``: the changes of a view's rows in time order.
* ``source_changes``: the changes of the source of a conflated topic, of any kind.
* ``conflation_rule``: the rule that conflates changes of the source.
* ``outputs``: the output messages of a conflated topic: enrichment, logical topic names.
* ``state_tables``: the stored state: its meta record and its table of pending messages.
* ``source_digests``: changes of a source without a journal, detected by digests.
* ``conflation_store``: advancing the stored state to the clock (sow-view(5)).
* ``conflated_source``: a conflated topic as a source: from its stored state, or computed.
"""
