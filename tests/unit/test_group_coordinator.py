"""The state machine of classic groups, with a clock of its own and a thread per waiting member."""

import threading
import time
from types import SimpleNamespace

import pytest

from kafkalog_cli.format.protocol.errors import ApiError
from kafkalog_cli.ops.move.serve import groups
from kafkalog_cli.ops.move.serve.groups import GroupCoordinator, LiveState
from tests.serve.test_serve_fetch import log_dir  # noqa: F401 fixture
from tests.support.kafka_client import KafkaClient
from tests.support.serving import serving

RANGE, STICKY = ([{"name": name, "metadata": name[:1].encode()}] for name in ("range", "sticky"))
SECONDS = 120


class Clock:
    """Seconds that only the test changes."""

    now = 1000.0

    def __call__(self):
        return self.now


class Members:
    """A coordinator whose waiting requests run in threads."""

    def __init__(self):
        self.clock = Clock()
        self.groups = GroupCoordinator(self.clock)

    def begin(self, member="", instance=None, protocols=RANGE, session=10_000, rebalance=30_000, kind="consumer"):
        """Send a request to join; the result is a function that returns its answer."""
        return started(lambda: self.ask(member, instance, protocols, session, rebalance, kind))

    def ask(
        self, member="", instance=None, protocols=RANGE, session=10_000, rebalance=30_000, kind="consumer", group="g",
        needs_known_id=False,
    ):  # fmt: skip
        asked = {
            "groupId": group, "memberId": member, "groupInstanceId": instance, "sessionTimeoutMs": session,
            "rebalanceTimeoutMs": rebalance, "protocolType": kind, "protocols": protocols,
        }  # fmt: skip
        return answer_of(self.groups.join(asked, "client", "host", needs_known_id=needs_known_id))

    def sync(self, generation, member, instance=None, given=(), protocol=(None, None)):
        assignments = [{"memberId": one, "assignment": assignment} for one, assignment in given]
        asked = {
            "groupId": "g", "generationId": generation, "memberId": member, "groupInstanceId": instance,
            "assignments": assignments, "protocolType": protocol[0], "protocolName": protocol[1],
        }  # fmt: skip
        return answer_of(self.groups.sync(asked))

    def join(self, *args, **more):
        """Join while no other member is awaited."""
        answer = self.begin(*args, **more)
        until(lambda: answer.is_done() or self.wait_for_the_clock(1))
        if not answer.is_done():
            self.pass_time(1.0)
        return answer()

    def wait_for_the_clock(self, count):
        """Whether at least so many members are in a rebalance, and all of them have joined again."""
        group = self.group
        if group is None or group.state is not LiveState.PREPARING:
            return False
        return len(group.members) >= count and all(one.has_joined for one in group.members.values())

    def pass_time(self, seconds):
        """Let a time pass that members wait for."""
        self.clock.now += seconds

    def form(self, count, **more):
        """The answers to `count` members that found a group; the first of them is the leader's."""
        answers = [self.begin(**more) for _ in range(count)]
        until(lambda: self.wait_for_the_clock(count))
        self.pass_time(1.0)
        joined = [answer() for answer in answers]
        return sorted(joined, key=lambda one: one.member_id != one.leader)

    def settle(self, joined):
        """Have the leader give each member its own id as its assignment."""
        leader = next(one for one in joined if one.member_id == one.leader)
        given = [(one, one.encode()) for one, _, _ in leader.members]
        for one in [leader, *(other for other in joined if other is not leader)]:
            synced = self.sync(one.generation, one.member_id, None, given if one is leader else [])
            assert (synced.error, synced.assignment) == (ApiError.NONE, one.member_id.encode())

    def beat(self, one, instance=None):
        asked = {"groupId": "g", "generationId": one.generation, "memberId": one.member_id, "groupInstanceId": instance}
        return self.groups.heartbeat(asked)["errorCode"]

    def may_commit(self, generation, member, instance):
        asked = {"generationIdOrMemberEpoch": generation, "memberId": member, "groupInstanceId": instance}
        return self.groups.may_commit({"groupId": "g", **asked})

    @property
    def group(self):
        return self.groups.describe("g")


def answer_of(message):
    """The fields of an answer."""
    return SimpleNamespace(
        error=message.get("errorCode", ApiError.NONE), member_id=message.get("memberId"),
        generation=message.get("generationId"), leader=message.get("leader"), protocol=message.get("protocolName"),
        members=[(one["memberId"], one["groupInstanceId"], one["metadata"]) for one in message.get("members", ())],
        assignment=message.get("assignment"),
    )  # fmt: skip


class started:  # noqa: N801 reads as a verb
    """A call in a thread; calling it waits for its result."""

    def __init__(self, work):
        self._done = threading.Event()
        self._result = None
        threading.Thread(target=self._run, args=(work,), daemon=True).start()

    def _run(self, work):
        self._result = work()
        self._done.set()

    def __call__(self):
        assert self._done.wait(SECONDS)
        return self._result

    def is_done(self):
        return self._done.is_set()

    def is_waiting(self):
        """Whether no result comes. A request that has not begun has none either: that it has is to be known before."""
        return not self._done.wait(0.2)


