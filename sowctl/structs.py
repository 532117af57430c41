"""Structs that ``help()`` can show, even if the types of some fields are imported only for type checkers.

``msgspec`` evaluates the annotations of a Struct for its signature, and a name imported under ``TYPE_CHECKING`` is
undefined then: a NameError. Importing these modules for it would slow every start. A :class:`DescribedStruct` has a
signature with the annotations as written.

Not the base of every Struct: on Python 3.11 creating one takes about 0.1 µs more than creating a plain Struct, which
matters for Structs created per record. ``tests/test_structs.py`` finds a Struct that needs this base and lacks it.
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
        """The parameters in order, annotations as texts and defaults as in msgspec."""
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
    # Type checkers treat a class with a metaclass as not frozen, so for them it is an alias of Struct.
    DescribedStruct = Struct
else:

    class DescribedStruct(Struct, metaclass=_DescribedMeta):
        """A Struct whose signature is built without evaluating its annotations."""
