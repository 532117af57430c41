"""The verbs, one per file, each the function that the command of its name and the Python API call.

In the order of a topic's life:

* ``publish``: messages into topics, batch by batch.
* ``delete``: records by filter, by SOW key, or by messages with their keys.
* ``expire``: what is over at the clock leaves the files.
* ``query``: records that match a filter, in the order asked for; ``explain``: the plan of such a query.
* ``get``: records by key.
* ``history``: the versions of records, from the store or from the journal (the command is ``versions``).
* ``snapshot``: a topic as it was, as records or as a store file.
* ``replay``: stores caught up, rebuilt, compared or rekeyed from the journals.
* ``check``: every byte of stores and journals, read and compared.
* ``info``: stores, their sizes and positions, without reading them whole.
* ``journal``: the files of the log, and what stands in them.
* ``reindex``: memo indexes built or removed.
* ``key``: the SOW keys that messages would get.
* ``eval``: an expression over messages from files and pipes, without an instance.
"""
