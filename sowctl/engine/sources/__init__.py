"""One topic's state at one instant, as records in key order. In the order of processing:

* ``source``: the protocols of all sources.
* ``opener``: opening the source of a target, now or at an instant.
* ``current``: the current state: store and memtable.
* ``merge``: changed records and versions merged with other records in key order.
* ``past``: the state at an instant: finding a plan (``plan_past_state``, for Spark too) and opening it.
* ``versions``: retained versions: the state at an instant, and the versions of every key.
* ``recovery``: where the store of a topic begins in the journal; a temporary store for a topic without one.
* ``logical_topics``: a source limited to some logical topics; their names and keys.
* ``state_pairs``: two states read side by side in key order.
* ``field_order``: records in the order of fields, to compare states with different SOW keys.
* ``digest``: the digest of a state.
* ``verification``: a store rebuilt in a temporary place and compared with the live one.
"""