def until(holds):
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def members():
    made = Members()
    yield made
    made.groups.stop()


def test_a_group_forms_after_the_first_wait_and_is_stable_after_the_leader_has_assigned(members):
    answers = [members.begin(), members.begin()]
    until(lambda: members.wait_for_the_clock(2))
    assert all(answer.is_waiting() for answer in answers)
    assert members.group.state is LiveState.PREPARING
    members.pass_time(1.0)
    joined = [answer() for answer in answers]
    assert {one.generation for one in joined} == {1}
    assert sorted(len(one.members) for one in joined) == [0, 2]  # only the leader gets the members
    follower = next(one for one in joined if not one.members)
    waiting = started(lambda: members.sync(1, follower.member_id, None, []))
    assert waiting.is_waiting()
    assert members.group.state is LiveState.COMPLETING
    leader = next(one for one in joined if one.members)
    members.sync(1, leader.member_id, None, [(follower.member_id, b"his")])
    assert waiting().assignment == b"his"
    assert members.group.state is LiveState.STABLE


@pytest.mark.parametrize(
    ("protocol", "is_known"),
    [((None, None), True), (("consumer", "range"), True), (("connect", "range"), False), (("consumer", "x"), False)],
)
def test_a_member_that_knows_another_protocol_gets_no_assignment(members, protocol, is_known):
    """As GroupMetadataManager.validateSyncGroup."""
    one = members.join()
    error = members.sync(one.generation, one.member_id, None, [(one.member_id, b"")], protocol).error
    assert error is (ApiError.NONE if is_known else ApiError.INCONSISTENT_GROUP_PROTOCOL)


def test_a_new_member_makes_the_others_join_again(members):
    first = members.join()
    members.settle([first])
    assert members.beat(first) is ApiError.NONE
    second = members.begin()
    until(lambda: members.beat(first) is ApiError.REBALANCE_IN_PROGRESS)
    again = members.begin(first.member_id)
    joined = [again(), second()]
    assert {one.generation for one in joined} == {2}
    assert joined[0].leader == first.member_id  # the leader stays
    assert members.sync(1, first.member_id, None, []).error is ApiError.ILLEGAL_GENERATION
    members.settle(joined)


def test_a_member_that_does_not_join_again_is_removed_after_the_longest_rebalance_timeout(members):
    leader, other = members.form(2, session=1_800_000)
    members.settle([leader, other])
    again = members.begin(leader.member_id, protocols=[*RANGE, *STICKY], session=1_800_000)
    until(lambda: members.group.state is LiveState.PREPARING)
    assert again.is_waiting()
    members.pass_time(29.0)
    assert again.is_waiting()
    members.pass_time(1.0)
    assert [one for one, _, _ in again().members] == [leader.member_id]
    assert members.beat(other) is ApiError.UNKNOWN_MEMBER_ID


def test_a_session_ends_without_heartbeats_and_the_others_rebalance(members):
    leader, other = members.form(2)
    members.settle([leader, other])
    members.pass_time(4.0)
    assert members.beat(leader) is ApiError.NONE
    members.pass_time(6.0)
    members.groups.expire()
    assert members.beat(other) is ApiError.UNKNOWN_MEMBER_ID
    assert members.beat(leader) is ApiError.REBALANCE_IN_PROGRESS
    assert members.join(leader.member_id).generation == 2
    members.pass_time(11.0)
    members.groups.expire()
    assert members.group is None


def test_a_member_that_waits_for_others_needs_no_heartbeats(members):
    leader, other = members.form(2)
    members.settle([leader, other])
    again = members.begin(leader.member_id, protocols=[*RANGE, *STICKY])
    until(lambda: members.group.state is LiveState.PREPARING)
    members.pass_time(8.0)
    assert members.beat(other) is ApiError.REBALANCE_IN_PROGRESS  # he lives, and has not joined yet
    members.pass_time(8.0)
    members.groups.expire()
    assert leader.member_id in members.group.members
    assert members.begin(other.member_id)().generation == again().generation == 2


def test_members_leave_by_id(members):
    leader, other = members.form(2)
    members.settle([leader, other])
    assert members.groups.leave("g", other.member_id, None) == (ApiError.NONE, other.member_id)
    assert members.groups.leave("g", other.member_id, None)[0] is ApiError.UNKNOWN_MEMBER_ID
    assert members.beat(leader) is ApiError.REBALANCE_IN_PROGRESS
    assert members.groups.leave("g", leader.member_id, None)[0] is ApiError.NONE
    assert members.groups.groups() == []


def test_the_leader_leaves_and_another_member_leads(members):
    leader, other = members.form(2)
    members.settle([leader, other])
    members.groups.leave("g", leader.member_id, None)
    assert members.join(other.member_id).leader == other.member_id


