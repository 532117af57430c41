"""One topic's state at one instant, as records in key order, whatever it is made of. In the order in which data passes:

* ``source``: what all sources have in common: the protocols.
* ``opener``: the source of a target, now or at an instant: the door for verbs.
* ``current``: store plus memtable; opening both.
* ``merge``: records put in their places among others.
* ``past``: how a state at an instant is found (``plan_past_state``, for Spark too), and opened.
* ``versions``: retained versions: the state at an instant, and every key's timeline.
* ``recovery``: where the store of a topic begins in the log; a store for a topic that has none.
* ``logical_topics``: some logical topics of a source, and their names and keys.
* ``state_pairs``: two states side by side in one pass; ``field_order``: in the order of fields, where SOW keys differ.
* ``digest``: the digest of a state.
* ``verification``: a store built anew aside, and compared with the live one.
"""
