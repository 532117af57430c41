"""info: what it says of a topic's configuration (``sow-config(5)``, intervals)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.instances import Lab, config_xml, topic_xml


@pytest.mark.parametrize(
    ("parts", "expiration", "history"),
    [
        ((), "disabled", None),
        (("<Expiration>45s</Expiration>",), "45s", None),
        (("<Expiration>600s</Expiration>",), "10m", None),
        (("<Expiration>enabled</Expiration>",), "enabled", None),
        (
            ("<History><Window>3650d</Window><Granularity>1500ms</Granularity></History>",),
            "disabled",
            "window 3650d, granularity 1500ms",
        ),
    ],
)
def test_intervals_are_written_as_a_configuration_writes_them(
    tmp_path: Path, parts: tuple[str, ...], expiration: str, history: str | None
) -> None:
    info = Lab(tmp_path, config_xml(topic_xml("t", *parts), ("t",))).open().topic("t").info()
    assert (info.expiration, info.history) == (expiration, history)