def test_a_static_member_comes_back_with_a_new_id_and_the_old_id_is_fenced(members):
    first = members.join(instance="one")
    members.settle([first])
    second = members.join(instance="one")
    assert second.member_id != first.member_id
    assert [*members.group.members] == [second.member_id]
    assert members.beat(first, "one") is ApiError.FENCED_INSTANCE_ID
    assert members.begin(first.member_id, "one")().error is ApiError.FENCED_INSTANCE_ID
    synced = members.sync(second.generation, first.member_id, "one", [])
    assert synced.error is ApiError.FENCED_INSTANCE_ID
    assert members.groups.leave("g", first.member_id, "one")[0] is ApiError.FENCED_INSTANCE_ID
    assert members.may_commit(second.generation, first.member_id, "one") is ApiError.FENCED_INSTANCE_ID
    assert members.may_commit(-1, "", "one") is ApiError.FENCED_INSTANCE_ID
    assert members.beat(second, "two") is ApiError.UNKNOWN_MEMBER_ID
    assert members.groups.leave("g", "", "one") == (ApiError.NONE, second.member_id)


def test_commits_of_other_generations_are_refused(members):
    assert members.may_commit(-1, "", None) is ApiError.NONE
    assert members.may_commit(0, "", None) is ApiError.ILLEGAL_GENERATION
    one = members.join()
    members.settle([one])
    assert members.may_commit(1, one.member_id, None) is ApiError.NONE
    assert members.may_commit(0, one.member_id, None) is ApiError.ILLEGAL_GENERATION
    assert members.may_commit(-1, one.member_id, None) is ApiError.ILLEGAL_GENERATION
    assert members.may_commit(1, "other", None) is ApiError.UNKNOWN_MEMBER_ID
    assert members.may_commit(-1, "", None) is ApiError.UNKNOWN_MEMBER_ID


def test_a_commit_waits_for_the_assignment(members):
    """The partition of the offset may be another member's in this generation (ClassicGroup.validateOffsetCommit)."""
    one = members.join()
    assert members.may_commit(1, one.member_id, None) is ApiError.REBALANCE_IN_PROGRESS
    members.settle([one])
    assert members.may_commit(1, one.member_id, None) is ApiError.NONE


def test_a_commit_is_a_sign_of_life(members):
    one = members.join()
    members.settle([one])
    for _ in range(3):
        members.pass_time(8.0)
        assert members.may_commit(1, one.member_id, None) is ApiError.NONE
        members.groups.expire()


def test_the_protocol_is_one_that_all_members_have(members):
    answers = [members.begin(protocols=[*STICKY, *RANGE]), members.begin(protocols=RANGE)]
    until(lambda: members.wait_for_the_clock(2))
    members.pass_time(1.0)
    assert {answer().protocol for answer in answers} == {"range"}
    for more in ({"protocols": STICKY}, {"kind": "connect"}, {"protocols": []}):
        assert members.begin(**more)().error is ApiError.INCONSISTENT_GROUP_PROTOCOL


def test_requests_that_do_not_join(members):
    assert members.begin("unknown")().error is ApiError.UNKNOWN_MEMBER_ID
    assert members.begin(session=5_999)().error is ApiError.INVALID_SESSION_TIMEOUT
    assert members.ask(group="").error is ApiError.INVALID_GROUP_ID
    first = members.ask(session=6_000, needs_known_id=True)
    assert first.error is ApiError.MEMBER_ID_REQUIRED
    assert members.join(first.member_id).error is ApiError.NONE


def test_all_groups_accept_members_up_to_the_limit(members, monkeypatch):
    """Members of all groups, and the ids that were asked for."""
    monkeypatch.setattr(groups, "_MOST_MEMBERS", 2)
    errors = [members.ask(group=name, needs_known_id=True).error for name in ("g", "h", "i")]
    assert errors == [ApiError.MEMBER_ID_REQUIRED, ApiError.MEMBER_ID_REQUIRED, ApiError.GROUP_MAX_SIZE_REACHED]


def test_an_id_that_was_asked_for_and_not_used_expires(members):
    member = members.ask(needs_known_id=True).member_id
    members.pass_time(10.0)
    members.groups.expire()
    assert members.begin(member)().error is ApiError.UNKNOWN_MEMBER_ID


def test_a_follower_that_repeats_its_request_starts_no_rebalance(members):
    leader, other = members.form(2)
    members.settle([leader, other])
    again = members.begin(other.member_id)()
    assert (again.generation, again.error) == (1, ApiError.NONE)
    waiting = members.begin(leader.member_id)  # a leader that joins again asks for a rebalance
    until(lambda: members.group.state is LiveState.PREPARING)
    assert members.begin(other.member_id)().generation == waiting().generation == 2


def test_the_versions_of_join(log_dir):  # noqa: F811
    """From version 4 on a member asks for its id first, and from version 7 on no protocol is null."""
    with serving(log_dir) as server, KafkaClient(server.server.address) as client:
        for version, error, protocol in ((3, 0, "range"), (4, 79, ""), (6, 79, ""), (7, 79, None)):
            found = client.ask(
                "JoinGroup", version, groupId=f"g{version}", sessionTimeoutMs=6_000, rebalanceTimeoutMs=0,
                protocolType="consumer", protocols=[{"name": "range", "metadata": b""}],
            )  # fmt: skip
            assert (found["errorCode"], found["protocolName"]) == (error, protocol)
