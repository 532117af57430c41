"""The state file of a queue: what of the journal's messages is pending, leased, delayed (``sow-queue(5)``).

In the order in which data passes:

    page       up to 256 messages of a queue in a row, by columns
    values     the other rows: state and counters, holders of leases, barriers, dead messages
    file       the file: opened, locked, replaced; one change after the other
    rows       what one change reads and writes: pages, and the indexes that follow from them

The file is small and derived: what is pending follows from the journal. Leases and counters of deliveries are in it
alone, so a damaged file is an error and not silently made anew.
"""
