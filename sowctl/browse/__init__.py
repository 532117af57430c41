"""The terminal browser: topics, records, one record, the journal. The only importer of Textual (extra ``tui``).

* ``instance_reader``: what the screens ask, in words of the engine; nothing of it touches the terminal.
* ``screen``: what all screens have in common: questions are answered by threads, and an answer that comes too late is
  dropped.
* ``topics``, ``records``, ``record_detail``, ``journal``, ``help_page``: a screen each.
* ``queues``: the queues, one of them, and one message.
* ``app``: the application, and how it begins.
"""
