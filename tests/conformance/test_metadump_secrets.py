"""A copy by metadump has no secret: the rules for SCRAM, ACLs, quotas, tokens and settings one by one, and every text of every record."""

import pytest

from tests.support.commands import json_of, kafkalog
from tests.support.logs import BASE_TIME_MS, R, batch_v2
from tests.support.metadata_logs import LATEST, batches, topic_id, value
from tests.support.product import definitions, message_schema

META = "__cluster_metadata-0"
RECORDS = [one["value"] for one in definitions()["topics"]["__cluster_metadata"]["records"]]
KEPT = {"ConfigRecord.name", "ClientQuotaRecord.key", "FeatureLevelRecord.name", "EndPoints.Name", "Features.Name",
        "entity.entityType", "endPoints.name", "endpoints.name", "features.name"}  # fmt: skip
"""Texts that keep their meaning in a copy; a secret is in none of them."""


def copied(tmp_path, *values, hash_names=True):
    """The bytes of the copy of a metadata log with these records, and what `cluster` prints of it."""
    place = tmp_path / "logs"
    (place / META).mkdir(parents=True)
    (place / META / f"{0:020d}.log").write_bytes(batches([list(values)])[0])
    options = ["--hash-names"] if hash_names else []
    code, (made, _), _ = json_of("metadump", place, tmp_path / "out", *options)
    assert (code, made["opaque_batches"]) == (0, 0)
    raw = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert (tmp_path / "out" / META / f"{0:020d}.log").stat().st_size == (place / META / f"{0:020d}.log").stat().st_size
    return raw, kafkalog("cluster", tmp_path / "out")[1]


def test_metadump_hides_scram_salts_and_keys(tmp_path):
    secrets = {"salt": b"SALT-OF-ALICE", "storedKey": b"STORED-KEY", "serverKey": b"SERVER-KEY"}
    fields = {"name": "alice-the-admin", "mechanism": 1, "iterations": 4096, **secrets}
    raw, shown = copied(tmp_path, value("UserScramCredentialRecord", **fields),
                        value("RemoveUserScramCredentialRecord", name="bob-the-guest", mechanism=2))  # fmt: skip
    for secret in (*secrets.values(), b"alice", b"bob"):
        assert secret not in raw
    assert "SCRAM-SHA-256" in shown
    assert "4096" in shown


@pytest.mark.parametrize(("resource", "name"), [
    (2, "salaries"), (3, "payroll-group"), (4, "kafka-cluster"), (5, "tx-payroll"), (6, "token-1"), (7, "user-x")])  # fmt: skip
def test_metadump_hides_principals_hosts_and_resources_of_acls(tmp_path, resource, name):
    fields = {"id": topic_id(3), "resourceType": resource, "resourceName": name, "patternType": 3, "host": "10.11.12.13",
              "principal": "User:CN=carol,OU=payroll", "operation": 3, "permissionType": 3}  # fmt: skip
    raw, shown = copied(tmp_path, value("AccessControlEntryRecord", **fields))
    for secret in (b"carol", b"payroll", b"10.11.12.13", b"salaries", b"tx-", b"token-1", b"user-x"):
        assert secret not in raw
    assert b"User:" in raw
    assert (b"kafka-cluster" in raw) == (resource == 4)
    assert shown


def test_an_acl_for_everybody_stays_one(tmp_path):
    fields = {"id": topic_id(3), "resourceType": 2, "resourceName": "*", "patternType": 3, "host": "*",
              "principal": "User:*", "operation": 3, "permissionType": 3}  # fmt: skip
    raw, shown = copied(tmp_path, value("AccessControlEntryRecord", **fields))
    assert b"User:*" in raw


@pytest.mark.parametrize("kind", ["user", "client-id", "ip"])
def test_metadump_hides_entity_names_of_quotas(tmp_path, kind):
    entity = [{"entityType": kind, "entityName": "dave.example.com"}, {"entityType": kind, "entityName": None}]
    raw, shown = copied(tmp_path, value("ClientQuotaRecord", entity=entity[:1], key="producer_byte_rate", value=1024.0,
                                        remove=False),
                        value("ClientQuotaRecord", entity=entity[1:], key="producer_byte_rate", value=99.0,
                              remove=False))  # fmt: skip
    assert b"dave" not in raw
    assert kind.encode() in raw
    assert "producer_byte_rate" in shown
    assert "1024" in shown


