"""From a path to an open LMDB environment that may be used (``sow-store(5)``, "Files", "How to read", "Without locks").

access       the files of a store, and what this process may do with them
locks        the gate and the writer lock
pages        LMDB's meta pages and free list, proven sound before the file is mapped
proof/       LMDB's pages, proven before it is sent to them
unlocked     proof for a reader without locks that its state was not overwritten
handle       an open environment: transactions, map size, closing
environment  opens one through the gate
sharing      one environment for all readers of a process
current      the environment behind a path, opened anew when the file is replaced
"""
