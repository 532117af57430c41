"""An error of a task comes out of Spark as what it was, in few lines."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sowctl.errors import DamageError, MissingError, SowError, UsageError
from sowctl.spark.errors import CarriedError, carry_errors, decode_error, encode_error, translate_errors
from tests.support.instances import message

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.instances import Lab


def test_an_error_survives_being_made_text() -> None:
    before = DamageError("SOW-JRN-001", "a }\nof two lines", place="f:1", hint="h", txid=3)
    with pytest.raises(CarriedError) as outer, carry_errors():
        raise before
    spoken = f"Job aborted ...\nTraceback:\n  sowctl.spark.errors.CarriedError: {outer.value}\n\n at java.lang"
    with pytest.raises(DamageError) as caught, translate_errors():
        raise RuntimeError(spoken)
    after = caught.value
    assert (after.code, after.message, after.place, after.hint, after.facts) == (
        (before.code, before.message, before.place, before.hint, before.facts)
    )


@pytest.mark.parametrize(
    "text", ['"quoted" \\"', "\\n is no line break\n", "tab\t, ü, \ud800, \\ud800", "", "  hint: x"]
)
def test_every_text_survives(text: str) -> None:
    found = decode_error(
        "before " + encode_error(SowError("SOW-X-001", text, place=text, hint=text, excerpt=text)) + "\n\tat a.b"
    )
    assert found is not None and type(found) is SowError
    assert (found.message, found.place, found.hint, found.excerpt) == (text, text, text, text)
    encode_error(SowError("SOW-X-001", text)).encode()


def test_what_is_not_ours_passes() -> None:
    with pytest.raises(ZeroDivisionError), translate_errors():
        _ = 1 / 0
    with pytest.raises(RuntimeError, match="SOW-X-001"), translate_errors():
        raise RuntimeError("SOW-X-001: a line of a log\n  status: unknown")


def test_spark_prints_the_sentence_once_and_no_trace(
    lab: Lab, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """In the plan, and in a task."""

    def misspelt() -> None:
        spark.read.format("sow").options(config=str(lab.config), topic="orders", filtre="/id = 1").load()

    def refused() -> None:
        options = {"config": str(lab.config), "topic": "orders"}
        spark.sql("SELECT 'x' AS other").write.format("sow").options(**options).mode("append").save()

    for action, words in (
        (misspelt, "'filtre'"),
        (refused, "key field /id "),
    ):
        with pytest.raises(Exception) as caught:
            action()
        text = str(caught.value)
        ours = text[text.index("sowctl.spark.errors") : text.index("  status: ")]
        assert ours.count(words) == text[: text.index("  status: ")].count(words) == 1, text
        assert "Traceback" not in ours and 'File "' not in ours and ours.count("\n") <= 5
        with pytest.raises(SowError) as plain, translate_errors():
            action()
        shown = "".join(traceback.format_exception(plain.value))
        assert "direct cause" not in shown and "During handling" not in shown
        assert shown.rstrip().endswith(f"hint: {plain.value.hint}")
        assert shown.count(words) == 1
        assert not isinstance(plain.value, UsageError) or plain.value.hint == "did you mean filter?"
    # pyspark would log each error of SQL and of a frame, as JSON with its trace.
    for wrong in (lambda: spark.sql("SELECT nothing FROM range(1)"), lambda: spark.range(1).select("nothing")):
        with pytest.raises(Exception, match="UNRESOLVED_COLUMN"):
            wrong()
    assert capfd.readouterr().err == ""


def test_a_stream_that_cannot_begin_says_why(lab: Lab, spark: SparkSession, tmp_path: Path) -> None:
    lab.publish("orders", message(id=1))
    stream = spark.readStream.format("sow-journal").options(config=str(lab.config), topic="ordres").load()
    with pytest.raises(MissingError) as caught, translate_errors():
        to = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "at"))
        to.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert caught.value.code == "SOW-ENG-012" and "did you mean orders" in str(caught.value.hint)
