"""Whose log directory it is: meta.properties and the metadata log against the cluster's state and other directories.

A node in KRaft mode reads them first (KafkaRaftServer.initializeLogDirs, MetaPropertiesEnsemble.verify).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkalog_cli.disk.fs import Filesystem
from kafkalog_cli.disk.names import (
    METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    classify_directory,
    partition_directory_name,
)
from kafkalog_cli.errors import shell_word
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.log_dir import metadata_log_in
from kafkalog_cli.log.partition import open_partition
from kafkalog_cli.log.settings.source import SettingsSource
from kafkalog_cli.ops.check.checks.diagnose import Finding, finding
from kafkalog_cli.ops.check.checks.finding_kinds import NEVER_LED, SET_ALL_ASIDE, VOTES_ALONE, FindingKind, StartAction
from kafkalog_cli.ops.look.listing.root import LogDirRoot
from kafkalog_cli.ops.steps import MOVE_ASIDE, Argv, Step, Steps, Word, path_word, together

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata

_NO_LEADER = "its partitions have no leader, since the cluster assigns them to another directory id"
_OTHER_VOTER = (
    "the node waits for a leader for ever, since the voter of the quorum is the node with the other directory id"
)
_ENDS = "a node does not start with it"
_ENDS_IF_IN_LOG_DIRS = "a node does not start with both in log.dirs"


class _Identity(NamedTuple):
    """The ids that meta.properties should have; None if neither the directory nor the metadata log shows one."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def identity_findings(fs: Filesystem, root: LogDirRoot, settings: SettingsSource) -> Iterator[Finding]:
    """Yield the findings about ids in meta.properties that are missing, or that are another node's or directory's.

    Also the finding about a metadata log that is missing or empty. Raises as `SettingsSource.metadata`.
    """
    is_kraft = settings.is_kraft(root.path)
    if is_kraft:
        yield from _metadata_log(fs, root, settings)
    meta, path = root.meta, _meta_path(root)
    if meta is None or any(one.path == path and not one.fault.is_accepted for one in root.faults):
        return  # the faults of the file itself come first
    steps = restore_steps(fs, root, settings)
    if meta.node_id is None:
        message = "node ID not found: the file has no broker.id, and no version=1 with node.id"
        yield finding(FindingKind.META_PROPERTIES, path, message, steps=steps)
    elif is_kraft and meta.cluster_id is None:
        message = "cluster.id was not found. With ZooKeeper a broker needs none, in KRaft mode it does"
        yield finding(FindingKind.META_PROPERTIES, path, message, steps=steps)
    metadata = settings.metadata(root.path)
    if is_kraft and meta.node_id is not None and metadata is not None and metadata.is_complete:
        yield from _against_cluster(fs, root, settings, meta, metadata, steps)


def _against_cluster(  # noqa: PLR0913, PLR0917
    fs: Filesystem,
    root: LogDirRoot,
    settings: SettingsSource,
    meta: MetaProperties,
    metadata: ClusterMetadata,
    steps: Steps,
) -> Iterator[Finding]:
    """Yield the findings about ids that are not those with which the cluster knows the node and the directory."""
    path = _meta_path(root)
    owner = metadata.node_of_directory(meta.directory_id)
    expected = _expected(fs, root, settings, metadata)
    if owner is not None and owner != meta.node_id:
        message = f"node.id is {meta.node_id}, and directory.id {meta.directory_id} is that of node {owner}"
        kind, right, got = FindingKind.META_PROPERTIES_DIFFER, str(owner), str(meta.node_id)
        yield finding(kind, path, message, expected=right, got=got, steps=steps, broker_effect=_ENDS)
    elif expected.directory_id not in (None, meta.directory_id):
        is_voter = _is_voter(fs, root, metadata, meta.node_id)
        kind = FindingKind.META_PROPERTIES_DIFFER if is_voter else FindingKind.DIRECTORY_ID
        effect = _OTHER_VOTER if is_voter else f"a node starts with it, and {_NO_LEADER}"
        if meta.directory_id is None:
            then = _OTHER_VOTER if is_voter else _NO_LEADER
            effect = f"a node that starts writes a new id, and then {then}"
            message = f"directory.id is missing: that of this directory is {expected.directory_id}"
        elif owner is None:
            message = f"directory.id {meta.directory_id} is of no node of the cluster: expected {expected.directory_id}"
        else:
            effect = "a node does not start if another of its directories has the id too"
            message = f"directory.id is that of another directory of the node: expected {expected.directory_id}"
        right, got = str(expected.directory_id), meta.directory_id or "none"
        yield finding(kind, path, message, expected=right, got=got, steps=steps, broker_effect=effect)


