"""The transaction log of an instance: files, blocks, groups (``sow-journal(5)``), in the order in which entries pass.

Writing:

* ``writer``: appending one batch under the lock, for the engine.
* ``lock``: the lock file, and its holder.
* ``entries``: a batch of entries by columns, and the table of these columns.
* ``group``: a batch cut into blocks.
* ``logend``: the end of the log: found, repaired, appended to.
* ``appender``: the file that is appended to: writing, syncing, truncating.
* ``state``: the last entry per topic and publisher; the topics file.

Bytes:

* ``format``: headers, names and rows of files.
* ``blockcodec``: the header and map of a block.
* ``columns``: the columns of a block, and compression.

Reading:

* ``reader``: the interface of readers for all other packages.
* ``scan``: reading from a known position through all files to the end.
* ``walk``: reading one file group by group; tells a torn tail from damage.
* ``fileset``: the open files of a journal in their order.
* ``listing``: the files of a journal by number.
* ``archive``: journal files of an archive at a URL.
* ``files``: one file: reading blocks at an offset, searching for blocks.
* ``decompression``: a compressed file, read at any offset.
* ``block``: blocks, entries and positions as values.
* ``arrays``: the columns of a batch of entries as numpy arrays.
* ``stretch``: the plan that cuts files into parts for several processes.
* ``check``: a check of all files.

Maintenance:

* ``maintenance``: moving, compressing, removing and repairing files.
* ``limits``: sizes of blocks, frames and stretches of a journal.
"""
