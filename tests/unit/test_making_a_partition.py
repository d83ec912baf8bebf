"""A partition that an append makes stays away, or stays with the records of others, when the append fails."""

import pytest

import kafkalog_cli as kl
from kafkalog_cli.change.new_partition import make_partition
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.lock import LockPolicy
from kafkalog_cli.errors import BadInput, UsageError
from kafkalog_cli.ops.change.append.making import made_partition
from tests.library.test_library_append import GIVEN

pa = pytest.importorskip("pyarrow")

ID = "hUJsHtOTRCqy_JJtJJf3_A"
OTHER_ID = "kFQ3lUTFSsWWjXbfvbOpDw"
DATA = {"key": [b"k", None], "value": [b"a", b"b"]}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    return tmp_path / "logs"


def values(root):
    return [value for log in kl.open(root) for part in log.records() for value in part["value"].to_pylist()]


def test_an_append_that_fails_leaves_the_records_of_others(root):
    """The other run appends to the partition while the first, which has made it, is about to fail."""
    path = str(root / "new-0")
    with pytest.raises(BadInput), made_partition(RealFilesystem(), path, ID, 10**12, LockPolicy()):  # noqa: PT012
        kl.open_partition(path).append(pa.table({"value": [b"of another"]}), **GIVEN)
        raise BadInput(path="input", reason="bad")
    assert values(root) == [b"of another"]


def test_a_partition_without_a_record_is_as_good_as_none(root):
    """As an append leaves it that failed, and could not take it away."""
    make_partition(RealFilesystem(), str(root / "new-0"), ID, 10**12)
    with pytest.raises(UsageError, match="another topic id"):
        kl.new_partition(root / "new-0", OTHER_ID)
    log = kl.new_partition(root / "new-0", ID)
    assert log.append(pa.table(DATA), **GIVEN).records == 2
    assert values(root) == DATA["value"]
