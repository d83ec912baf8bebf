"""Broker messages in any form lead to their pages, and commands have the effects that doctor orders them by."""

import shlex
from time import process_time
from types import SimpleNamespace

import pytest

from kafkalog_cli.ops.check.doctor.broker_pages import messages, recognised
from kafkalog_cli.ops.check.doctor.commands import (
    Effect,
    MessagePlaces,
    _with_places,
    commands_in,
    effect_of,
    in_safe_order,
)
from kafkalog_cli.ops.steps import LOWER_WATERMARK, Step, introduced, nothing, together
from tests.support.archives import FIXTURES

NODE_LINES = [line.split("\t") for line in (FIXTURES / "node_lines.tsv").read_text().splitlines()]
"""Page and line, as brokers, controllers and kafka-storage.sh of 4.2.0 and 4.4.0 print them."""


@pytest.mark.parametrize(("slug", "line"), NODE_LINES, ids=lambda word: word[-40:])
def test_a_line_of_a_node_leads_first_to_its_page(slug, line):
    found = recognised(line)
    assert [slug, True] == [found[0].message.slug, found[0].is_exact]
    assert all(one.message.is_consequence for one in found[1:])


def test_causes_come_before_their_consequences():
    text = """\
[2026-11-23 21:07:10,966] WARN Stopping serving logs in dir /srv/kafka/data (kafka.log.LogManager)
[2026-11-23 21:07:10,730] ERROR Error while writing to checkpoint file /srv/kafka/data/x (LogDirFailureChannel)
java.io.IOException: No space left on device
"""
    slugs = [one.message.slug for one in recognised(text)]
    assert slugs == ["no-space-left-on-device", "checkpoint-write-failed", "log-dir-offline"]
    assert recognised("Nothing that a broker says") == recognised("") == ()


def test_every_text_of_the_table_leads_to_its_own_page():
    for message in messages():
        for text in message.texts:
            found = recognised(text.text.replace("{}", "17"))
            assert message.slug in [one.message.slug for one in found]
            assert all(one.is_exact for one in found)


@pytest.mark.parametrize(("piece", "slug"), [
    ("Found a corrupted index file", "corrupted-index-file"), ("invalid cluster.id", "invalid-cluster-id"),
    ("marked stray", "stray-partition"), ("  No space left on device", "no-space-left-on-device"),
])  # fmt: skip
def test_a_piece_of_a_text_leads_to_its_page(piece, slug):
    assert slug in [one.message.slug for one in recognised(piece)]
    assert recognised(piece.split()[0]) == ()


@pytest.mark.parametrize(("line", "slug"), [
    ("WARN Deleting all segments because logEndOffset (12) is smaller than logStartOffset 20.", "log-end-before-log-start"),
    ("java.io.IOException: Malformed line in checkpoint file (/d/x): orders 0", "malformed-checkpoint"),
    ("InvalidRecordException: Record is corrupt (stored crc = 1, computed crc = 2)", "record-is-corrupt"),
    ("Stored node id 1 doesn't match previous node id 2 in /d/meta.properties", "stored-node-id"),
    ("java.lang.OutOfMemoryError: Map failed", "map-failed"),
    ("java.nio.file.AccessDeniedException: /d/orders-0/00000000000000000000.log", "permission-denied"),
    ("java.nio.file.NoSuchFileException: /d/orders-0/00000000000000000000.timeindex", "file-vanished"),
])  # fmt: skip
def test_half_a_line_and_lines_of_other_versions_are_recognised(line, slug):
    assert [one.message.slug for one in recognised(line)] == [slug]


def test_a_text_that_a_terminal_wrapped_leads_to_its_page():
    for message in messages():
        for text in message.texts:
            found = recognised("ERROR " + text.text.replace("{}", "17").replace(" ", "\n   "))
            assert message.slug in [one.message.slug for one in found if one.is_exact]


def test_a_long_text_takes_no_long_time():
    """Five seconds at most for as much as an argument can have, which begins a text again and again."""
    text = "Truncating Error while flushing log for in dir with offset ( ) and recovery to offset " * 1_500
    start = process_time()
    assert not [one for one in recognised(text) if one.is_exact]
    assert process_time() - start < 5


