"""Hosts whose executors go while they work or are asked: what is done again, and what is named as not done."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafkalog_cli import __version__
from kafkalog_cli.ops.call.host_plan import HostPlan, HostsRequest, Place, Subject
from kafkalog_cli.ops.map_each import Item, do_not_report
from kafkalog_cli.spark import each_host

ITEMS = 8


def plan(host):
    items = (Item(f"{host}-{number}", 1, (f"/d/t-{number}",)) for number in range(ITEMS))
    of_subjects = tuple((Subject(0, "t", number), item) for number, item in enumerate(items))
    return HostPlan(of_subjects, work, failed)


def work(item, _):
    return f"done {item.value}"


def failed(item, _):
    return f"failed {item.value}"


def answer(question, _):
    return f"answer to {question}"


class Cluster:
    """The executors that live, with the host of each; a task runs in another place if its own executors are gone."""

    def __init__(self):
        self.executors = {"0": "a", "1": "b"}

    def run(self, function, value, executors):
        hosts = [self.executors[one] for one in executors if one in self.executors]
        if function is each_host._look:
            return Place(hosts[0], 0, ()), hosts[0], __version__
        if function is each_host._plan_in_task:
            return plan(value.place.boot_id)
        run, items = pickle.loads(value.pickled)
        return [run(item, do_not_report) for item in items] if hosts else None


@pytest.fixture
def cluster(monkeypatch):
    found = Cluster()
    monkeypatch.setattr(each_host, "_executors", lambda _: dict.fromkeys(found.executors, ("127.0.0.1", 1)))
    monkeypatch.setattr(each_host, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(each_host, "RETURN_SECONDS", 0.3)
    monkeypatch.setattr(each_host, "POLL_SECONDS", 0.01)
    return found


@pytest.fixture
def hosts(cluster):
    pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
    with ThreadPoolExecutor() as pool:
        found = each_host.Hosts(None, cluster, pool, HostsRequest(None, ("/d",), hosts=2, jobs=1))
        found.find()
        yield found


def results_of(groups):
    return [one.result for group in groups for one in group]


def test_items_of_a_host_without_executors_are_named(cluster, hosts):
    groups = hosts.results()
    found = results_of([next(groups)])
    del cluster.executors["1"]
    found += results_of(groups)
    of_b = [one for one in found if one.split()[1].startswith("b-")]
    undone = [one.removeprefix("failed b-") for one in of_b if one.startswith("failed")]
    assert [one for one in found if one not in of_b] == [f"done a-{number}" for number in range(ITEMS)]
    assert len(of_b) == ITEMS
    (error,) = hosts.missing
    named = ", ".join(f"/d/t-{number}" for number in undone)
    assert (undone != [], str(error)) == (True, f"b: no executor of Spark is left there; not done: {named}")


def test_items_are_done_by_an_executor_that_replaces_another(cluster, hosts):
    groups = hosts.results()
    found = results_of([next(groups)])
    cluster.executors = {"0": "a", "2": "b"}
    found += results_of(groups)
    assert found == [f"done {host}-{number}" for number in range(ITEMS) for host in "ab"]
    assert hosts.missing == []


def test_a_host_that_is_lost_while_it_is_asked_is_named_once(cluster, hosts):
    questions = {(host, "/d/t-0"): f"about {host}" for host in "ab"}
    assert [*hosts.results()] != []
    assert hosts.answers(questions, answer) == {key: f"answer to about {key[0]}" for key in questions}
    del cluster.executors["1"]
    for _ in range(2):
        assert hosts.answers(questions, answer) == {("a", "/d/t-0"): "answer to about a"}
    assert [str(one) for one in hosts.missing] == [
        "b: no executor of Spark is left there, not all of its replicas are compared"
    ]


def test_a_question_is_asked_again_of_an_executor_that_replaces_another(cluster, hosts):
    assert [*hosts.results()] != []
    cluster.executors = {"0": "a", "2": "b"}
    assert hosts.answers({("b", "/d/t-0"): "it"}, answer) == {("b", "/d/t-0"): "answer to it"}
    assert hosts.missing == []
