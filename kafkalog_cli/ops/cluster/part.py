"""The parts of a cluster's state. The command has them as choices, so this module imports nothing else."""

from __future__ import annotations

from enum import Enum, unique


@unique
class ClusterPart(Enum):
    """A part of the state, in the order of the output. The value is its word in options and output."""

    BROKERS = "brokers"
    CONTROLLERS = "controllers"
    FEATURES = "features"
    TOPICS = "topics"
    PARTITIONS = "partitions"
    CONFIGS = "configs"
    ACLS = "acls"
    SCRAM_USERS = "scram-users"
    QUOTAS = "quotas"
    TOKENS = "tokens"
