"""What doctor finds exactly at a limit: of words that are Kafka's, of partitions with one repair, of segments that are listed."""

from itertools import product
from types import SimpleNamespace

import pytest

from kafkalog_cli.ops.doctor import broker_messages
from kafkalog_cli.ops.doctor.broker_messages import _LEAST_WORDS, _in_order, recognised
from kafkalog_cli.ops.doctor.commands import MessagePlaces, NextCommand, _with_places
from kafkalog_cli.ops.doctor.examination import _joined, _of_plan

WORDS = ["aa", "bb", "cc", "dd", "ee", "ff", "gg", "hh", "ii", "jj", "kk", "ll"]


def table(monkeypatch, **pages):
    """Texts of Kafka in place of the table, by page."""
    messages = [
        SimpleNamespace(slug=slug, texts=[SimpleNamespace(text=text, where="kafka") for text in texts])
        for slug, texts in pages.items()
    ]
    monkeypatch.setattr(broker_messages, "MESSAGES", messages)


def found(text):
    return [(one.message.slug, one.text.text) for one in recognised(text)]


def test_of_two_texts_of_a_page_in_a_line_the_first_counts(monkeypatch):
    table(monkeypatch, page=["cannot open", "cannot read"])
    assert found("cannot read, cannot open") == [("page", "cannot open")]


@pytest.mark.parametrize("count", [_LEAST_WORDS - 1, _LEAST_WORDS])
def test_the_words_of_a_first_sentence(monkeypatch, count):
    first = " ".join(WORDS[:count])
    table(monkeypatch, page=[f"{first}. More words {{}}"])
    line = f"{first}, and the line goes on in another way"
    assert found(line) == ([("page", f"{first}. More words {{}}")] if count == _LEAST_WORDS else [])


@pytest.mark.parametrize(("count", "same"), [(5, 5), (6, 6), (8, 5), (8, 6), (12, 8), (12, 9)])
def test_the_share_of_words_of_another_version(monkeypatch, count, same):
    """Three quarters of the words of a text, which has six or more. Of equal shares the first text of the table counts."""
    text = " ".join(WORDS[:count])
    table(monkeypatch, page=[text], other=[text])
    line = " zz ".join(WORDS[:same])
    assert found(line) == ([("page", text)] if count >= _LEAST_WORDS and same * 4 >= count * 3 else [])


def longest_common(wanted, words):
    if not wanted or not words:
        return 0
    if wanted[0] == words[0]:
        return 1 + longest_common(wanted[1:], words[1:])
    return max(longest_common(wanted[1:], words), longest_common(wanted, words[1:]))


def test_words_in_their_order_against_all_ways_to_leave_words_out():
    for wanted, words in product(product("ab", repeat=4), product("abc", repeat=3)):
        assert _in_order(wanted, words) == longest_common(wanted, words)


def test_a_command_of_one_word_has_no_place():
    assert _with_places(["df"], MessagePlaces("/disk")) == ("df",)


def repair(number):
    return NextCommand(("kafkalog", "recover", f"/disk/t-{number}"), "why", 0)


@pytest.mark.parametrize("count", [3, 4])
def test_more_than_three_partitions_get_one_repair(count):
    joined = {one.argv for one in _joined([repair(number) for number in range(count)], "/disk/")}
    assert len(joined) == (1 if count > 3 else count)


def test_a_command_without_a_path_is_no_repair_of_a_partition():
    alone = NextCommand(("kafkalog", "recover"), "why", 0)
    assert [*_joined([alone], "/disk")] == [alone]


@pytest.mark.parametrize(("count", "words"), [(1, "0)"), (3, "0, 1, 2)"), (4, "0, 1, 2, …)")])
def test_the_first_three_segments_are_named(count, words):
    plan = SimpleNamespace(is_refused=False, remarks=(), recovered=range(count), path="/disk/t-0")
    (step,) = _of_plan(plan)
    assert step.message.endswith(f"(base offset {words}")