def _meta_path(root: LogDirRoot) -> str:
    return f"{root.path.rstrip('/')}/{FileKind.META_PROPERTIES.value}"


def _is_voter(fs: Filesystem, root: LogDirRoot, metadata: ClusterMetadata, node_id: int | None) -> bool:
    """Whether the quorum knows a voter by the directory id of this directory (KIP-853)."""
    return node_id in metadata.voter_directories and metadata_log_in(fs, root.path) is not None


def of_several_clusters(
    fs: Filesystem, roots: Iterable[LogDirRoot], settings: SettingsSource
) -> Iterator[tuple[str, Finding]]:
    """Yield the findings about directories with one node id and several cluster ids, each with the directory's path.

    The directories of two nodes may be given together: each has its own metadata log, which does not know the other
    directory. Raises as `SettingsSource.metadata`.
    """
    first_of: dict[int, LogDirRoot] = {}
    for root in roots:
        if root.meta is None or root.meta.node_id is None or root.meta.cluster_id is None:
            continue
        first = first_of.setdefault(root.meta.node_id, root)
        assert first.meta is not None
        if first.meta.cluster_id == root.meta.cluster_id:
            continue
        logs = [metadata_log_in(fs, one.path) for one in (first, root)]
        known = [_directories(settings, one) for one in (first, root)]
        ids = first.meta.directory_id, root.meta.directory_id
        is_one_node = any({*ids} <= directories for directories in known)
        if is_one_node or None in logs or settings.are_of_one_broker(first.path, root.path):
            # the metadata log knows its own directory, and a directory without one may be of any cluster
            is_first = logs[0] is None and logs[1] is not None
            pair = (first, root) if is_first else (root, first)
            yield pair[0].path, _of_other_cluster(fs, *pair, settings, is_one_node=is_one_node)


def _directories(settings: SettingsSource, root: LogDirRoot) -> frozenset[str]:
    metadata = settings.metadata(root.path)
    return frozenset() if metadata is None or root.meta is None else metadata.directories_of(root.meta.node_id)


def _of_other_cluster(
    fs: Filesystem, root: LogDirRoot, other: LogDirRoot, settings: SettingsSource, *, is_one_node: bool
) -> Finding:
    """Return the finding about `root`; `is_one_node`: the metadata log has the directory ids of both."""
    assert root.meta is not None
    assert other.meta is not None
    path, ours, theirs = _meta_path(root), str(root.meta.cluster_id), str(other.meta.cluster_id)
    message = f"cluster.id {ours}, and {theirs} in {other.path}, with node.id {root.meta.node_id} in both"
    steps: Steps
    if is_one_node:
        first = Step("first see that the other nodes of the cluster have the same cluster.id as " + other.path)
        steps = (first, *restore_steps(fs, root, settings, cluster_id=theirs))
    else:
        dumps: list[Argv] = [("kafkalog", "dump-index", path_word(_meta_path(one))) for one in (root, other)]
        steps = (
            together(dumps, "print the ids of both: the directories are of two clusters"),
            Step(
                "Leave the directory of the other cluster out of log.dirs, and do not change its cluster.id: the node"
                " would take its partitions for those of its own cluster"
            ),
        )
    kind, effect = FindingKind.META_PROPERTIES_DIFFER, _ENDS_IF_IN_LOG_DIRS
    return finding(kind, path, message, expected=theirs, got=ours, steps=steps, broker_effect=effect)


