"""The door to Kafka's mechanisms as kafkalog has them: for tests that compare them with Kafka's own classes. See product.py."""

# ruff: noqa: F401, I001 names for other files, in the order of their purposes

from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from kafkalog_cli.broker.cleaning.log import Damaged
from kafkalog_cli.broker.load_error import LoadFailed
from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.broker.log_loader import LogLoader
from kafkalog_cli.log.log_dir import StartState
from kafkalog_cli.broker.open_log import OpenLog, truncate_to
from kafkalog_cli.change.changes import in_log_order
from kafkalog_cli.change.checkpoint_lines import change_lines
from kafkalog_cli.change.draft import Draft
from kafkalog_cli.change.manifest import RunInfo
from kafkalog_cli.disk.lock import LockPolicy, lock_partition
from kafkalog_cli.disk.fs import RealFilesystem
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import OffsetOutOfRange
from kafkalog_cli.format.batch import Batch
from kafkalog_cli.format.batch_encoder import encode_end_marker
from kafkalog_cli.format.records import Header
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.ops.change.append.append import apply_append, next_sequence, plan_append
from kafkalog_cli.ops.change.append.batching import BatchMaker, Writing, blocks
from kafkalog_cli.ops.change.append.records import NewRecord, RecordMaker
from kafkalog_cli.ops.change.apply_changes import MarkerUse, apply_changes
from kafkalog_cli.ops.change.compact.cleaning import Cleaning
from kafkalog_cli.ops.change.compact.plan import plan_compact
from kafkalog_cli.ops.change.compact.verb import apply_compact
from kafkalog_cli.ops.change.delete_records import plan_delete_records
from kafkalog_cli.ops.change.retain.retain import apply_retain, plan_retain
from kafkalog_cli.ops.change.roll import plan_roll
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.change.truncate import TruncatePlan, plan_truncate
from tests.support.plain_changes import make

# Rules, tables and formats that are compared with Kafka's own one by one.
from kafkalog_cli.log.log_dir import LineEdit
from kafkalog_cli.disk.names import DirectoryKind, classify_directory
from kafkalog_cli.format.checkpoint import (
    BrokerReading,
    broker_reading,
    decode_leader_epochs,
    decode_offsets,
    encode_offsets,
)
from kafkalog_cli.format.compression import Codec, compress, decompress
from kafkalog_cli.format.internal_topics.records import API_MESSAGE_TOPICS, COORDINATOR_TOPICS
from kafkalog_cli.format.internal_topics.schema import is_in, message_schema
from kafkalog_cli.format.kafka_version import NEWEST, KafkaVersion
from kafkalog_cli.format.java_text import parse_properties, uuid_text
from kafkalog_cli.format.limits import Limits
from kafkalog_cli.format.protocol.messages import PRODUCE, apis_for_old_clients
from kafkalog_cli.format.varint import encode_unsigned
from kafkalog_cli.log.log_end import segment_end
from kafkalog_cli.log.settings.cluster_metadata import read_cluster_metadata
from kafkalog_cli.log.settings.topic_config import Origin, read_broker_properties, resolve
from kafkalog_cli.log.settings.topic_config_table import BROKER_KEYS, TOPIC_KEYS, NumberRange, config_text, parse_config
from kafkalog_cli.ops.change.append.partitioning import murmur2, partition_of_key
from kafkalog_cli.ops.check.doctor.broker_pages import JAVA, OPERATING_SYSTEM, messages
from kafkalog_cli.log.log_dir import LogDirs
from kafkalog_cli.ops.option_values import Clock
from kafkalog_cli.ops.change.plans import load_settings
from kafkalog_cli.ops.look.lookup_time import lookup_time

FS = RealFilesystem()


class NotLoaded(Exception):
    """A broker would not start: the name of the exception in Java, and why."""


def load(directory, now_ms, start):
    """Load a log as LogLoader does. Returns the files afterwards by name, and four offsets: start, end, recovery point, first unstable."""
    settings = LoadSettings(
        now_ms,
        start.segment_index_bytes,
        start.index_interval_bytes,
        start.producer_id_expiration_ms,
        is_tiered=start.is_tiered,
        is_version_a_byte=start.is_version_a_byte,
    )
    draft = Draft(FS, str(directory))
    try:
        loaded = LogLoader(draft, StartState(start.is_clean, start.recovery_point, start.log_start), settings).load()
    except LoadFailed as failure:
        raise NotLoaded(failure.java_class, failure.reason) from failure
    files = {name: draft.read(name) for name in draft.names()}
    make(directory, draft.changes())
    return files, (loaded.log_start_offset, loaded.log_end_offset, loaded.recovery_point, loaded.first_unstable_offset)


