"""LMDB's file as bytes: what its pages look like.

* ``layout``: constants and structs of pages, nodes and trees; the only place that knows them.
"""
