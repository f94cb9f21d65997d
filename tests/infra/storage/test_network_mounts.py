"""A root on a network file system is found by the longest mount point that contains it."""

from pathlib import Path

import pytest

from tandem.infra.storage.mounts import network_file_system

MOUNTED = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /srv/data rw,relatime - nfs4 server:/data rw,vers=4.2
31 30 8:2 / /srv/data/local rw,relatime shared:7 master:3 - xfs /dev/sdb1 rw
32 22 0:41 / /mnt/my\040disk rw - cifs //server/disk rw
33 22 0:42 / /over rw - ext4 /dev/sdc1 rw
34 22 0:43 / /over rw - fuse.sshfs host:/over rw
"""


@pytest.fixture
def mounts(tmp_path: Path) -> Path:
    (tmp_path / "mountinfo").write_text(MOUNTED)
    return tmp_path / "mountinfo"


@pytest.mark.parametrize(
    ("folder", "found"),
    [
        ("/home/ann/.tandem/tables", None),
        ("/srv/data", "nfs4"),
        ("/srv/data/shop/tables", "nfs4"),
        ("/srv/database", None),
        ("/srv/data/local/shop", None),
        ("/mnt/my disk/shop", "cifs"),
        ("/over/shop", "fuse.sshfs"),
    ],
)
def test_the_longest_mount_point_decides_and_of_equal_ones_the_last(mounts: Path, folder: str, found: str | None) -> None:
    assert network_file_system(Path(folder), mounts) == found


@pytest.mark.parametrize("kind", ["ceph", "lustre", "fuse.glusterfs", "fuse.juicefs", "fuse.s3fs", "smb3"])
def test_file_systems_of_many_hosts_are_known(tmp_path: Path, kind: str) -> None:
    (tmp_path / "mountinfo").write_text(f"30 22 0:40 / /srv rw,relatime - {kind} server:/ rw\n")
    assert network_file_system(Path("/srv/tables"), tmp_path / "mountinfo") == kind


def test_a_link_is_followed(mounts: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/srv/data/shop")
    assert network_file_system(tmp_path / "link" / "tables", mounts) == "nfs4"


def test_without_a_list_of_mounts_the_kind_is_unknown(tmp_path: Path) -> None:
    assert network_file_system(Path("/srv/data"), tmp_path / "none") is None


def test_the_temporary_folder_is_not_a_network_file_system(tmp_path: Path) -> None:
    assert network_file_system(tmp_path) is None