class OnePartition:
    """The partition `directory` of the log directory `root`, under settings of its topic and of the broker."""

    def __init__(self, root, directory, settings, broker, now_ms):
        self.now_ms = now_ms
        log_dirs = LogDirs(FS)
        log_dirs.settings = SettingsSource(FS, {name: str(value) for name, value in settings.items()}, broker)
        self.partition = open_partition(FS, str(directory), log_dirs)

    def _run(self, verb):
        return RunInfo("run-1", verb, (), self.now_ms)

    def _locked(self, apply, *how):
        with lock_partition(FS, self.partition.path, LockPolicy()):
            return apply(FS, *how)

    def retain(self, *, explains):
        """Each verb returns its plan, whether a segment was rolled, and what was done."""
        plan = plan_retain(FS, self.partition, Clock(self.now_ms, is_given=True), explains=explains)
        return plan, None, self._locked(apply_retain, plan, self._run("retain"))

    def roll(self, *, force, arriving_bytes):
        plan = plan_roll(FS, self.partition, self.now_ms, force=force, arriving_bytes=arriving_bytes)
        settings = load_settings(self.partition, self.now_ms)
        done = self._locked(apply_changes, plan, self._run("roll"), MarkerUse.GIVEN_BACK, settings)
        return plan, force or plan.cause is not None or done is not None, done

    def truncate(self, offset, log_start, log_end):
        if not log_start <= offset <= log_end:
            with suppress(OffsetOutOfRange):
                plan_truncate(FS, self.partition, self.now_ms, offset)
                raise AssertionError("it is outside the log")
            return self._truncate_outside(offset, log_end, load_settings(self.partition, self.now_ms)), None, None
        plan = plan_truncate(FS, self.partition, self.now_ms, offset)
        marker = MarkerUse.DROPPED if plan.drops_records else MarkerUse.LEFT
        return plan, None, self._locked(apply_changes, plan, self._run("truncate"), marker)

    def _truncate_outside(self, offset, log_end, settings):
        """The command refuses an offset outside the log; a follower's broker does not."""
        path, state = self.partition.path, self.partition
        draft = Draft(FS, path)
        truncated = truncate_to(OpenLog(draft, settings, state.log_start, log_end, is_clean=True), offset)
        edits = (
            *state.lower(FileKind.RECOVERY_POINT_CHECKPOINT, truncated.log_end_offset),
            *(state.edit(FileKind.LOG_START_CHECKPOINT, None) if truncated.removed else ()),
        )
        change_lines(FS, state.log_dir, edits)
        make(Path(path), in_log_order(draft.changes()))
        return TruncatePlan(
            path, "t", 0, log_start_offset=truncated.log_start_offset, log_end_offset=truncated.log_end_offset
        )

    def delete_records(self, offset):
        plan = plan_delete_records(FS, self.partition, offset)
        return plan, None, self._locked(apply_changes, plan, self._run("delete-records"), MarkerUse.LEFT)

    def compact(self, *, force, version):
        """(plan, what was done); the text of a batch that cannot be cleaned as ValueError."""
        clean = partial(Cleaning, now_ms=self.now_ms, version=version)
        try:
            plan = plan_compact(FS, self.partition, Clock(self.now_ms, is_given=True), is_forced=force)
            done = None
            if not plan.is_refused:
                plan, done = self._locked(apply_compact, plan, self._run("compact"), clean)
        except Damaged as error:
            raise ValueError(str(error)) from error
        return plan, done

    def append(self, writing):
        """The plan of an append; `writing` has the fields of Writing."""
        return PlannedAppend(self.partition, plan_append(FS, self.partition, self.now_ms, Writing(**writing)))


class PlannedAppend:
    """An append of (key, value, headers, time) to one partition."""

    def __init__(self, partition, plan):
        self._partition, self.plan = partition, plan

    def sent(self, records, log_end):
        """The batches as a producer would send them, and the marker as the coordinator would."""
        plan, partition = self.plan, self._partition
        settings = load_settings(partition, plan.now_ms)
        log = OpenLog(Draft(FS, plan.path), settings, partition.log_start, log_end, is_clean=True)
        sequence = next_sequence(log.producers_at_end(log.draft.fork()).state, plan.writing)
        style = replace(plan.style, append_time_ms=None)
        maker, data = BatchMaker(style, sequence), b""
        for block in blocks(_new(records, plan.now_ms), style):
            data += b"".join(_as_sent(maker, block))
        if plan.writing.transaction in ("commit", "abort"):
            header = Batch(0, 0, 0, 0, 0, 2, 0, 0, -1, -1, style.producer_id, style.producer_epoch, -1, 0, 1)
            data += encode_end_marker(int(plan.writing.transaction == "commit"), 0, plan.now_ms, header)[1]
        return data

    def apply(self, records):
        run = RunInfo("run-1", "append", (), self.plan.now_ms)
        with lock_partition(FS, self.plan.path, LockPolicy()):
            return apply_append(FS, self.plan, _new(records, self.plan.now_ms), run)


def _new(records, now_ms):
    found = [NewRecord(key, value, [Header(*one) for one in headers], at) for key, value, headers, at in records]
    made = RecordMaker(sum(100 + len(repr(record)) for record in found), now_ms)
    for record in found:
        made.add(record)
    return made.records()


def _as_sent(maker, block):
    """A producer's batches begin at offset 0."""
    made = maker.encode(block, 0)
    for batch in made.batches.rows():
        whole = bytearray(made.data[batch.position : batch.position + batch.size_bytes])
        whole[:8] = bytes(8)
        whole[12:16] = b"\xff" * 4
        yield bytes(whole)


def is_marker_away(done):
    """Whether a change took the clean-shutdown file of its log directory away for good."""
    return done is not None and done.is_marker_away
