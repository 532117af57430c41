"""The elements of the configuration, as data (``sow-config(5)``): names, values, defaults, and where each may stand.

``element`` is what a row says; ``instance`` has the rows of AMPSConfig and takes in those of the sections: ``sow``,
``journal``, ``connections``, ``operations``, and ``modules`` with the options of actions. ``descriptions`` has the
sentence that each row shows; ``parent_paths`` finds where an element belongs that stands alone.
"""