def test_metadump_hides_owners_renewers_and_ids_of_delegation_tokens(tmp_path):
    fields = {"owner": "User:erin", "requester": "User:frank", "renewers": ["User:grace", "User:heidi"],
              "tokenId": "TOKEN-ID-IVAN", "issueTimestamp": 1, "maxTimestamp": 2, "expirationTimestamp": 3}  # fmt: skip
    raw, _ = copied(tmp_path, value("DelegationTokenRecord", **fields),
                    value("RemoveDelegationTokenRecord", tokenId="TOKEN-ID-IVAN"))  # fmt: skip
    for secret in (b"erin", b"frank", b"grace", b"heidi", b"IVAN"):
        assert secret not in raw
    assert raw.count(b"User:") == 4


@pytest.mark.parametrize(("name", "text", "stays"), [
    ("ssl.keystore.password", "hunter2hunter2", False), ("ssl.keystore.password", "20261124", False),
    ("listener.name.x.ssl.key.password", "-1234", False), ("sasl.jaas.config", 'x required password="judy";', False),
    ("ssl.truststore.location", "/home/judy/trust.jks", False), ("my.plugin.pin", "secret-pin", False),
    ("my.plugin.secret", "true", False), ("num.io.threads", "8", True), ("log.cleaner.enable", "false", True)])  # fmt: skip
def test_metadump_hides_values_of_broker_settings_that_are_not_known_to_be_harmless(tmp_path, name, text, stays):
    raw, _ = copied(tmp_path, value("ConfigRecord", resourceType=4, resourceName="1", name=name, value=text))
    assert (text.encode() in raw) == stays
    assert name.encode() in raw


@pytest.mark.parametrize(("name", "text", "stays"), [
    ("cleanup.policy", "compact,delete", True), ("retention.ms", "1000", True), ("my.topic.note", "of judy", False)])  # fmt: skip
def test_metadump_hides_topic_names_and_unknown_settings_of_topics(tmp_path, name, text, stays):
    raw, _ = copied(tmp_path, value("ConfigRecord", resourceType=2, resourceName="salaries", name=name, value=text))
    assert (text.encode() in raw) == stays
    assert b"salaries" not in raw


class Marked:
    """A message whose texts and bytes all differ: the marks by the path of their fields."""

    def __init__(self):
        self.marks = {}

    def message(self, name, version):
        return {field.name: self._of(name, field) for field in message_schema(name).fields if has(field, version)}

    def _of(self, owner, field):
        kind = field.kind
        if kind == "struct":
            return {one.name: self._of(field.name, one) for one in field.fields}
        if kind == "array" and field.items == "struct":
            return [{one.name: self._of(field.name, one) for one in field.fields}]
        if kind == "array":
            return [self._mark(owner, field, field.items)] if field.items in ("string", "bytes") else []
        if kind in ("string", "bytes"):
            return self._mark(owner, field, kind)
        return field.default

    def _mark(self, owner, field, kind):
        text = f"MARK{len(self.marks):04d}-of-somebody"
        self.marks[text] = f"{owner}.{field.name}"
        return text.encode() if kind == "bytes" else text


def has(field, version):
    return version in field.versions


@pytest.mark.parametrize("name", RECORDS)
def test_no_text_of_any_record_survives(tmp_path, name):
    """Except the names of settings, features, listeners and types of entities."""
    marked = Marked()
    version = LATEST.get(name, 0)
    record = value(name, version, **marked.message(name, version))
    raw, _ = copied(tmp_path, record)
    survivors = {path for mark, path in marked.marks.items() if mark.encode() in raw}
    assert survivors <= KEPT, survivors - KEPT


def test_a_record_of_a_later_kafka_gives_nothing_away(tmp_path):
    """An unknown type, an unknown version, and a known record with more bytes behind it."""
    known = value("UserScramCredentialRecord", name="mallory", mechanism=1, salt=b"S", storedKey=b"K", serverKey=b"V",
                  iterations=1)  # fmt: skip
    for at, data in enumerate((b"\x01\x7f\x00mallory", b"\x01\x0b\x09mallory", known + b"mallory", b"mallory")):
        raw, _ = copied(tmp_path / str(at), data)
        assert b"mallory" not in raw


def test_metadump_fills_values_of_other_topics_that_look_like_credentials(tmp_path):
    """Keys and values of topics that are not Kafka's are filler, also where they look like its records."""
    place = tmp_path / "logs" / "orders-0"
    place.mkdir(parents=True)
    record = value("UserScramCredentialRecord", name="mallory", mechanism=1, salt=b"SALTSALT", storedKey=b"K",
                   serverKey=b"V", iterations=1)  # fmt: skip
    (place / f"{0:020d}.log").write_bytes(batch_v2([R(0, BASE_TIME_MS, record, record)]))
    assert json_of("metadump", tmp_path / "logs", tmp_path / "out")[0] == 0
    raw = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert b"mallory" not in raw
    assert b"SALTSALT" not in raw
