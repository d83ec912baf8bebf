"""One run of `kafkalog ls`: lists and prints each path, reports faults on stderr, and combines the exit codes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkalog_cli.cli.environment import Environment
from kafkalog_cli.errors import ExitCode, KafkalogError, UsageError, combined_exit_code
from kafkalog_cli.ops.listing.paths import Lister, Listing
from kafkalog_cli.ops.listing.root import LocatedFault, LogDirRoot
from kafkalog_cli.ops.selection import Selection, expand, nothing_selected
from kafkalog_cli.ops.session.observer import lock_sentence
from kafkalog_cli.output.listing import ListingText
from kafkalog_cli.output.listing_json import ListingJson
from kafkalog_cli.output.messages import Messages
from kafkalog_cli.output.ndjson import JsonLines
from kafkalog_cli.output.stream import ResultStream

if TYPE_CHECKING:
    from kafkalog_cli.cli.ls_usage import UsageOptions, UsageRun


@dataclass(frozen=True, slots=True)
class LsRequest:
    """The options of one run. `segments`: a row per segment, not per partition; `transactions`: search for them.

    `usage` is set if the question is what fills the disk.
    """

    selection: Selection
    segments: bool
    transactions: bool
    json: bool
    usage: UsageOptions | None = None


@dataclass(slots=True)
class _Counts:
    partitions: int = 0
    segments: int = 0
    files: int = 0
    bytes: int = 0
    leftovers: int = 0
    open_transactions: int = 0
    faults: int = 0
    failures: int = 0


class LsRun:
    """Lists paths in order; a failure ends only its path or partition."""

    def __init__(self, environment: Environment, request: LsRequest) -> None:
        self._fs = environment.fs
        self._request = request
        self._out = ResultStream(environment.stdout)
        self._messages = Messages(environment.stderr, as_json=request.json)
        self._json = JsonLines(self._out) if request.json else None
        self._usage = self._usage_run(environment)
        self._printer: ListingText | ListingJson = (
            ListingText(self._out, segments=request.segments)
            if self._json is None
            else ListingJson(self._json, segments=request.segments)
        )
        self._lister = Lister(
            environment.fs, request.selection, segments=request.segments, transactions=request.transactions
        )
        self._selection = request.selection
        self._codes: list[ExitCode] = []
        self._counts = _Counts()
        self._warned: set[str] = set()

    def run(self, paths: list[str]) -> int:
        """List the `paths`; return the exit code."""
        if not paths:
            raise UsageError(reason="ls needs a PATH; see kafkalog ls --help")
        for path in paths:
            try:
                for found in expand(self._fs, [path]):
                    self._path(found)
            except KafkalogError as error:
                self._fail(error)
        self._printer.end()
        if self._usage is not None:
            code = self._usage.end()
            self._codes += [code] if code is ExitCode.INTERRUPTED else []
        if not self._codes:
            self._fail(nothing_selected(self._fs, paths, self._selection))
        code = combined_exit_code(self._codes)
        if self._json is not None:
            counts = {name: getattr(self._counts, name) for name in _Counts.__slots__}
            self._json.summary(code, **counts, **({} if self._usage is None else self._usage.counts))
        self._out.flush()
        return code

    @property
    def _plans(self) -> bool:
        usage = self._request.usage
        return usage is not None and usage.planning is not None

    def _usage_run(self, environment: Environment) -> UsageRun | None:
        options = self._request.usage
        if options is None:
            return None
        from kafkalog_cli.cli.ls_usage import UsageRun

        return UsageRun(environment, options, self._out, self._json, self._fail)

    def _path(self, path: str) -> None:
        try:
            listing = self._lister.list(path)
            (self._usage or self._printer).listing(listing)
        except KafkalogError as error:
            self._fail(error)
            return
        for root in listing.roots:
            self._warn_of_lock(root)
        for fault in listing.faults:
            found = fault.fault
            # Byte 0 stands also for a file that is missing, or for a directory: only JSON has it.
            position = found.position if found.position or self._json is not None else None
            self._messages.damage(found, fault.path, position, is_warning=not fault.is_corruption)
        for _, failure in listing.failures:
            self._fail(failure)
        for removed in listing.removed:
            message = "it was removed or renamed while the log directory was listed"
            self._messages.warn("removed", message, path=removed)
        self._codes += [_code(faults) for faults in listing.faults_of_targets()]
        self._codes += [ExitCode.OK] * len(listing.files)
        self._count(listing)

    def _count(self, listing: Listing) -> None:
        counts = self._counts
        counts.partitions += len(listing.partitions)
        counts.segments += sum(len(found.partition.segments) for found in listing.partitions)
        counts.files += len(listing.files)
        counts.bytes += sum(found.bytes_by_kind.total for found in listing.partitions)
        counts.bytes += sum(found.status.size_bytes for found in listing.files)
        if not listing.partitions:  # segments given as files
            counts.segments += len(listing.segments)
            counts.bytes += sum(found.segment.log.size_bytes for found in listing.segments)
        counts.leftovers += sum(len(found.partition.leftovers) for found in listing.partitions)
        counts.open_transactions += sum(len(found.open_transactions or ()) for found in listing.partitions)
        counts.faults += len(listing.faults)

    def _warn_of_lock(self, root: LogDirRoot) -> None:
        """Warn about the lock's owner: readers take no lock."""
        owner = root.lock_owner
        if self._plans and owner is not None:  # the session that plans warns of it
            return
        if root.path in self._warned or (owner is None and root.lock_problem is None):
            return
        self._warned.add(root.path)
        if owner is None:
            message = f"it is unknown whether a broker is running on it: {root.lock_problem}"
        else:
            message = lock_sentence(owner)
        self._messages.warn("locked", message, path=root.path)

    def _fail(self, error: KafkalogError) -> None:
        self._codes.append(error.exit_code)
        self._counts.failures += 1
        self._messages.exception(error)


def _code(faults: Iterable[LocatedFault]) -> ExitCode:
    severities = [fault.is_corruption for fault in faults]
    if not severities:
        return ExitCode.OK
    return ExitCode.CORRUPTION if any(severities) else ExitCode.WARNINGS
