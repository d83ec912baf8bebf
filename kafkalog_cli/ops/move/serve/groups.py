"""Classic groups in memory: members join, the leader assigns partitions, heartbeats keep members alive.

The states and errors follow Kafka's GroupMetadataManager for classic groups.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, unique
from threading import Condition

from kafkalog_cli.format.internal_topics.schema import Message
from kafkalog_cli.format.protocol.errors import ApiError

_SHORTEST_SESSION_MS, _LONGEST_SESSION_MS = 6_000, 1_800_000
_FIRST_WAIT_SECONDS = 1.0
"""How long a new group waits for more members (group.initial.rebalance.delay.ms)."""
_MOST_MEMBERS = 1000
"""Members of all groups together, and clients that have only requested an id."""
NO_GENERATION = -1


@unique
class LiveState(Enum):
    """The state of a group that clients join here. The value is Kafka's name."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(slots=True, eq=False)
class ClassicMember:
    """A member of a group, with its last request to join. `deadline` is when its session ends, in seconds of the clock.

    The request's protocols are in the member's order, the preferred first.
    """

    member_id: str
    joining: Message
    client_id: str
    client_host: str
    deadline: float = 0.0
    has_joined: bool = False
    assignment: bytes = b""

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member."""
        return self.joining.get("groupInstanceId")

    def metadata(self, protocol: str) -> bytes:
        """Return the member's metadata for a protocol."""
        return next((known["metadata"] for known in self.joining["protocols"] if known["name"] == protocol), b"")


@dataclass(slots=True, eq=False)
class ClassicGroup:
    """A group. `until` is the time at which a rebalance stops waiting for members."""

    group_id: str
    state: LiveState = LiveState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: dict[str, ClassicMember] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    since: float = 0.0
    until: float = 0.0

    def by_instance(self, instance_id: str | None) -> ClassicMember | None:
        """Return the static member with an instance id."""
        members = (member for member in self.members.values() if member.instance_id == instance_id)
        return None if instance_id is None else next(members, None)

    def common_protocols(self, but: str = "") -> set[str] | None:
        """Return the protocols of all members except `but`; None without members."""
        named = [_protocols(member.joining) for member in self.members.values() if member.member_id != but]
        return set.intersection(*named) if named else None


