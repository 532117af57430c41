"""The transaction log of an instance: files, blocks, groups (``sow-journal(5)``), in the order in which entries pass.

Writing
    writer      one batch under the lock, for the engine
    lock        the lock file, and who holds it
    group       entries by columns, cut into blocks
    limits      sizes of blocks, frames and stretches
    logend      the end of the log: read up, repaired, added to
    appender    the file that grows: written, synced, cut back
    state       last entry per topic and publisher; topics file
Bytes
    format      headers and names of files, rows
    blockcodec  header and map of a block
    columns     columns of a block, compression
Reading
    reader      questions to a journal, for all other rooms
    scan        from a good place through all files to the end
    walk        one file group by group; judges what is broken
    fileset     the files, open as long as they are needed
    listing     which files there are, by number
    archive/    an archive at a URL, in front of the files here
    files       a file, and blocks at an offset
    compressed  a compressed file, read at any offset
    block       what a reader gives
    stretch     parts of files that are read apart, and the plan that cuts them
    check       everything, and what is wrong with it
"""
