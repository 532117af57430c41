"""Memo indexes: the typed values of one path of every record of a store, in files beside it (``sow-memo(5)``).

They are derived: any of them may be missing, stale or damaged, and the answers stay. This room knows nothing of stores
and expressions; the engine brings records, values and predicates together.
"""
