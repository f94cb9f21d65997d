"""Whether a folder is on a network file system, where the operating system's locks may not exclude other hosts."""

import os
import re
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
"""Linux's list of mounts: https://man7.org/linux/man-pages/man5/proc_pid_mountinfo.5.html"""

_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "coda"),
        *("ceph", "lustre", "beegfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.glusterfs", "fuse.juicefs"),
        *("fuse.sshfs", "fuse.davfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone", "fuse.goofys"),
        *("fuse.mountpoint-s3", "fuse.blobfuse2"),
    )
)
"""File systems whose locks depend on how they are mounted and served, or that have none."""


def network_file_system(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The type of the network file system that a folder is on, or would be made on; None if it is on another, or unknown."""
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:  # not Linux
        return None
    place = os.path.realpath(folder)
    best, kind = "", None
    for line in lines:
        before, _, after = line.partition(" - ")
        point = _unescaped(before.split(" ")[4])
        # A later line is mounted over an earlier one.
        if len(point) >= len(best) and (place == point or place.startswith(f"{point.rstrip('/')}/")):
            best, kind = point, after.split(" ")[0]
    return kind if kind in _NETWORK else None


def _unescaped(text: str) -> str:
    """A mount point: blanks and backslashes in it are written as octal numbers."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
