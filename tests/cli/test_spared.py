"""What is kept from being loaded, and for whom."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sowctl.cli.spared import spare

LIBRARY = "typing_extensions"


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("first", "loaded"),
    [("import msgspec", "False"), ("import msgspec, typing_extensions", "True"), ("import typing_extensions", "True")],
    ids=["msgspec", "then by somebody else", "before"],
)
def test_only_msgspec_goes_without(first: str, loaded: str) -> None:
    pytest.importorskip(LIBRARY)
    asked = f"import sys; from sowctl.cli.spared import spare; spare(); {first}; print({LIBRARY!r} in sys.modules)"
    assert run(asked) == loaded


def test_msgspec_decodes_as_it_does_with_everything() -> None:
    program = (
        "import sys; from sowctl.cli.spared import spare; {}; from sowctl.messages.types import get_type;"
        "from sowctl.values.fields import Slot; from sowctl.values.paths import parse_path;"
        "slots = [Slot(parse_path(path), False, False) for path in ('/a', '/b/c', '/d')];"
        'print(get_type(\'json\').extractor(slots)([b\'{{"a": 1.5, "b": {{"c": [1, "x"]}}}}\', b\'{{"d": null}}\']))'
    )
    assert run(program.format("spare()")) == run(program.format("pass"))


def test_everything_else_is_found_as_before() -> None:
    before = list(sys.meta_path)
    try:
        spare()
        finder = sys.meta_path[0]
        assert finder not in before
        assert finder.find_spec("json", None) is None
        assert finder.find_spec(LIBRARY, None) is None, "msgspec is loaded already"
    finally:
        sys.meta_path[:] = before
