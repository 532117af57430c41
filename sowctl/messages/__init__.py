"""Message types (``sowctl-messages(7)``): from payload bytes to rows, key texts, selections and JSON views.

* ``framing``: a stream of bytes split into messages; envelopes with metadata.
* ``types``: the table of types; a new type is a row there, and its file.
* ``base``: the protocol of message types, and their errors.
* ``template_columns``: the protocol of types that also give columns.
* ``definition``: a message type as the configuration defines it.
* ``native_values``: messages made of Python values.
* ``directives``: a select list as a tree of paths, for types whose messages are trees.
* ``json``: json; the texts of scalars and the rules of paths are used by other types too.
* ``xml``: xml.
* ``tagged``: fix, nvfix, bflat.
* ``nested``: bson, msgpack; readers of trees and the JSON view are used by other types too.
* ``proto``: protobuf.
* ``fixed``: binary, struct.
* ``composite``: composite-local, composite-global.
"""
