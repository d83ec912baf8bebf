"""The user that a broker runs as, judged by the owners in its log directory, and what that user may open."""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kafkalog_cli.disk.fs import FileStatus
from kafkalog_cli.disk.ownership import groups_of, has_access_list

READ, READ_WRITE, ALL = 4, 6, 7
"""Rights as the bits of a mode; of a directory, ALL is the right to make and remove files in it."""


class BrokerUser(NamedTuple):
    """A user, who is not root, and the groups that it is taken to be in."""

    user_id: int
    group_ids: frozenset[int]

    def may(self, status: FileStatus, rights: int) -> bool:
        """Whether the user has all these rights to a file or directory, by its mode or an access control list."""
        shift = 6 if status.owner_id == self.user_id else 3 if status.group_id in self.group_ids else 0
        return not rights & ~(status.mode >> shift) or has_access_list(status.path)


def broker_user(directory: FileStatus | None, entries: Iterable[FileStatus]) -> BrokerUser | None:
    """Return the user of a directory with these entries; None for root, who may open everything.

    It is the directory's owner. Where that is root, as of a container's volume, it is the owner of most entries.
    The user is taken to be in the directory's group.
    """
    if directory is None:
        return None
    owners = Counter(entry.owner_id for entry in entries)
    most = owners.most_common(1)[0][0] if owners else directory.owner_id
    user_id = directory.owner_id if directory.owner_id and (most == 0 or directory.owner_id in owners) else most
    if user_id == 0:
        return None
    return BrokerUser(user_id, frozenset({directory.group_id}) | (groups_of(user_id) or frozenset()))
