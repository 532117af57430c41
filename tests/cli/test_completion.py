"""Completion scripts; the one for bash runs in a bash."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from sowctl.cli.words.completion import script
from sowctl.cli.words.table import COMMANDS, PAGES, PREFIXES

MAN = Path(__file__).parents[2] / "man"
BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("sowctl ", {"query", "publish", "journal", "completion"}, {"list", "--help"}),
        ("sowctl qu", {"query"}, {"publish"}),
        ("sowctl --c", {"--config", "--color"}, {"query"}),
        ("sowctl -c amps.xml ge", {"get"}, {"query"}),
        ("sowctl --config amps.xml query --fo", {"--format", "--force"}, {"--filter"}),
        ("sowctl query orders --format ", {"ndjson", "table", "msgpack"}, {"orders.sow"}),
        ("sowctl query orders -F t", {"table", "tsv", "template"}, {"csv"}),
        ("sowctl journal ", {"list", "dump"}, {"query"}),
        ("sowctl journal dump --fr", {"--from"}, {"--framing"}),
        ("sowctl publish orders --on-error ", {"stop", "skip", "abort"}, set()),
        ("sowctl query --color a", {"always", "auto"}, {"never"}),
        ("sowctl completion ", {"bash", "zsh", "fish"}, {"orders.sow"}),
        ("sowctl publish orders ord", {"orders.sow", "order book.ndjson"}, {"dir"}),
        ("sowctl replay --into d", {"dir"}, {"data.ndjson"}),
        ("sowctl query ", {"orders.sow", "dir"}, {"data.ndjson", "order book.ndjson"}),
        ("sowctl publish orders --rejects da", {"data.ndjson"}, {"orders.sow"}),
        ("sowctl replay --journal d", {"dir"}, {"data.ndjson"}),
        ("sowctl man sow-s", {"sow-store"}, {"orders.sow"}),
        ("sowctl man sowctl-jo", {"sowctl-journal-dump"}, set()),
        ("sowctl functions SUB", {"SUBSTR"}, {"orders.sow"}),
        ("sowctl explain SOW-STO-02", {"SOW-STO-024"}, {"SOW-STO-030", "orders.sow"}),
        ("sowctl query orders --message-type m", {"msgpack"}, {"json"}),
        ("sowctl --config ", {"data.ndjson"}, {"query"}),
        ("sowctl query orders --filter ", set(), {"orders.sow", "--top-n"}),
    ],
)
def test_bash(line: str, wanted: set[str], unwanted: set[str], tmp_path: Path) -> None:
    for name in ("orders.sow", "order book.ndjson", "data.ndjson"):
        (tmp_path / name).touch()
    (tmp_path / "dir").mkdir()
    (tmp_path / "script").write_text(script("bash"))
    program = f"""
        source ./script
        line={line!r}
        read -ra COMP_WORDS <<< "$line"
        [[ $line == *' ' ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        COMP_LINE="$line" COMP_POINT=${{#line}}
        _sowctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    found = set(done.stdout.splitlines())
    assert done.stderr == ""
    assert wanted <= found
    assert not unwanted & found


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
def test_every_command_completes_its_options_in_bash() -> None:
    calls = "\n".join(
        f'COMP_WORDS=(sowctl {command.name} --); COMP_CWORD={len(command.words) + 1}; _sowctl; echo "${{COMPREPLY[*]}}"'
        for command in COMMANDS
    )
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", script("bash") + calls], capture_output=True, text=True, check=True
    )
    for line in done.stdout.splitlines():
        assert {"--config", "--help", "--lock-wait"} <= set(line.split())
    assert len(done.stdout.splitlines()) == len(COMMANDS)


@pytest.mark.parametrize(("shell", "checker"), [("bash", "bash"), ("zsh", "zsh"), ("fish", "fish")])
def test_the_shell_can_read_its_script(shell: str, checker: str, tmp_path: Path) -> None:
    program = shutil.which(checker)
    if program is None:
        pytest.skip(f"{checker} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([program, "-n", str(path)], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_name_every_command(shell: str) -> None:
    text = script(shell)
    for command in COMMANDS:
        for word in command.words:
            assert word in text
    assert "@" not in text.replace("${COMP_WORDS[@]}", "").replace('"$@"', "").replace("[@]", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_first_words_and_second_words_are_described(shell: str) -> None:
    text = script(shell)
    assert set(PREFIXES) == {command.words[0] for command in COMMANDS if len(command.words) == 2}
    for words in PREFIXES.values():
        assert words in text
    for command in COMMANDS:
        assert command.summary.partition("'")[0] in text


def test_the_pages_that_complete_are_those_written_by_hand() -> None:
    made = {command.page for command in COMMANDS} | {"sowctl", "sowctl-lint"}
    assert {path.stem for path in MAN.glob("*.[157]")} - made == set(PAGES)
