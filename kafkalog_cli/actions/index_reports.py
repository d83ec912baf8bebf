"""Reports on the sidecar files of one partition, in the order of base offset and kind; each segment is walked once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog_cli.actions.index_check import OffsetIndexCheck
from kafkalog_cli.actions.index_verdict import Entry, FileReport, Note, Verdict, fault_note
from kafkalog_cli.actions.log_questions import EpochRuns, OffsetQuestions, ProducerTrail
from kafkalog_cli.actions.log_range import LogRange, log_range
from kafkalog_cli.actions.segment_walk import SegmentWalk
from kafkalog_cli.actions.sidecar_files import (
    MAX_STATE_BYTES,
    SEGMENT_SIDECARS,
    DirectoryFiles,
    SidecarFile,
)
