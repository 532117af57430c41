"""Structs that ``help()`` can show, although checkers alone import the types of some of their fields.

``msgspec`` evaluates the annotations of a Struct when it is asked for the signature, and a name imported under
``TYPE_CHECKING`` is not there then: a NameError. Importing these modules for it would slow every start. A
:class:`DescribedStruct` gives its signature with the annotations as they are written.

Not the base of every Struct: on Python 3.11 making one takes about 0.1 µs more than making a plain Struct, which counts
for what is made per record. ``tests/test_structs.py`` finds a Struct that needs this base and has it not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import NODEFAULT, Struct, StructMeta

if TYPE_CHECKING:
    from inspect import Signature

__all__ = ["DescribedStruct"]


class _DescribedMeta(StructMeta):
    @property
    def __signature__(self) -> Signature:
        """The parameters in their order, annotations as texts and defaults as msgspec has them."""
        from inspect import Parameter, Signature, get_annotations

        kind: Any = self
        written: dict[str, Any] = {}
        for base in reversed(kind.__mro__):
            written.update(get_annotations(base))
        names, defaults = kind.__struct_fields__, kind.__struct_defaults__
        given = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
        return Signature(
            [
                Parameter(
                    name,
                    Parameter.POSITIONAL_OR_KEYWORD if name in kind.__match_args__ else Parameter.KEYWORD_ONLY,
                    default=Parameter.empty if given.get(name, NODEFAULT) is NODEFAULT else given[name],
                    annotation=written[name],
                )
                for name in names
            ]
        )


if TYPE_CHECKING:
    # Checkers take a class that names a metaclass for one that is not frozen, so to them it is Struct by another name.
    DescribedStruct = Struct
else:

    class DescribedStruct(Struct, metaclass=_DescribedMeta):
        """A Struct whose signature is made without evaluating its annotations."""
