"""SOW keys: from messages to the 16 bytes under which a record is found. In the order in which data passes:

* ``keymaker``: the protocols of what makes keys and of what keeps chains; the keys of a batch.
* ``modes``: ``build_key_maker`` chooses by a topic's mode; keys from Key fields, from the publisher, or none at all.
* ``generators``: keys that a registered Python package makes.
* ``chains``: the chaining generator: messages that name one another are one record.
* ``chainfile``: the file in which chains are kept.
* ``limits``: sizes of what is done with keys at once.
* ``presentkeys``: the keys that stored records would get today, for ``check``, rebuilds and ``replay --rekey``.
"""
