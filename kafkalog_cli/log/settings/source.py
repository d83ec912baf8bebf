"""The settings of a topic in a log directory, from the command line, server.properties and the metadata log."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import TYPE_CHECKING

from kafkalog_cli.disk.directory_contents import has_root_file
from kafkalog_cli.disk.fs import Filesystem, read_all
from kafkalog_cli.disk.names import FileKind
from kafkalog_cli.errors import KafkalogError, PathNotFound, UsageError
from kafkalog_cli.format import meta_properties
from kafkalog_cli.format.json_files import decode_quorum_state
from kafkalog_cli.format.meta_properties import MetaProperties
from kafkalog_cli.log.log_dir import metadata_log_in
from kafkalog_cli.log.settings.topic_config import Origin, Settings, UnreadSource, resolve

if TYPE_CHECKING:
    from kafkalog_cli.log.settings.cluster_metadata import ClusterMetadata

_Unread = tuple[UnreadSource, ...]
BROKER_CONFIG, METADATA = "--broker-config FILE", "--metadata DIR"


class SettingsSource:
    """Settings by topic and log directory (None: the partition is in no log directory). Each is resolved once.

    `command_line` and `broker_properties` (None: no server.properties was given) map names to texts. `metadata_path` is
    the value of `--metadata`. `log_dirs` are all log directories of the run: a broker with several keeps its metadata
    log in one of them. Threads share this object.
    """

    def __init__(
        self,
        fs: Filesystem,
        command_line: Mapping[str, str],
        broker_properties: Mapping[str, str] | None,
        *,
        metadata_path: str | None = None,
        log_dirs: Sequence[str] = (),
    ) -> None:
        self._fs = fs
        self._command_line = command_line
        self._has_broker_properties = broker_properties is not None
        self._broker_properties = broker_properties or {}
        self.metadata_option = metadata_path
        """The value of `--metadata`, None without it."""
        self.log_dirs = log_dirs
        self._working = RLock()
        self._meta: dict[str, MetaProperties | None] = {}
        self._metadata: dict[str, ClusterMetadata] = {}
        self._metadata_logs: dict[str | None, str | None] = {}
        self._kraft: dict[str | None, bool] = {}
        self._topics: dict[tuple[str | None, str, bool], Settings] = {}

    def meta(self, log_dir: str | None) -> MetaProperties | None:
        """Return the `meta.properties` of a log directory, None if the file is missing or unreadable."""
        if log_dir is None:
            return None
        with self._working:
            if log_dir not in self._meta:
                self._meta[log_dir] = read_meta(self._fs, log_dir)
            return self._meta[log_dir]

    def broker_id(self, log_dir: str | None) -> int | None:
        """Return the id of the broker that owns a log directory, None if it is not known.

        The cluster knows the owner by the directory id; `meta.properties` may have the node id of another node. Raises
        as `metadata` does.
        """
        meta = self.meta(log_dir)
        metadata = None if meta is None else self.metadata(log_dir)
        owner = None if meta is None or metadata is None else metadata.node_of_directory(meta.directory_id)
        return meta.node_id if owner is None and meta is not None else owner

    def metadata(self, log_dir: str | None) -> ClusterMetadata | None:
        """Return the metadata log of `--metadata`, of this log directory, or of another directory of this broker.

        Raises PathNotFound, NotKafkaLayout, Unreadable; UsageError if `--metadata` belongs to another cluster.
        """
        path = self._metadata_log(log_dir)
        return None if path is None else self._read(path)

    def is_kraft(self, log_dir: str | None) -> bool:
        """Whether the broker of a log directory is known to be in KRaft mode.

        A metadata log proves it, and so does the file that a controller starts from. `meta.properties` may be missing
        or damaged, and a cluster that migrated from ZooKeeper keeps its version 0. Raises as `metadata` does.
        """
        if log_dir not in self._kraft:
            self._kraft[log_dir] = self._is_kraft(log_dir)
        return self._kraft[log_dir]

    def _is_kraft(self, log_dir: str | None) -> bool:
        meta = self.meta(log_dir)
        if meta is not None and not meta.is_of_zookeeper:
            return True
        bootstrap = None if log_dir is None else f"{log_dir.rstrip('/')}/{FileKind.BOOTSTRAP_SNAPSHOT.value}"
        is_formatted = bootstrap is not None and self._fs.status(bootstrap) is not None
        return is_formatted or self._metadata_log(log_dir) is not None

    def is_metadata_directory(self, log_dir: str) -> bool:
        """Whether server.properties was given and names a log directory as that of the metadata log (KRaftConfigs)."""
        words = (self._broker_properties.get(name, "") for name in ("metadata.log.dir", "log.dirs", "log.dir"))
        named = next((word.partition(",")[0].strip() for word in words if word.strip()), None)
        return named is not None and os.path.realpath(named) == os.path.realpath(log_dir)

    def are_of_one_broker(self, *log_dirs: str) -> bool:
        """Whether server.properties was given and has all these directories in log.dirs (or log.dir)."""
        names = self._broker_properties.get("log.dirs") or self._broker_properties.get("log.dir", "")
        own = {os.path.realpath(name.strip()) for name in names.split(",") if name.strip()}
        return all(os.path.realpath(path) in own for path in log_dirs)

    def has_dynamic_quorum(self, log_dir: str) -> bool | None:
        """Whether the quorum of a node is dynamic (KIP-853); None if neither server.properties nor a file says so.

        `quorum-state` has version 1 if kraft.version is 1 or more.
        """
        if self._broker_properties.get("controller.quorum.voters", "").strip():
            return False
        if self._broker_properties.get("controller.quorum.bootstrap.servers", "").strip():
            return True
        metadata_log = metadata_log_in(self._fs, log_dir)
        try:
            data = read_all(self._fs, f"{metadata_log}/{FileKind.QUORUM_STATE.value}") if metadata_log else b""
        except (KafkalogError, OSError):
            return None
        state, _ = decode_quorum_state(data)
        return None if state is None else state.data_version > 0

    def _read(self, metadata_log: str) -> ClusterMetadata:
        from kafkalog_cli.log.settings.cluster_metadata import read_cluster_metadata  # few directories have one

        with self._working:
            if metadata_log not in self._metadata:
                self._metadata[metadata_log] = read_cluster_metadata(self._fs, metadata_log)
            return self._metadata[metadata_log]

    def topic_config(self, log_dir: str | None, topic: str) -> Settings:
        """Return the settings of a topic. Raises as `metadata` does."""
        return self._topic_config(log_dir, topic, with_command_line=True)

    def config_without_command_line(self, log_dir: str | None, topic: str) -> Settings:
        """Return the settings of a topic as a broker has them, without `--config`. Raises as `metadata` does."""
        return self._topic_config(log_dir, topic, with_command_line=False)

    def _topic_config(self, log_dir: str | None, topic: str, *, with_command_line: bool) -> Settings:
        key = (log_dir, topic, with_command_line)
        with self._working:
            if key not in self._topics:
                layers, unread = self._layers(log_dir, topic)
                if not with_command_line:
                    del layers[Origin.COMMAND_LINE]
                self._topics[key] = resolve(topic, layers, unread)
            return self._topics[key]

    def _layers(self, log_dir: str | None, topic: str) -> tuple[dict[Origin, Mapping[str, str]], _Unread]:
        """Return the settings of each source, and the sources that were not read."""
        metadata = self.metadata(log_dir)
        unread = (
            *_unread_in(metadata, topic, has_none=metadata is None and self._is_of_zookeeper(log_dir)),
            *self._unread_of_broker(log_dir, metadata),
        )
        layers = {Origin.COMMAND_LINE: self._command_line, Origin.STATIC_BROKER: self._broker_properties}
        if metadata is not None:
            layers[Origin.TOPIC] = metadata.topic_settings(topic)
            layers[Origin.DYNAMIC_BROKER] = metadata.broker_settings(self._settings_broker_id(log_dir))
            layers[Origin.DYNAMIC_DEFAULT_BROKER] = metadata.default_broker_settings()
        return layers, unread

    def _unread_of_broker(self, log_dir: str | None, metadata: ClusterMetadata | None) -> _Unread:
        if not self._has_broker_properties:
            return (UnreadSource("--broker-config was not given", BROKER_CONFIG),)
        if metadata is not None and self._settings_broker_id(log_dir) is None and metadata.has_broker_settings:
            why = "the metadata log has settings of single brokers, and neither meta.properties nor node.id says which"
            return (UnreadSource(f"{why} broker this is", f"{BROKER_CONFIG} with node.id"),)
        return ()

    def _is_of_zookeeper(self, log_dir: str | None) -> bool:
        meta = self.meta(log_dir)
        return meta is not None and meta.is_of_zookeeper and not self.is_kraft(log_dir)

    def _settings_broker_id(self, log_dir: str | None) -> int | None:
        """Return the broker id for settings: from the log directory, else from server.properties, else None."""
        broker_id = self.broker_id(log_dir)
        if broker_id is not None:
            return broker_id
        named = (self._broker_properties.get(name, "").strip() for name in ("node.id", "broker.id"))
        return next((int(text) for text in named if text.isdecimal()), None)

    def _metadata_log(self, log_dir: str | None) -> str | None:
        if log_dir not in self._metadata_logs:
            self._metadata_logs[log_dir] = self._find_metadata_log(log_dir)
        return self._metadata_logs[log_dir]

    def _find_metadata_log(self, log_dir: str | None) -> str | None:
        if self.metadata_option is not None:
            return self._named_log(self.metadata_option, log_dir)
        if log_dir is None:
            return None
        own = metadata_log_in(self._fs, log_dir)
        if own is not None:
            return own
        metadata_logs = [
            (other, path) for other in self.log_dirs if (path := metadata_log_in(self._fs, other)) is not None
        ]
        is_only = len(metadata_logs) == 1
        return next((path for other, path in metadata_logs if self._is_of(log_dir, other, path, is_only=is_only)), None)

    def _is_of(self, log_dir: str, other: str, metadata_log: str, *, is_only: bool) -> bool:
        """Whether the metadata log in `other` is that of the node of `log_dir`.

        Directories of two brokers may be on one disk: only a directory of the same broker will do.
        """
        ours, theirs = self.meta(log_dir), self.meta(other)
        if ours is None or (ours.cluster_id is None and not ours.is_of_zookeeper):
            return is_only and has_root_file(self._fs, log_dir)
        if theirs is None:
            return False
        if ours.cluster_id is not None and (ours.cluster_id, ours.node_id) == (theirs.cluster_id, theirs.node_id):
            return True
        owner = self._read(metadata_log).node_of_directory(ours.directory_id)
        return owner is not None and owner == theirs.node_id

    def _named_log(self, path: str, log_dir: str | None) -> str:
        if self._fs.status(path) is None:
            raise PathNotFound(path=path)
        metadata_log = metadata_log_in(self._fs, path) or path
        above = os.path.dirname(os.path.abspath(metadata_log))  # noqa: PTH100, PTH120  (a name, links are not followed)
        theirs, ours = self._cluster(above), self._cluster(log_dir)
        if theirs is not None and ours is not None and theirs != ours:
            raise UsageError(reason=f"--metadata {path} is of cluster {theirs}, {log_dir} of cluster {ours}")
        return metadata_log

    def _cluster(self, log_dir: str | None) -> str | None:
        meta = self.meta(log_dir)
        return None if meta is None else meta.cluster_id


def _unread_in(metadata: ClusterMetadata | None, topic: str, *, has_none: bool) -> _Unread:
    """Return why the metadata log does not have all settings of a topic; empty if it has.

    `has_none`: the broker is one with ZooKeeper.
    """
    if has_none:
        return (UnreadSource("a broker with ZooKeeper has no metadata log", "", is_of_topic=True),)
    if metadata is None:
        why = "no metadata log was found"
    elif not metadata.is_complete:
        why = f"the metadata log {metadata.path} is damaged"
    elif topic not in metadata.topics:
        why = f"the metadata log {metadata.path} has no such topic"
        return (UnreadSource(why, METADATA, is_of_topic=True, is_of_broker=False),)
    else:
        return ()
    return (UnreadSource(why, METADATA, is_of_topic=True),)


def read_meta(fs: Filesystem, log_dir: str) -> MetaProperties | None:
    """Return the `meta.properties` of a log directory, None if the file is missing or unreadable."""
    try:
        properties, _ = meta_properties.decode(read_all(fs, f"{log_dir.rstrip('/')}/{FileKind.META_PROPERTIES.value}"))
    except (KafkalogError, OSError):
        return None
    return properties
