"""How much a document may contain before it is parsed, and how a value is shown."""

import pytest

from kafkalog_cli.format import strict_json
from kafkalog_cli.format.strict_json import parse, shown

OF_LISTS = b"[" + b" " * 30 + b"]"
OF_VALUES = b"[1,2,3,4,5,6" + b" " * 22 + b"]"


@pytest.mark.parametrize("most", [OF_LISTS, OF_VALUES], ids=["a list in 32 bytes", "a comma in 7 bytes, 6 at least"])
def test_a_document_is_parsed_up_to_its_share_of_lists_and_values(monkeypatch, most):
    monkeypatch.setattr(strict_json, "_FEW", 0)
    assert isinstance(parse(most), list)
    with pytest.raises(ValueError, match="more lists, objects and values than kafkalog writes"):
        parse(most.replace(b" ", b"", len(most) % 6 + 1))


def test_numbers_of_more_than_64_bits_are_not_shown():
    assert [shown(2**63 - 1), shown(-(2**63) + 1)] == [str(2**63 - 1), str(-(2**63) + 1)]
    assert [shown(2**63), shown(-(2**63))] == ["a number of many digits"] * 2
