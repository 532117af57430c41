"""The transaction log of an instance: files, blocks, groups (``sow-journal(5)``); modules in the order of the data
flow.

Writing:

* ``writer``: appends batches under the lock, for the engine.
* ``lock``: the lock file and its holder.
* ``entries``: a batch of entries by columns, and the table of these columns.
* ``group``: divides a batch into blocks.
* ``logend``: finds and repairs the end of the log and appends to it.
* ``appender``: the file that grows: writing, syncing, truncating.
* ``state``: the last entry per topic and publisher; the topics file.

Bytes:

* ``format``: headers, names and rows of files.
* ``blockcodec``: the header and map of a block.
* ``columns``: the columns of a block, and compression.

Reading:

* ``reader``: the interface of readers for all other packages.
* ``scan``: reads from a known position through all files to the end.
* ``walk``: reads one file group by group; distinguishes a torn tail from damage.
* ``fileset``: the open files of a journal in order.
* ``listing``: the files of a journal by number.
* ``archive``: journal files of an archive at a URL.
* ``files``: one file: reading blocks at an offset, searching for blocks.
* ``decompression``: a compressed file, read at any offset.
* ``block``: blocks, entries and positions as values.
* ``arrays``: the columns of a batch of entries as numpy arrays.
* ``stretch``: the plan that divides files into parts for several processes.
* ``check``: a check of all files.

Maintenance:

* ``maintenance``: moving, compressing, removing and repairing files.
* ``limits``: sizes of blocks, frames and stretches of a journal.
"""
