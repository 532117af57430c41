"""The SOW file: records, history, expiry and meta of one topic in one LMDB file (``sow-store(5)``).

The only room that imports lmdb. ``codec`` record bytes, ``keys`` what versions and expirations are filed under,
``integrity`` whether values are as they were written, ``meta`` definition and state, ``env`` opening, reading, writing,
``replace`` building a new file and putting it in place, ``check`` reading everything in a child process.
"""
