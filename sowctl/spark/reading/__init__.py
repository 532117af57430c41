"""Reading stores and journals as Arrow batches: what the driver plans, and what tasks read.

A store: ``positions`` fixes one state of a topic for all tasks, ``storereader`` reads ranges of its keys,
``pinned_state`` makes a copy that many readings share. A journal: ``bounds`` says which entries are wanted,
``journalplan`` cuts the log into stretches, ``journalreader`` reads them, ``journalstream`` what is appended later;
``journalbatches`` makes columns of blocks, from the joined columns of ``entries``, ``journalchanges`` what they did to
records. ``malformed_messages`` is what becomes of messages that do not fit their fields, ``limits`` the sizes of
partitions.
"""
