"""Holds every run of a test against the exit codes that the help of its command lists."""

import pytest

from tests.support.product import COMMANDS, app


def unlisted(argv, code):
    """The reason why an exit code is not one of the help's; None if it is."""
    command = argv[0] if argv else None
    if command not in COMMANDS or code in COMMANDS[command].exit_codes:
        return None
    return f"kafkalog {' '.join(argv)} ended with {code}, which kafkalog {command} --help does not list"


@pytest.fixture(autouse=True, scope="session")
def exit_codes_are_listed():
    """Fail the test in which a run in this process ends with an exit code that its help does not list."""
    real = app._run

    def run(argv, environment):
        code = real(argv, environment)
        wrong = unlisted(argv, code)
        told = getattr(environment.stderr, "getvalue", bytes)()
        assert wrong is None, f"{wrong}: {told}"
        return code

    app._run = run
    yield
    app._run = real
