"""ApiVersions: the served APIs and versions."""

from __future__ import annotations

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.format.protocol.messages import API_VERSIONS, PRODUCE, Api, RequestHeader, apis
from kafkalog_cli.ops.serve.broker import Broker, Request


def api_versions(_broker: Broker, _request: Request) -> Message:
    """Answer the served versions."""
    return {"apiKeys": _api_keys()}


def unknown_api_versions() -> tuple[Api, int, Message]:
    """Return the answer to a version of ApiVersions that is not served: version 0, with the served versions."""
    return apis()[API_VERSIONS], 0, {"errorCode": ApiError.UNSUPPORTED_VERSION, "apiKeys": _api_keys()}


def why_refused(header: RequestHeader) -> str | None:
    """Return the reason why a request is not answered, None if it is. A broker closes the connection then."""
    api = apis().get(header.api_key)
    if api is None:
        return f"API {header.api_key} is not served"
    if header.version not in api.versions:
        first, last = api.versions
        return f"{api.name} v{header.version} is not served (served: v{first} to v{last})"
    return None


def _api_keys() -> list[Message]:
    """Return the served versions. Those of Produce begin with 0, as in Kafka.

    Without version 0 of Produce, librdkafka would fetch in no version, and old clients not compress (KAFKA-18659).
    """
    return [
        {
            "apiKey": api.key,
            "minVersion": 0 if api.key == PRODUCE else api.versions.first,
            "maxVersion": api.versions.last,
        }
        for api in apis().values()
    ]
