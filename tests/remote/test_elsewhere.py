"""An archive in an object store of somebody else's: ``SOWCTL_TEST_S3=http://host:port`` names one (MinIO, moto, ...).

Credentials are those of the environment; the bucket is made by the test, under a new name. Not part of a usual run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sowctl.engine.bulk.commit import commit_run
from sowctl.engine.bulk.remoteruns import remove_ended_runs
from sowctl.engine.bulk.staging import hold_staging_area
from sowctl.errors import MissingError
from sowctl.journal.maintenance.survey import survey_files
from sowctl.journal.maintenance.upload import ArchiveUpload
from sowctl.journal.reader import Journal
from sowctl.remote import remote_files
from sowctl.remote.place import parse_url
from tests.support.instances import message
from tests.support.journals import INSTANCE, NO_SYNC, contents, group, open_writer, publish, texts
from tests.support.staged import SKIP, make, stage

ENDPOINT = os.environ.get("SOWCTL_TEST_S3", "")


@pytest.mark.skipif(not ENDPOINT, reason="SOWCTL_TEST_S3 names no object store")
def test_an_archive_there(tmp_path: Path) -> None:
    scheme, _, host = ENDPOINT.partition("://")
    bucket = f"sowctl-{os.urandom(6).hex()}"
    options = f"?endpoint_override={host}&scheme={scheme}&region=us-east-1&allow_bucket_creation=true"
    with pytest.raises(MissingError) as caught:
        remote_files.read_file(parse_url(f"s3://{bucket}/a{options}"))
    assert caught.value.code == "SOW-RMT-003"
    root = parse_url(f"s3://{bucket}/journal{options}")
    system, path = remote_files._locate_path(root)
    system.create_dir(path.partition("/")[0])
    log = tmp_path / "log"
    with open_writer(log, NO_SYNC, journal_size=1600) as writer:
        for number in range(6):
            publish(writer, group(texts(12, tag=f"g{number}"), time=1000 + number))
    files = [file for file in survey_files(log, INSTANCE, NO_SYNC) if file.is_finished]
    list(ArchiveUpload(root, INSTANCE, NO_SYNC, 7).upload_files(files))
    assert [one.anew for one in ArchiveUpload(root, INSTANCE, NO_SYNC, 7, verify=True).upload_files(files)] == [
        False
    ] * len(files)
    with Journal.open(root, INSTANCE) as journal:
        found = [(entry.txid, entry.payload) for block in journal.iter_blocks() for entry in block.iter_entries()]
    assert found == contents(log)[: len(found)] and len(found) == 12 * len(files)
    remote_files.delete_file(root / files[2].path.name)
    assert [one.anew for one in ArchiveUpload(root, INSTANCE, NO_SYNC, 7, verify=True).upload_files(files)].count(
        True
    ) == 1
    big = os.urandom(11 << 20)
    remote_files.write_file(root / "big", [big[:5_000_000], big[5_000_000:]])
    assert remote_files.read_file(root / "big") == big
    remote_files.delete_directory(root)
    assert remote_files.list_files(root, below=True) == []


@pytest.mark.skipif(not ENDPOINT, reason="SOWCTL_TEST_S3 names no object store")
def test_staging_there(tmp_path: Path) -> None:
    scheme, _, host = ENDPOINT.partition("://")
    bucket = f"sowctl-{os.urandom(6).hex()}"
    options = f"?endpoint_override={host}&scheme={scheme}&region=us-east-1&allow_bucket_creation=true"
    root = parse_url(f"s3://{bucket}/stage{options}")
    system, path = remote_files._locate_path(root)
    system.create_dir(path.partition("/")[0])
    lab = make(tmp_path)
    instance = lab.open()
    with hold_staging_area(instance, instance.topic("log").config, directory=root) as area:
        plan = area.build_plan(SKIP, keep_rejects=True)
        done = [stage(plan, f"t{n}", n, [message(id=k, n=n) for k in range(500)] + ["no"]) for n in range(3)]
        assert remove_ended_runs(root) == []
        report = commit_run(area, plan, done)
    assert (report.published, report.rejected) == (1500, 3) and len(lab.query("log")) == 500
    assert [one for one in remote_files.list_files(root, below=True) if one.size] == []
    # what nobody asks for is removed when it is old, as the store tells its age
    remote_files.write_file(root / "run-old" / "owner", [b"{}"])
    assert remove_ended_runs(root) == [] and remote_files.list_directories(root) == [root / "run-old"]
    remote_files.delete_directory(root)
