"""The base class of requests on logs: the time at which a command acts, and the settings that it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from kafkalog_cli.broker.loaded_segment import LoadSettings
from kafkalog_cli.disk.kernels import KernelChoice
from kafkalog_cli.format.limits import DEFAULT_LIMITS, Limits
from kafkalog_cli.log.settings.topic_config import BrokerSettings, Setting, TopicConfig
from kafkalog_cli.ops.settings import SettingsSource

_TIERED = "remote.storage.enable"
_NEVER_TIERED = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata")


@dataclass(frozen=True, slots=True)
class LogRequest:
    """The time at which to act, and the source of settings."""

    now_ms: int
    settings: SettingsSource
    limits: Limits = DEFAULT_LIMITS
    kernels: KernelChoice | None = None

    def used_settings(self, log_dir: str | None, topic: str) -> tuple[Setting, ...]:
        """Return the settings for opening segments, each with its origin. Raises as `SettingsSource.metadata` does."""
        config = self.settings.topic_config(log_dir, topic)
        broker = self.settings.broker_settings(log_dir)
        used = config["segment.index.bytes"], config["index.interval.bytes"], broker["producer.id.expiration.ms"]
        return (*used, config[_TIERED]) if _is_tiered(topic, config, broker) else used

    def load_settings(self, log_dir: str | None, topic: str) -> LoadSettings:
        """Return the settings for opening segments, as LoadSettings."""
        return self.load_settings_of(self.used_settings(log_dir, topic))

    def load_settings_of(self, used: tuple[Setting, ...]) -> LoadSettings:
        """Convert the settings of `used_settings`, which a plan keeps, to LoadSettings."""
        return load_settings_of(self.now_ms, used, self.limits, self.kernels)


def load_settings_of(
    now_ms: int, used: tuple[Setting, ...], limits: Limits = DEFAULT_LIMITS, kernels: KernelChoice | None = None
) -> LoadSettings:
    """Convert the settings of `LogRequest.used_settings` to LoadSettings."""
    index_bytes, interval_bytes, expiration_ms = (cast(int, setting.value) for setting in used[:3])
    is_tiered = any(setting.name == _TIERED for setting in used[3:])
    return LoadSettings(now_ms, index_bytes, interval_bytes, expiration_ms, limits, kernels, is_tiered)


def _is_tiered(topic: str, config: TopicConfig, broker: BrokerSettings) -> bool:
    """Whether a broker keeps older segments of the topic in remote storage (UnifiedLog.isRemoteLogEnabled).

    A broker without remote storage does not start while a topic uses it. So only a setting that disables remote storage
    rules it out.
    """
    system = "remote.log.storage.system.enable"
    is_ruled_out = broker.is_configured(system) and not broker.remote_storage_system_enable
    is_local = "compact" in config.cleanup_policy or topic in _NEVER_TIERED
    return config.remote_storage_enable and not is_ruled_out and not is_local
