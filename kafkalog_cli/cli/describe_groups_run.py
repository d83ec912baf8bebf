"""One run of `kafkalog groups`: reads the groups, prints them, and reports what was found beside them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import UsageError, combined_exit_code
from kafkalog_cli.ops.coordinators import LogDirs
from kafkalog_cli.ops.group_assignment import assign_ranges
from kafkalog_cli.ops.group_history import group_history
from kafkalog_cli.ops.groups import GroupDescription, GroupsRequest, describe_groups, offsets_retention
from kafkalog_cli.ops.session.observer import LockWarnings
from kafkalog_cli.output.groups_view import (
    ASSIGNMENT_COLUMNS,
    GROUP,
    OFFSET_CHANGE,
    RANGE_ASSIGNMENT,
    GroupsText,
    assignment_object,
    assignment_row,
    change_line,
    change_object,
    group_object,
)
from kafkalog_cli.output.human import TextTable, write_table
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.cli.describe_groups import GroupsOptions


class GroupsRun:
    """Prints the groups of some log directories."""

    def __init__(self, environment: Environment, options: GroupsOptions) -> None:
        self._environment = environment
        self._options = options
        self._as_json = options.output.is_json
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=self._as_json)

    def run(self) -> int:
        """Print the groups; return the exit code. Raises as `describe_groups` and `offsets_retention`."""
        options, fs = self._options, self._environment.fs
        if options.history and options.assign:
            raise UsageError(reason="--history and --assign exclude each other")
        retention = offsets_retention(fs, options.broker_config)
        log_dirs = LogDirs(fs, options.paths, options.metadata, self._environment.kernels)
        LockWarnings(fs, self._messages.report).about(*log_dirs.replicas.log_dirs)
        request = GroupsRequest(frozenset(options.group or ()), frozenset(options.topic or ()), retention)
        if options.history:
            return self._history(log_dirs, request)
        found = describe_groups(log_dirs, request)
        if options.assign:
            return self._assignment(log_dirs, found)
        if self._as_json:
            self._write_objects(log_dirs, found)
        else:
            text = GroupsText(self._out, members=options.members)
            for described in found:
                text.group(described)
            text.end(retention)
        return self._end(log_dirs)

    def _history(self, log_dirs: LogDirs, request: GroupsRequest) -> int:
        lines = None
        if self._as_json:
            lines = JsonLines(self._out)
        changes = back = 0
        for change in group_history(log_dirs, request):
            changes += 1
            back += change.is_back
            if lines is None:
                self._out.write(change_line(change))
            else:
                lines.object(OFFSET_CHANGE, change_object(change))
        if lines is not None:
            lines.summary(combined_exit_code(log_dirs.codes), changes=changes, back=back)
        return self._end(log_dirs)

    def _assignment(self, log_dirs: LogDirs, described: Iterable[GroupDescription]) -> int:
        topics, groups = self._options.topic, list(described)
        found = [one for group in groups for one in assign_ranges(log_dirs, group) if not topics or one.topic in topics]
        if self._as_json:
            lines = JsonLines(self._out)
            for one in found:
                lines.object(RANGE_ASSIGNMENT, assignment_object(one))
            lines.summary(combined_exit_code(log_dirs.codes), groups=len(groups), assignments=len(found))
        elif found:
            write_table(self._out, TextTable(ASSIGNMENT_COLUMNS, [assignment_row(one) for one in found]))
        return self._end(log_dirs)

    def _end(self, log_dirs: LogDirs) -> int:
        self._out.flush()
        self._messages.report(*log_dirs.notes)
        return combined_exit_code(log_dirs.codes)

    def _write_objects(self, log_dirs: LogDirs, found: Iterable[GroupDescription]) -> None:
        lines = JsonLines(self._out)
        groups = offsets = 0
        for described in found:
            groups += 1
            offsets += len(described.offsets)
            lines.object(GROUP, group_object(described))
        lines.summary(combined_exit_code(log_dirs.codes), groups=groups, offsets=offsets)