class GroupCoordinator:
    """All groups. Threads share it; a thread that waits for other members holds no lock. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = Condition()
        self._groups: dict[str, ClassicGroup] = {}
        self._is_stopping = False

    def stop(self) -> None:
        """Let all waiting threads end."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def expire(self) -> None:
        """Remove the members whose sessions have ended, and forget groups without members."""
        with self._changed:
            for group in list(self._groups.values()):
                self._expire(group)

    def describe(self, group_id: str) -> ClassicGroup | None:
        """Return a group with members, None without any."""
        with self._changed:
            return self._groups.get(group_id)

    def groups(self) -> list[ClassicGroup]:
        """Return all groups with members."""
        with self._changed:
            return [group for group in self._groups.values() if group.members]

    def join(self, request: Message, client_id: str, client_host: str, *, needs_known_id: bool = False) -> Message:
        """Answer a request to join (JoinGroup) when the rebalance has begun its last step, or with an error.

        `needs_known_id`: a member must ask for its id first.
        """
        group_id = request["groupId"]
        if not group_id:
            return not_joined(ApiError.INVALID_GROUP_ID, request["memberId"])
        if not _SHORTEST_SESSION_MS <= request["sessionTimeoutMs"] <= _LONGEST_SESSION_MS:
            return not_joined(ApiError.INVALID_SESSION_TIMEOUT, request["memberId"])
        with self._changed:
            group = self._groups.get(group_id) or ClassicGroup(group_id)
            new_id = f"{request.get('groupInstanceId') or client_id}-{uuid.uuid4()}"
            refused = self._refusal(group, request, new_id, needs_known_id=needs_known_id)
            if refused is not None:
                return refused
            self._groups[group_id] = group
            member = self._admit(group, ClassicMember(request["memberId"] or new_id, request, client_id, client_host))
            if self._is_unchanged(group, member, request):
                return self._joined(group, member)
            member.joining, member.client_id, member.client_host = request, client_id, client_host
            group.protocol_type = request["protocolType"]
            if group.state is not LiveState.PREPARING:
                self._begin_rebalance(group)
            member.has_joined = True
            return self._wait_for_all(group, member)

    def sync(self, request: Message) -> Message:
        """Take the leader's assignments; answer the member's own (SyncGroup) when they are there."""
        generation, member_id = request["generationId"], request["memberId"]
        with self._changed:
            group, error = self._member_of(request, generation)
            if group is None or error:
                return {"errorCode": error}
            named_and_own = (
                (request.get("protocolType"), group.protocol_type),
                (request.get("protocolName"), group.protocol),
            )
            if any(named not in (None, own) for named, own in named_and_own):
                return {"errorCode": ApiError.INCONSISTENT_GROUP_PROTOCOL}
            member = group.members[member_id]
            member.deadline = self._deadline(member)
            if group.state is LiveState.COMPLETING and member_id == group.leader:
                assignments = {
                    assignment["memberId"]: assignment["assignment"] for assignment in request["assignments"]
                }
                for other in group.members.values():
                    other.assignment = assignments.get(other.member_id, b"")
                    other.deadline = self._deadline(other)
                group.state = LiveState.STABLE
                self._changed.notify_all()
            while group.state is LiveState.COMPLETING and group.generation == generation and not self._is_stopping:
                self._expire(group)
                self._changed.wait(0.5)
            is_there = group.generation == generation and member_id in group.members
            if not is_there or group.state is not LiveState.STABLE:
                return {"errorCode": ApiError.REBALANCE_IN_PROGRESS}
            return {
                "protocolType": group.protocol_type, "protocolName": group.protocol, "assignment": member.assignment,
            }  # fmt: skip

    def heartbeat(self, request: Message) -> Message:
        """Prolong a member's session."""
        with self._changed:
            group, error = self._member_of(request, request["generationId"])
            if group is not None and not error:
                member = group.members[request["memberId"]]
                member.deadline = self._deadline(member)
                error = ApiError.REBALANCE_IN_PROGRESS if group.state is LiveState.PREPARING else ApiError.NONE
            return {"errorCode": error}

    def leave(self, group_id: str, member_id: str, instance_id: str | None) -> tuple[ApiError, str]:
        """Remove a member, named by its id or by its instance id; return the id of the member that left."""
        with self._changed:
            group = self._groups.get(group_id)
            if group is None:
                return ApiError.UNKNOWN_MEMBER_ID, member_id
            group.pending.pop(member_id, None)
            static = group.by_instance(instance_id)
            if instance_id is not None and static is None:
                return ApiError.UNKNOWN_MEMBER_ID, member_id
            if static is not None and member_id not in ("", static.member_id):
                return ApiError.FENCED_INSTANCE_ID, member_id
            member = static or group.members.get(member_id)
            if member is None:
                return ApiError.UNKNOWN_MEMBER_ID, member_id
            self._remove(group, [member])
            return ApiError.NONE, member.member_id

    def may_commit(self, request: Message) -> ApiError:
        """Return the error of a commit (OffsetCommit); a consumer outside of the group has no generation."""
        generation = request.get("generationIdOrMemberEpoch", NO_GENERATION)
        with self._changed:
            existing = self._groups.get(request["groupId"])
            if existing is None or not existing.members:
                return ApiError.NONE if generation < 0 else ApiError.ILLEGAL_GENERATION
            group, error = self._member_of(request, generation)
            if group is None or error:
                return error
            if group.state is LiveState.COMPLETING:  # its partitions may be another's now
                return ApiError.REBALANCE_IN_PROGRESS
            member = group.members[request["memberId"]]
            member.deadline = self._deadline(member)
            return ApiError.NONE

    # -- with the lock

    def _refusal(self, group: ClassicGroup, request: Message, new_id: str, *, needs_known_id: bool) -> Message | None:
        """Return the answer to a request that does not join."""
        names, member_id, instance_id = _protocols(request), request["memberId"], request.get("groupInstanceId")
        is_other_type = bool(group.members) and group.protocol_type != request["protocolType"]
        common = group.common_protocols(but=member_id)
        if not names or not request["protocolType"] or is_other_type or (common is not None and not names & common):
            return not_joined(ApiError.INCONSISTENT_GROUP_PROTOCOL, member_id)
        static = group.by_instance(instance_id)
        if member_id:
            if static is not None and static.member_id != member_id:
                return not_joined(ApiError.FENCED_INSTANCE_ID, member_id)
            if member_id not in group.members and member_id not in group.pending:
                return not_joined(ApiError.UNKNOWN_MEMBER_ID, member_id)
            return None
        if static is None and self._count() >= _MOST_MEMBERS:
            return not_joined(ApiError.GROUP_MAX_SIZE_REACHED, "")
        if needs_known_id and instance_id is None:
            group.pending[new_id] = self._clock() + request["sessionTimeoutMs"] / 1000
            self._groups[group.group_id] = group
            return not_joined(ApiError.MEMBER_ID_REQUIRED, new_id)
        return None

    def _admit(self, group: ClassicGroup, new: ClassicMember) -> ClassicMember:
        """Return the known member with this id, else the new one; a static member replaces its old member."""
        static = group.by_instance(new.instance_id)
        if static is not None and static.member_id != new.member_id:
            del group.members[static.member_id]
            group.leader = "" if group.leader == static.member_id else group.leader
        group.pending.pop(new.member_id, None)
        member = group.members.setdefault(new.member_id, new)
        member.deadline = self._deadline(member)
        return member

    def _is_unchanged(self, group: ClassicGroup, member: ClassicMember, request: Message) -> bool:
        """Whether the member repeats a request of this generation, so that no rebalance is needed."""
        if member.joining["protocols"] != request["protocols"] or not member.has_joined:
            return False
        is_follower = member.member_id != group.leader
        return group.state is LiveState.COMPLETING or (group.state is LiveState.STABLE and is_follower)

    def _begin_rebalance(self, group: ClassicGroup) -> None:
        is_new = group.state is LiveState.EMPTY
        group.state = LiveState.PREPARING
        for member in group.members.values():
            member.has_joined = False
        now = self._clock()
        longest = max((member.joining["rebalanceTimeoutMs"] for member in group.members.values()), default=0) / 1000
        group.since = now + (min(_FIRST_WAIT_SECONDS, longest) if is_new else 0)
        group.until = max(group.since, now + longest)
        self._changed.notify_all()

    def _wait_for_all(self, group: ClassicGroup, member: ClassicMember) -> Message:
        before = group.generation
        while group.generation == before and not self._is_stopping and member.member_id in group.members:
            now = self._clock()
            is_whole = all(other.has_joined for other in group.members.values()) and now >= group.since
            if is_whole or now >= group.until:
                self._complete(group)
                break
            self._changed.wait(min(0.5, max(0.01, (group.since if now < group.since else group.until) - now)))
        if member.member_id not in group.members:
            return not_joined(ApiError.UNKNOWN_MEMBER_ID, member.member_id)
        if group.generation == before:
            return not_joined(ApiError.COORDINATOR_LOAD_IN_PROGRESS, member.member_id)
        return self._joined(group, member)

    def _complete(self, group: ClassicGroup) -> None:
        """Begin the next generation with the members that have joined."""
        group.members = {
            key: member for key, member in group.members.items() if member.has_joined or member.instance_id is not None
        }
        group.generation += 1
        common = group.common_protocols() or set()
        first = next(iter(group.members.values()))
        preferred = (protocol["name"] for protocol in first.joining["protocols"])
        group.protocol = next((name for name in preferred if name in common), None)
        if group.leader not in group.members or not group.members[group.leader].has_joined:
            group.leader = next(member.member_id for member in group.members.values() if member.has_joined)
        group.state = LiveState.COMPLETING
        for member in group.members.values():
            member.assignment = b""
            member.deadline = self._deadline(member)
        self._changed.notify_all()

    def _joined(self, group: ClassicGroup, member: ClassicMember) -> Message:
        protocol = group.protocol or ""
        members = group.members.values() if member.member_id == group.leader else ()
        return {
            "generationId": group.generation, "protocolType": group.protocol_type, "protocolName": protocol,
            "leader": group.leader, "memberId": member.member_id,
            "members": [
                {"memberId": each.member_id, "groupInstanceId": each.instance_id, "metadata": each.metadata(protocol)}
                for each in members
            ],
        }  # fmt: skip

    def _member_of(self, request: Message, generation: int) -> tuple[ClassicGroup | None, ApiError]:
        """Return the group of the member that sends a request, and the error if it is no member of this generation."""
        group = self._groups.get(request["groupId"])
        if group is None:
            return None, ApiError.UNKNOWN_MEMBER_ID
        self._expire(group)
        member_id, instance_id = request.get("memberId", ""), request.get("groupInstanceId")
        static = group.by_instance(instance_id)
        if static is not None and static.member_id != member_id:
            return group, ApiError.FENCED_INSTANCE_ID
        if member_id not in group.members or (instance_id is not None and static is None):
            return group, ApiError.UNKNOWN_MEMBER_ID
        return group, ApiError.NONE if generation == group.generation else ApiError.ILLEGAL_GENERATION

    def _expire(self, group: ClassicGroup) -> None:
        now = self._clock()
        group.pending = {key: until for key, until in group.pending.items() if until > now}
        # A member that waits in a rebalance sends no heartbeats.
        is_waiting = group.state is LiveState.PREPARING
        late = [
            member
            for member in group.members.values()
            if member.deadline <= now and not (is_waiting and member.has_joined)
        ]
        self._remove(group, late)
        if not group.members and not group.pending:
            self._groups.pop(group.group_id, None)

    def _remove(self, group: ClassicGroup, members: Sequence[ClassicMember]) -> None:
        for member in members:
            group.members.pop(member.member_id, None)
        if not members:
            return
        if not group.members:
            group.state, group.leader = LiveState.EMPTY, ""
            group.generation += 1
        elif group.state in (LiveState.STABLE, LiveState.COMPLETING):
            self._begin_rebalance(group)
        self._changed.notify_all()

    def _deadline(self, member: ClassicMember) -> float:
        session_ms: int = member.joining["sessionTimeoutMs"]
        return self._clock() + session_ms / 1000

    def _count(self) -> int:
        return sum(len(group.members) + len(group.pending) for group in self._groups.values())


def not_joined(error: ApiError, member_id: str) -> Message:
    """Return the answer to a request to join that is refused."""
    return {"errorCode": error, "memberId": member_id, "generationId": NO_GENERATION}


def _protocols(joining: Message) -> set[str]:
    return {protocol["name"] for protocol in joining["protocols"]}
