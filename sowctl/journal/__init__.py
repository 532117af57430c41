"""The transaction log of an instance: files, blocks, groups (``sow-journal(5)``).

Inside: :mod:`format`, :mod:`blockcodec` and :mod:`columns` own the bytes; :mod:`walk` finds groups and judges tails,
:mod:`scan` goes through all files, :mod:`ending` adds to the last one; :mod:`reader`, :mod:`writer` and :mod:`check`
are what other rooms use; :mod:`group` is what a writer is given, :mod:`block` what a reader gives.
"""
