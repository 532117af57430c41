"""Message types (``sowctl-messages(7)``): payload bytes in, rows, key texts, selections and JSON views out.

* ``framing``: a stream of bytes cut into messages; envelopes with metadata
* ``types``: the table of types: a new one is a row there, and its file
* ``base``: the protocol that a type keeps, its refusals and errors; ``template_columns``: that of types that give
  columns of numpy, too; ``definition``: what a configuration says of a type
* ``native_values``: messages made of Python values, for rows of data sets and for programs
* ``directives``: a select list as a tree of paths, for types whose messages are trees
* ``json``, ``xml``, ``tagged`` (fix, nvfix, bflat), ``nested`` (bson, msgpack), ``proto``, ``fixed`` (binary, struct)
  and ``composite``: the types by family. Others use of ``json`` the texts of scalars and the rules of paths, of
  ``nested`` the readers of trees and the JSON view
"""
