"""DescribeConfigs: the settings of topics and of this broker, as `kafkalog cluster` and `retain` know them."""

from collections.abc import Iterable

from kafkalog_cli.errors import KafkalogError
from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.log.settings.topic_config import Origin, Setting
from kafkalog_cli.ops.serve.broker import Broker, Request

_TOPIC, _BROKER = 2, 4
_SOURCES = {
    Origin.TOPIC: 1, Origin.DYNAMIC_BROKER: 2, Origin.DYNAMIC_DEFAULT_BROKER: 3, Origin.STATIC_BROKER: 4,
    Origin.DEFAULT: 5, Origin.INTERNAL_TOPIC: 1, Origin.COMMAND_LINE: 1,
}  # fmt: skip
"""The numbers of DescribeConfigsResponse.ConfigSource."""


def describe_configs(broker: Broker, request: Request) -> Message:
    """Answer settings, each with its source."""
    return {
        "results": [
            _configs_of(broker, asked) for asked in request.distinct("resources", "resourceType", "resourceName")
        ]
    }


def _configs_of(broker: Broker, asked: Message) -> Message:
    kind, name = asked["resourceType"], asked["resourceName"]
    result: Message = {"resourceType": kind, "resourceName": name, "errorMessage": None, "configs": []}
    try:
        settings = _settings(broker, kind, name)
    except KafkalogError as error:
        return {**result, "errorCode": ApiError.UNKNOWN_SERVER_ERROR, "errorMessage": str(error)}
    if settings is None:
        missing = ApiError.UNKNOWN_TOPIC_OR_PARTITION if kind == _TOPIC else ApiError.INVALID_REQUEST
        return {**result, "errorCode": missing, "errorMessage": f"{name} is not served"}
    keys = asked["configurationKeys"]
    return {**result, "configs": [_config(one) for one in settings if keys is None or one.name in keys]}


def _settings(broker: Broker, kind: int, name: str) -> Iterable[Setting] | None:
    """Return the settings of a topic, or of this broker; None for anything else."""
    topic = broker.catalog.topics.get(name) if kind == _TOPIC else None
    if topic is not None:
        log_dir = next(iter(topic.partitions.values())).copy.partition.path.rpartition("/")[0]
        return broker.catalog.settings.topic_config(log_dir, name).values()
    if kind == _BROKER and name in ("", str(broker.catalog.node_id)):
        return broker.catalog.settings.broker_settings(broker.catalog.log_dirs.replicas.log_dirs[0]).values()
    return None


def _config(setting: Setting) -> Message:
    return {
        "name": setting.name, "value": setting.text, "readOnly": True, "configSource": _SOURCES[setting.origin],
        "isSensitive": False, "synonyms": [], "documentation": None,
    }  # fmt: skip