def restore_steps(
    fs: Filesystem, root: LogDirRoot, settings: SettingsSource, *, cluster_id: str | None = None
) -> Steps:
    """Return the steps that write meta.properties with the ids that it should have.

    None where the metadata log does not show node.id and directory.id. `cluster_id` is known to be right. Raises as
    `SettingsSource.metadata`.
    """
    metadata = settings.metadata(root.path)
    if metadata is None or not metadata.is_complete:
        return ()
    ids = _expected(fs, root, settings, metadata)
    if ids.node_id is None or ids.directory_id is None:
        return ()
    why, cluster_id = "", cluster_id or ids.cluster_id
    own_cluster_id = None if root.meta is None else root.meta.cluster_id
    if cluster_id is None:
        why, cluster_id = ". Put in the cluster.id that meta.properties of any other node has", "CLUSTER_ID"
        if {*metadata.brokers, *metadata.voters} <= {ids.node_id}:
            why, cluster_id = ", and with a new cluster.id, which will do as the cluster has one node", ids.directory_id
    elif cluster_id != own_cluster_id:
        why = ", and with the cluster.id of the node's other directories"
    path = _meta_path(root)
    lines = f"version=1 node.id={ids.node_id} cluster.id={cluster_id} directory.id={ids.directory_id}"
    script = f'set -C; printf "%s\\n" {lines} > {shell_word(path)}'
    writes = f"writes it with the ids of the metadata log{why}"
    if fs.status(path) is None:
        return (Step("", ("sh", "-c", script), writes),)
    return (Step("", MOVE_ASIDE, "keeps the file", ". Then "), Step("", ("sh", "-c", script), writes))


def _expected(fs: Filesystem, root: LogDirRoot, settings: SettingsSource, metadata: ClusterMetadata) -> _Identity:
    """Return the ids that this directory should have.

    The directory id is one that its node registered. Where the node has several, it is the one that the cluster assigns
    the partitions of this directory to.
    """
    meta = root.meta
    own_id = None if meta is None else meta.directory_id
    others = [one for path in settings.log_dirs if path != root.path and (one := settings.meta(path)) is not None]
    node_id = metadata.node_of_directory(own_id)
    if node_id is None and meta is not None and metadata.directories_of(meta.node_id):
        node_id = meta.node_id
    if node_id is None:
        known = {*metadata.brokers, *metadata.voters}
        node_id = next(iter(known)) if len(known) == 1 else None
    cluster_id = None if meta is None else meta.cluster_id
    if cluster_id is None:
        clusters = {one.cluster_id for one in others if one.node_id == node_id and one.directory_id != own_id}
        cluster_id = next(iter(clusters)) if len(clusters) == 1 else None
    taken = {one.directory_id for one in others}
    return _Identity(cluster_id, node_id, _directory_id(fs, root, metadata, node_id, own_id, taken))


def _directory_id(  # noqa: PLR0913, PLR0917
    fs: Filesystem,
    root: LogDirRoot,
    metadata: ClusterMetadata,
    node_id: int | None,
    own_id: str | None,
    taken: set[str | None],
) -> str | None:
    if node_id is not None and _is_voter(fs, root, metadata, node_id):
        return metadata.voter_directories[node_id]
    assigned = Counter[str]()
    for topic, number in _partitions(fs, root.path):
        state = metadata.partition(topic, number)
        if state is not None and node_id in state.replicas and state.directories:
            assigned[state.directories[state.replicas.index(node_id)]] += 1
    registered = metadata.directories_of(node_id)
    if own_id in registered and (own_id in assigned or not registered & {*assigned}):
        return own_id
    free = [one for one, _ in assigned.most_common() if one in registered - taken]
    return free[0] if free else None


def _partitions(fs: Filesystem, path: str) -> Iterator[tuple[str, int]]:
    for entry in fs.list_directory(path):
        found = classify_directory(entry.name)
        if entry.is_directory and found.kind is DirectoryKind.PARTITION and not found.is_metadata_log:
            yield found.shown_topic, found.shown_partition


