"""Invalid options of the chaining key generator."""

from __future__ import annotations

import pytest

from sowctl.errors import ConfigError
from tests.support.chains import PATHS, MakeLab, chained
from tests.support.instances import message


@pytest.mark.parametrize(
    "options",
    ["<Primary>/id</Primary>", "<Secondary>/id</Secondary>", PATHS + "<Colour>red</Colour>",
     PATHS + "<Validation>maybe</Validation>", "<Primary>id</Primary><Secondary>/p</Secondary>"],
)  # fmt: skip
def test_options_that_cannot_be_used(make_lab: MakeLab, options: str) -> None:
    lab = chained(make_lab, options, logged=False)
    with pytest.raises(ConfigError) as caught:
        lab.publish("c", message(id=1))
    assert (caught.value.code, caught.value.exit_status) == ("SOW-ENG-052", 4)
