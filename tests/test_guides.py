"""sowctl-tutorial(7) and sowctl-howto(7): every example runs in order, and the recipes for cron and CI run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.pageexamples import make_environment, read_manual_blocks, read_manual_examples, run_examples

MAN = Path(__file__).parents[1] / "man"
HOWTO = (MAN / "sowctl-howto.7").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["sowctl-tutorial.7", "sowctl-howto.7"])
def test_the_examples_print_what_the_page_says(page: str, tmp_path: Path) -> None:
    examples = read_manual_examples((MAN / page).read_text(encoding="utf-8"))
    assert len(examples) > 30
    run_examples(examples, tmp_path, make_environment(tmp_path))


def _recipes() -> list[str]:
    """The commands of crontabs and CI files in sowctl-howto(7)."""
    blocks = [block for block in read_manual_blocks(HOWTO) if not block.startswith("$ ")]
    lines = [line for block in blocks for line in block.splitlines()]
    return [
        match[0] for line in lines if (match := re.search(r"\bsowctl (?!\.)[a-z].*", line)) and "docker" not in line
    ]


def test_the_recipes_run(tmp_path: Path) -> None:
    environment = make_environment(tmp_path) | {"SOWCTL_NOW": "2026-01-05T13:00:00Z"}
    subprocess.run(["sowctl", "demo", "--quiet"], cwd=tmp_path, env=environment, check=True, timeout=120)
    golden = "sowctl query customers -o /customerId > golden-all.ndjson"
    commands = [command.replace("/srv/backups", str(tmp_path)) for command in _recipes()]
    assert len(commands) >= 7
    for command in ("sowctl publish customers customers.ndjson --quiet", golden, *commands):
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path / "demo", env=environment, capture_output=True)
        assert done.returncode == 0, (command, done.stderr.decode())
