"""Base class of the parts of a configuration: equal if their content is equal, wherever it is written."""

from __future__ import annotations

from typing import Any, ClassVar

from sowctl.structs import DescribedStruct


class Configured(DescribedStruct, frozen=True, eq=False):
    """A part of the model (``model.py``, ``actions.py``).

    Equality, hash and repr ignore the fields of ``WHERE``: two files with the same content give equal values, which
    ``config diff`` and the topics of a transaction log rely on.
    """

    WHERE: ClassVar[frozenset[str]] = frozenset(("place", "node"))

    def _compared_values(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name not in self.WHERE)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Configured)
            and type(self) is type(other)
            and self._compared_values() == other._compared_values()
        )

    def __hash__(self) -> int:
        return hash(self._compared_values())

    def __repr__(self) -> str:
        names = (name for name in self.__struct_fields__ if name not in self.WHERE)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"
