"""The transaction log of an instance: files, blocks, groups (``sow-journal(5)``).

Inside: :mod:`format` and :mod:`columns` own the bytes; :mod:`walk` finds groups and judges tails; :mod:`reader`,
:mod:`writer` and :mod:`check` are what other rooms use; :mod:`group` is what a writer is given, :mod:`block` what a
reader gives.
"""
