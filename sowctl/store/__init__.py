"""The SOW file (``sow-store(5)``). The only room that imports lmdb."""
