"""The terminal browser: topics, records, one record, the journal. The only importer of Textual (extra ``tui``).

* ``instance_reader``: reading an instance for the screens; independent of the terminal.
* ``screen``: the base of all screens: reading in threads, and dropping outdated results.
* ``topics``: the screen of all topics, the first one.
* ``records``: the screen of a topic's records.
* ``record_detail``: the screen of one record and its versions.
* ``journal``: the screen of the end of the journal.
* ``queues``: the screens of all queues, of one queue, and of one message.
* ``help_page``: the screen of the keys.
* ``app``: the Textual application.
"""
