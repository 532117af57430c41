"""An error of a task comes out of Spark as what it was."""

from __future__ import annotations

import pytest

from sowctl.errors import DamageError
from sowctl.spark.errors import CarriedError, carried, translated


def test_an_error_survives_being_made_text() -> None:
    before = DamageError("SOW-JRN-001", "a }\nof two lines", place="f:1", hint="h", txid=3)
    with pytest.raises(CarriedError) as outer, carried():
        raise before
    spoken = f"Job aborted ...\nTraceback:\n  sowctl.spark.errors.CarriedError: {outer.value}\n\n at java.lang"
    with pytest.raises(DamageError) as caught, translated():
        raise RuntimeError(spoken)
    after = caught.value
    assert (after.code, after.message, after.place, after.hint, after.facts) == (
        (before.code, before.message, before.place, before.hint, before.facts)
    )


def test_what_is_not_ours_passes() -> None:
    with pytest.raises(ZeroDivisionError), translated():
        _ = 1 / 0
    with pytest.raises(RuntimeError, match="sowctl-error"), translated():
        raise RuntimeError("sowctl-error:{}")
