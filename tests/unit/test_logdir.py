"""What a log directory is taken for: its partitions, and its root files in place only."""

from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.log.checkpoints import read_root_checkpoints
from kafkalog_cli.log.partition import open_logdir

FS = RealFilesystem()


def test_a_checkpoint_being_written_is_not_the_checkpoint(tmp_path):
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nt 0 7\n")
    (tmp_path / "replication-offset-checkpoint.tmp").write_text("0\n1\nt 0 9\n")
    found = read_root_checkpoints(FS, str(tmp_path))
    assert found.faults == ()
    assert found.offset(FileKind.REPLICATION_CHECKPOINT, "t", 0) == 7


def test_partitions_by_topic_and_number(tmp_path):
    for name in ("b-0", "a-10", "a-2", "remote-log-index-cache", "backup_2024"):
        (tmp_path / name).mkdir()
    (tmp_path / "a-2" / "partition.metadata").touch()
    logdir = open_logdir(FS, str(tmp_path))
    assert [p.directory.name for p in logdir.partitions] == ["a-2", "a-10", "b-0"]
