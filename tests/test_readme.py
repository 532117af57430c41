"""The README's blocks, run in order as a reader types them, after its install command in an empty directory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sowctl.config.rules.table import index_rules
from tests.support.pageexamples import make_environment, read_markdown_examples, run_examples

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 200


def _block_after(marker: str) -> str:
    (block,) = re.findall(rf"<!-- {marker} -->\n```sh\n(.*?)```", README, re.DOTALL)
    return block.strip()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The instance after all examples; each one printed what the README says.

    The packages of the install command are those of this environment: ``.ci/run`` runs the command itself.
    """
    directory = tmp_path_factory.mktemp("readme")
    environment = make_environment(directory)
    *_, last = _block_after("install command").split(" && ")
    assert last == "sowctl demo"
    subprocess.run(last.split(), cwd=directory, env=environment, check=True, capture_output=True, timeout=120)
    examples = read_markdown_examples(README)
    assert len(examples) > 15
    return run_examples(examples, directory, environment)


def test_the_examples_print_what_the_readme_says(instance: Path) -> None:
    assert (instance / "sowctl.xml").exists()


def test_the_python_example_runs(instance: Path) -> None:
    (code,) = re.findall(r"```python\n(import sowctl\n.*?)```", README, re.DOTALL)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=instance, env=environment, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert b'"orderId":30001' in done.stdout


@pytest.mark.deep
def test_the_install_command_works_in_an_empty_environment(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("sowctl", "man", "samples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    done = subprocess.run(["bash", "-c", _block_after("install command")], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert (tmp_path / "demo" / "sowctl.xml").is_file()


def test_the_test_command_installs_everything() -> None:
    command = _block_after("test command")
    assert "'.[all,test]'" in command and "pytest" in command


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= MAX_LINES
    assert len((ROOT / ".github/CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_the_number_of_rules_is_the_table_s() -> None:
    told = re.search(r"knows (\d+) rules", README)
    assert told is not None
    assert int(told[1]) == len(index_rules())


def test_links_and_pages_work_wherever_the_text_is_read() -> None:
    """The text is also that of the package's page, where no file lies beside it."""
    # A picture has words in its place where its file is not there; a link would lead to nothing.
    links = re.findall(r"(?<!!)\[[^\]]*\]\(([^)]*)\)", README)
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    for words, picture in re.findall(r"!\[([^\]]*)\]\(([^)]*)\)", README):
        assert words and (ROOT / picture).is_file()
    pages = set(re.findall(r"\b(sow[a-z-]*\([157]\))", README))
    assert len(pages) > 15
    for page in pages:
        name, section = page.rstrip(")").split("(")
        assert (ROOT / f"man/{name}.{section}").is_file(), page


def test_the_spark_example_is_a_whole_program(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")
    environment = make_environment(tmp_path)
    subprocess.run(["sowctl", "demo", "--quiet"], cwd=tmp_path, env=environment, check=True, timeout=120)
    (code,) = re.findall(r"```python\n(import sowctl\.spark\n.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path / "demo",
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # show() prints the members of the first 20 records without their names
    assert len(re.findall(r"^\|\{", done.stdout, re.MULTILINE)) == 20, done.stdout
