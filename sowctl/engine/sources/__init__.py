"""One topic's state at one instant, as records in key order. In the order of processing:

* ``source``: the protocols of all sources.
* ``opener``: opening the source of a target, now or at an instant.
* ``current``: the current state: store and memtable.
* ``merge``: merging changed records and versions with other records in key order.
* ``past``: the state at an instant: planning (``plan_past_state``, for Spark, too) and opening it.
* ``versions``: retained versions: the state at an instant, and the versions of every key.
* ``recovery``: the start of a topic in the journal; a temporary store for a topic without one.
* ``logical_topics``: a source limited to some logical topics; their names and keys.
* ``state_pairs``: two states read side by side in key order.
* ``field_order``: records in the order of fields, to compare states with different SOW keys.
* ``digest``: the digest of a state.
* ``verification``: rebuilding a store in a temporary place and comparing it with the live one.
"""
