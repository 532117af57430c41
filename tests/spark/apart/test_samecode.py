"""What travels to executors is opened by the same code alone, told without a cluster."""

from __future__ import annotations

import pickle
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the extra 'spark' is not installed")

from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructType

import sowctl
from sowctl.errors import ConfigError
from sowctl.spark import samecode
from sowctl.spark.errors import decode_error
from sowctl.spark.submit import write_archive
from tests.spark.reading import journal, rows_of, source
from tests.support.instances import Lab, config_xml, message, topic_xml

PACKAGE = Path(sowctl.__file__).parent
SCHEMA = StructType().add("payload", BinaryType())


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    made = Lab(tmp_path, config_xml(topic_xml("a"), ("a",)))
    made.publish("a", message(id=1))
    return made


def travellers(lab: Lab) -> list[Any]:
    """Every kind of thing that goes to executors."""
    given = {"topic": "a", "queryName": "q"}
    kinds = [journal(lab, topic="a"), source(lab, topic="a"), source(lab, path=None, **given)]
    return [
        *kinds[:2],
        kinds[0].reader(SCHEMA),
        kinds[0].streamReader(SCHEMA),
        kinds[1].reader(SCHEMA),
        kinds[1].writer(SCHEMA, False),
        kinds[2].streamWriter(SCHEMA, False),
    ]


def refusal(sent: bytes) -> str:
    with pytest.raises(RuntimeError) as caught:
        pickle.loads(sent)
    error = decode_error(str(caught.value))
    assert isinstance(error, ConfigError) and error.code == "SOW-SPK-166" and "pack the environment" in str(error.hint)
    return error.message


def test_the_same_code_takes_what_travels(lab: Lab) -> None:
    for one in travellers(lab):
        back = pickle.loads(cloudpickle.dumps(one))
        assert type(back) is type(one) and vars(back).keys() == vars(one).keys()
    reader = pickle.loads(cloudpickle.dumps(travellers(lab)[2]))
    assert rows_of(reader, reader.partitions()) == [{"payload": message(id=1).encode()}]


def test_other_code_takes_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = [cloudpickle.dumps(one) for one in travellers(lab)]
    release, modules = samecode.identify_code()
    for other in ((release, "0" * 16), ("0.0.1", modules)):
        monkeypatch.setattr(samecode, "identify_code", lambda other=other: other)
        for one in sent:
            said = refusal(one)
            assert f"run sowctl {other[0]} (modules {other[1]})" in said
            assert said.endswith(f" sowctl {release} (modules {modules})")


def test_an_executor_without_this_module_or_any_is_named(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = cloudpickle.dumps(travellers(lab)[0])
    release = re.escape(sowctl.__version__)
    monkeypatch.setitem(sys.modules, "sowctl.spark.samecode", None)
    said = refusal(sent)
    assert f" older sowctl {sowctl.__version__}," in said and "(modules " in said.partition(",")[2]
    for name in [name for name in sys.modules if name.partition(".")[0] == "sowctl"]:
        monkeypatch.setitem(sys.modules, name, None)
    # Put in words by what travelled: nothing here can be imported.
    with pytest.raises(RuntimeError, match=rf"SOW-SPK-166.* no sowctl, .* sowctl {release} "):
        pickle.loads(sent)


def test_the_digest_of_an_archive_and_of_a_directory(tmp_path: Path) -> None:
    digest = samecode.digest_package(PACKAGE)
    write_archive(tmp_path / "sowctl.zip")
    assert samecode.digest_package(tmp_path / "sowctl.zip" / "sowctl") == digest
    copy = tmp_path / "other" / "sowctl"
    shutil.copytree(PACKAGE / "spark", copy / "spark")
    here = samecode.digest_package(copy)
    # what Python leaves there says nothing
    (copy / "spark" / "__pycache__").mkdir(exist_ok=True)
    (copy / "spark" / "__pycache__" / "more.py").touch()
    assert samecode.digest_package(copy) == here != digest
    (copy / "spark" / "more.py").touch()
    assert samecode.digest_package(copy) != here