@pytest.mark.parametrize(
    ("command", "effect"),
    [
        ("kafkalog verify a", Effect.NOTHING),
        ("kafkalog cluster a", Effect.NOTHING),
        ("cat /proc/sys/vm/max_map_count", Effect.NOTHING),
        ("kafkalog recover a --dry-run", Effect.NOTHING),
        ("sudo kafkalog verify a", Effect.NOTHING),
        ("find a ! -user kafka -ls", Effect.NOTHING),
        ("find a -delete", Effect.PERMANENT),
        ("kafkalog recover a --salvage b", Effect.COPIES),
        ("cp -a a b", Effect.COPIES),
        ("kafkalog recover a", Effect.REVERSIBLE),
        ("kafkalog recover a --discard", Effect.PERMANENT),
        ("mv -nT a b", Effect.REVERSIBLE),
        ("sed -i.aside s/a/b/ c", Effect.REVERSIBLE),
        ("sed -i s/a/b/ c", Effect.PERMANENT),
        ("kafkalog purge a", Effect.PERMANENT),
        ("kafkalog undo a RUN", Effect.PERMANENT),
        ("rm -r a", Effect.PERMANENT),
        ("sudo", Effect.PERMANENT),
    ],
)
def test_the_effect_of_a_command_is_read_from_its_words(command, effect):
    assert effect_of(shlex.split(command)) is effect


def test_the_topic_of_a_command_is_that_of_the_partition():
    partition = SimpleNamespace(path="/logs/pays-3", directory=SimpleNamespace(topic="pays"))
    words = ["kafkalog", "ls", "DIR", "--topic", "orders", "--sort", "size"]
    places = MessagePlaces("/logs", partition)
    assert _with_places(words, places) == ("kafkalog", "ls", "DIR", "--topic", "pays", "--sort", "size")
    assert _with_places(words, MessagePlaces("/logs")) is None


MV, LS, RM = ("mv", "-nT", "a", "b"), ("ls", "a"), ("rm", "-r", "d")
RECOVER_PATH = ("kafkalog", "recover", "PATH")


@pytest.mark.parametrize(("steps", "commands"), [
    ((Step("restore it from a backup"),), [((), "restore it from a backup")]),
    ((nothing(),), []),
    ((), []),
    (
        (Step("copy it", ("cp", "-a", "a. b", "c"), when="if it is alone"), Step("", RM, "removes it", when="Else")),
        [(("cp", "-a", "a. b", "c"), "if it is alone, copy it"), (RM, "Else, removes it")],
    ),
    ((Step("", MV, "moves it away", ", and "), Step("", LS, "lists the rest")), [(MV, "moves it away"), (LS, "lists the rest")]),
    ((together([MV, LS], "show both: keep one", "if it is his"),), [(one, "if it is his, show both: keep one") for one in (MV, LS)]),
    (
        (Step("keep it", MV, "keeps it", ", ", "if it is alone"), Step("", RM, "removes d")),
        [(MV, "if it is alone, keep it, keeps it"), (RM, "if it is alone, removes d")],
    ),
    ((Step("", MV, "keeps it", ". Then "), Step("", RM, "removes d")), [(MV, "keeps it"), (RM, "removes d")]),
    ((Step("", MV, end=": "), Step("the node makes it again")), [(MV, "the node makes it again")]),
    (
        (Step("", MV, "moves it"), Step("Restore it"), Step("Do not move c"), Step("", RM, "removes d")),
        [(MV, "moves it. Restore it. Do not move c"), (RM, "removes d")],
    ),
    (
        (Step("", MV, "moves it"), Step("", RM, "removes d"), Step("", MV, "moves it"), Step("Then d is gone")),
        [(MV, "moves it. Then d is gone"), (RM, "removes d")],
    ),
    ((Step("find out who made it", end="; "), Step("", RM, "removes it")), [(RM, "find out who made it. This removes it")]),
    ((Step("find out who made it"), Step("", RM, "removes it")), [(RM, "find out who made it. This removes it")]),
    (
        (LOWER_WATERMARK,),
        [(RECOVER_PATH, "if no other replica is in sync, lowers the line as a broker would. If another replica is in sync, start their brokers before this broker")],
    ),
    (
        (*introduced("in sync elsewhere (2)", LOWER_WATERMARK.others),),
        [(RECOVER_PATH, "in sync elsewhere (2): start their brokers before this broker. This lowers the line, as this broker would")],
    ),
])  # fmt: skip
def test_the_commands_of_steps_have_all_their_sentences_as_reasons(steps, commands):
    assert [(one.argv, one.why) for one in commands_in(steps)] == commands


def test_commands_have_their_trials_and_undos():
    changes = (Step("", ("kafkalog", "recover", "a"), end="; "), Step("", ("mv", "-nT", "a", "b")))
    (mv, trial, recover) = sorted(in_safe_order(commands_in(changes)), key=lambda one: one.line)[::-1]
    assert [one.undo for one in (mv, trial)] == ["mv -nT b a", ""]
    assert trial.argv == (*recover.argv, "--dry-run")
    assert recover.undo.startswith("kafkalog undo a RUN")
