"""Verifies paths as the command and the library do: a session with the verb, whose results are collected."""

from kafkalog_cli.ops.selection import Selection
from kafkalog_cli.ops.session.observer import SilentObserver
from kafkalog_cli.ops.session.options import Pace, SessionOptions
from kafkalog_cli.ops.session.session import Session
from kafkalog_cli.ops.verify.verify import VERIFY, VerifyPlanner, VerifyRequest
from tests.support.product import Context, KernelChoice, RealFilesystem


class Results(SilentObserver):
    """Results and errors, in the order in which they are reported."""

    def __init__(self):
        self.found = []

    def show(self, result):
        self.found.append(result)

    def fail(self, error, *, path=None, is_told):
        assert not is_told
        self.found.append(error)


def verified(paths, level, *, fs=None, kernels=None, selection=None, jobs=1, config=None, **options):
    """The Verifications, and for what cannot be verified the KafkalogError, in the order of the paths."""
    context = Context(fs or RealFilesystem(), kernels or KernelChoice(forced=False))
    settings = [f"{name}={value}" for name, value in (config or {}).items()]
    chosen = SessionOptions(selection=selection or Selection(), config=settings, pace=Pace(jobs), **options)
    session = Session(VERIFY, context, chosen, results := Results())
    planner = VerifyPlanner(session, VerifyRequest(level))
    session.run_work(planner.request, planner.works([str(path) for path in paths]))
    return results.found
