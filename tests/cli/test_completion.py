"""Completion scripts; the one for bash runs in a bash."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.cli.words.completion import script
from sowctl.cli.words.table import COMMANDS, PAGES, PREFIXES
from tests.cli.conftest import Cli

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


CONFIG = """<AMPSConfig><Name>t</Name><SOW>
<Topic><Name>orders</Name><MessageType>json</MessageType><Key>/id</Key><FileName>%n.sow</FileName></Topic>
<Topic><Name>/a/$(touch owned)</Name><MessageType>json</MessageType><Key>/id</Key><FileName>o.sow</FileName></Topic>
<View><Name>totals</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
<Projection><Field>/id</Field></Projection><Grouping><Field>/id</Field></Grouping></View>
<ConflatedTopic><Name>slow</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic>
</ConflatedTopic>
<Queue><Name>work</Name><MessageType>json</MessageType><UnderlyingTopic>orders</UnderlyingTopic></Queue>
</SOW><TransactionLog><JournalDirectory>j</JournalDirectory>
<Topic><Name>orders</Name><MessageType>json</MessageType></Topic></TransactionLog></AMPSConfig>"""


@pytest.mark.skipif(BASH is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("query ", {"orders", "/a/\\$\\(touch\\ owned\\)", "totals", "slow", "work", "here.sow"}),
        ("-c other.xml query ord", set()),
        ("-c sowctl.xml subscribe t", {"totals"}),
        ("--config=sowctl.xml subscribe t", {"totals"}),
        ("view show ", {"totals"}),
        ("view refresh ", {"totals"}),
        ("conflate ", {"slow"}),
        ("queue lease ", {"work"}),
        ("expire o", {"orders"}),
        ("publish w", {"work"}),
        ("check o", {"orders"}),
    ],
)
def test_bash_offers_the_names_of_the_configuration(line: str, wanted: set[str], tmp_path: Path) -> None:
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    (tmp_path / "here.sow").touch()
    (tmp_path / "script").write_text(script("bash"))
    words = " ".join(f"'{word}'" for word in ["sowctl", *line.replace("=", " = ").split(" ")])
    program = f"""
        sowctl() {{ {sys.executable} -m sowctl "$@"; }}
        source ./script
        COMP_WORDS=({words})
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
        _sowctl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert {name for name in done.stdout.splitlines() if name} == wanted
    # What a configuration says is offered, never run.
    assert not (tmp_path / "owned").exists()


def test_names_are_printed_or_a_script(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sowctl.xml").write_text(CONFIG)
    assert cli("completion", "--names", "published").out.split("\n") == ["orders", "/a/$(touch owned)", "work", ""]
    for arguments in ((), ("bash", "--names", "view")):
        assert (cli("completion", *arguments).status, "SOW-CLI-098" in cli("completion", *arguments).err) == (2, True)


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
