"""Gives new files to the user of a log directory, as far as this process may, and says who can open a file."""

import errno
import os
import stat

_PERMISSIONS = 0o777
_NOT_PERMITTED = (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP)
"""EINVAL: the user has no number in this container (user namespace). ENOTSUP: the file system has no owners."""


class NotGiven(PermissionError):
    """A new file could not be given to another user, and its mode does not let that user in."""


def give(descriptor: int, owner_id: int, group_id: int, mode: int) -> None:
    """Set owner, group and permission bits of an open file or directory, as far as this process may.

    A user who may not give files away (neither root nor CAP_CHOWN, or root on NFS with root_squash) stays the owner.
    The intended owner then gets in through the group, whose bits become the owner's. The group of this process gets no
    rights that were meant for another group. Raises NotGiven if the intended owner could not open the file: a broker
    ends at such a file, when it starts or when it deletes the topic.
    """
    status = os.fstat(descriptor)
    if (status.st_uid, status.st_gid) != (owner_id, group_id):  # first, because it clears bits of the mode
        if not _changed_owner(descriptor, owner_id, group_id):
            _changed_owner(descriptor, -1, group_id)
        status = os.fstat(descriptor)
    is_given, has_group = status.st_uid == owner_id, status.st_gid == group_id
    needed = mode >> 6 & 7
    if not has_group:
        mode = mode & ~0o070 | mode << 3 & 0o070
    elif not is_given:
        mode |= needed << 3
    if (status.st_mode ^ mode) & _PERMISSIONS:
        os.fchmod(descriptor, stat.S_IMODE(status.st_mode) & ~_PERMISSIONS | mode & _PERMISSIONS)
    granted = mode >> 3 & 7 if has_group and _may_be_in_group(owner_id, group_id) else mode & 7
    if not is_given and owner_id != 0 and needed & ~granted:
        reason = (
            f"user {status.st_uid} may not give files to user {owner_id}, whom a broker here runs as, and that user"
            " could not open them"
        )
        raise NotGiven(errno.EPERM, reason)


def _changed_owner(descriptor: int, owner_id: int, group_id: int) -> bool:
    try:
        os.fchown(descriptor, owner_id, group_id)
    except OSError as error:
        if error.errno not in _NOT_PERMITTED:
            raise
        return False
    return True


def _may_be_in_group(user_id: int, group_id: int) -> bool:
    groups = groups_of(user_id)
    return groups is None or group_id in groups


def groups_of(user_id: int) -> frozenset[int] | None:
    """Return the groups of a user; None if the user has no entry on this machine, as the users of containers."""
    import pwd

    try:
        user = pwd.getpwuid(user_id)
    except KeyError:
        return None
    return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))


def has_access_list(path: str) -> bool:
    """Whether an access control list gives rights to a file that its mode does not show."""
    try:
        return bool(os.getxattr(path, "system.posix_acl_access"))
    except (OSError, AttributeError):  # macOS has no such call
        return False


def is_mounted_read_only(path: str) -> bool:
    """Whether a directory is on a file system that is mounted read-only; False if that cannot be determined."""
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False
