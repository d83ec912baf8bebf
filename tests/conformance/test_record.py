"""Each command line of the record answers as it did.

`pytest tests/conformance --update` stores what the commands answer now, and prints each difference first.
"""

import pytest

from tests.conformance import record
from tests.conformance.log_directories import unpack_all
from tests.conformance.rows import rows_for
from tests.conformance.runner import recorded_environment

SHOWN_ROWS = 10


@pytest.fixture(scope="module")
def log_directories(tmp_path_factory, corpus):
    return unpack_all(tmp_path_factory.mktemp("fixtures"), corpus)


@pytest.fixture(autouse=True)
def environment():
    with recorded_environment():
        yield


def recorded_cases():
    """Two groups of cases: two workers of pytest-xdist run them side by side."""
    for number, case in enumerate(record.recorded_cases()):
        yield pytest.param(case, marks=pytest.mark.xdist_group(f"conformance {number % 2}"))


def differences_now(case, root, place):
    """The answers of a case now, and each difference from the record, as text."""
    answers = {
        row.name: record.answers_of(row, root, place / f"row-{number}")
        for number, row in enumerate(rows_for(case, root))
    }
    return answers, list(record.differences(record.read_answers(case), answers))


@pytest.mark.parametrize("case", list(recorded_cases()))
def test_commands_answer_as_recorded(case, log_directories, tmp_path, pytestconfig):
    answers, found = differences_now(case, log_directories[case], tmp_path)
    if found and pytestconfig.getoption("update"):
        store(case, answers, found, pytestconfig)
    elif found:
        text = "\n".join(found[:SHOWN_ROWS])
        pytest.fail(f"{case}: {len(found)} of {len(answers)} rows answer otherwise\n{text}", pytrace=False)


def test_every_log_directory_of_the_fixtures_is_recorded(log_directories, tmp_path, pytestconfig):
    missing = sorted(set(log_directories) - set(record.recorded_cases()))
    if pytestconfig.getoption("update"):
        for case in missing:
            answers, _found = differences_now(case, log_directories[case], tmp_path / case)
            store(case, answers, [f"{len(answers)} rows are new"], pytestconfig)
    else:
        assert missing == []


def store(case, answers, found, config):
    """Print the differences, then store the answers."""
    with config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{case}: {len(found)} rows differ", *found, sep="\n")
    record.write_answers(case, answers)