def _metadata_log(fs: Filesystem, root: LogDirRoot, settings: SettingsSource) -> Iterator[Finding]:
    """Yield a finding for a metadata log that is missing or empty, where no other directory is known to have it."""
    path = f"{root.path.rstrip('/')}/{partition_directory_name(METADATA_TOPIC, 0)}"
    own, status = metadata_log_in(fs, root.path), fs.status(path)
    if own is None and status is not None:
        effect = "a node does not start: it cannot make the directory of its metadata log (FileAlreadyExistsException)"
        message = "a file in the place of the metadata log"
        steps = (
            Step("restore the directory from a backup, before the node starts"),
            Step("With the file only moved away, a node fetches the log from the other controllers"),
            Step(f"If it is the only one, it has nothing to start from: {SET_ALL_ASIDE}"),
        )
        kind, ends = FindingKind.METADATA_LOG_LOST, (StartAction.DOES_NOT_START,)
        yield finding(kind, path, message, broker_effect=effect, steps=steps, at_start=ends)
        return
    if own is not None and _is_empty(fs, own):
        message = "the metadata log is empty"
    elif lacks_metadata_log(fs, root, settings) and settings.is_metadata_directory(root.path):
        message = "missing"
    else:
        return
    is_dynamic, metadata = settings.has_dynamic_quorum(root.path), settings.metadata(root.path)
    effect = "" if is_dynamic is None else NEVER_LED if is_dynamic else SET_ALL_ASIDE
    waits, begins_anew = is_dynamic is not False, not is_dynamic
    if is_dynamic and metadata is not None and metadata.voter_directories:
        effect, waits, begins_anew = VOTES_ALONE, False, True
    at_start = (StartAction.DOES_NOT_START,) * waits + (StartAction.SETS_ASIDE,) * begins_anew
    yield finding(FindingKind.METADATA_LOG_LOST, path, message, broker_effect=effect, at_start=at_start)


def _is_empty(fs: Filesystem, path: str) -> bool:
    partition = open_partition(fs, path)
    has_records = any(segment.log.size_bytes or segment.base_offset for segment in partition.segments)
    return not has_records and not any(one.name.offset for one in partition.metadata_snapshots)


def lacks_metadata_log(fs: Filesystem, root: LogDirRoot, settings: SettingsSource) -> bool:
    """Whether a node was formatted for the directory and has partitions in it, and no metadata log of it is known.

    The log may be in another directory of the node: server.properties says so. Raises as `SettingsSource.metadata`.
    """
    path = f"{root.path.rstrip('/')}/{partition_directory_name(METADATA_TOPIC, 0)}"
    if fs.status(path) is not None or settings.metadata(root.path) is not None:
        return False
    is_formatted = any(file.name == FileKind.BOOTSTRAP_SNAPSHOT.value for file in root.files)
    return is_formatted and any(_partitions(fs, root.path))


def second_metadata_log(fs: Filesystem, root: LogDirRoot, first: dict[object, str]) -> Iterator[Finding]:
    """Yield a finding if a node has a metadata log in `root` and in an earlier directory; `first` has those by node."""
    own = None if root.meta is None else metadata_log_in(fs, root.path)
    if root.meta is None or own is None:
        return
    other = first.setdefault((root.meta.cluster_id, root.meta.node_id), own)
    if other != own:
        steps = (
            together(
                [("kafkalog", "cluster", path_word(log)) for log in (other, own)],
                "show the state of both: keep the log in metadata.log.dir (if not set, the first of log.dirs)",
            ),
            Step("", ("mv", "-nT", Word.FILE, Word.FILE_AWAY), "moves the log of this directory away"),
        )
        message = f"the metadata log of node {root.meta.node_id} also lies in {other}"
        effect = "a node does not start with a metadata log outside metadata.log.dir"
        yield finding(FindingKind.TWIN_DIRECTORIES, own, message, broker_effect=effect, steps=steps)
