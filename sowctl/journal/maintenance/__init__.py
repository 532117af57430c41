"""Maintenance of a journal's files as files, under a lock of its own.

Ruled by ``sow-journal(5)``, "Looking after files".

lock      one at a time: who archives, compresses, removes or repairs
survey    the files as values: how large, how old, what they hold
moving    a file into the archive, whole in one of the two places at each moment; files that go for good, oldest first
sending   files to a URL, and the manifest that tells of them
packing   a file compressed: at each moment it is whole, plain or compressed
mending   damage cut out, a gap in its place, what is sound untouched
"""
