"""SOW keys: from messages to the 16 bytes that identify a record. In the order of processing:

* ``keymaker``: the protocols of key makers and of chains; the keys of a batch.
* ``modes``: the key maker of a topic by its mode: Key fields, publisher's keys, a generator, or none.
* ``generators``: key generators that Python packages register.
* ``chains``: the chaining generator: messages that refer to one another are one record.
* ``chainfile``: the file of chains.
* ``limits``: batch sizes of work on keys.
* ``presentkeys``: the keys that stored records would get today, for ``check``, rebuilds and ``replay --rekey``.
"""
