"""A folder beyond the port: one rename, addresses as delta-rs prints them, unreadable folders."""

from pathlib import Path

import pytest

from tandem.infra.storage.local import Local
from tandem.infra.storage.resolve import storage_at


def test_a_folder_is_moved_whole_or_not_at_all(tmp_path: Path) -> None:
    storage = Local(str(tmp_path))
    storage.put_if_absent("views/a/f/_delta_log/0.json", b"{}")
    assert storage.move("views/a/f", "scratch/1") is True
    assert [head.name for head in storage.list_after("")] == ["scratch/1/_delta_log/0.json"]
    assert storage.move("views/a/f", "scratch/2") is False


def test_an_address_is_a_path_or_the_url_that_delta_rs_prints(tmp_path: Path) -> None:
    folder = tmp_path / "my stäte"
    Local(str(folder)).put_if_absent("a", b"x")
    for address in (str(folder), f"{folder}/", folder.as_uri(), f"{folder.as_uri()}/"):
        assert storage_at(address, {}).head("a") is not None
    assert storage_at(str(folder), {}).head("b") is None


def test_a_file_in_place_of_a_folder_fails_only_the_writer(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("a file")
    storage = Local(str(tmp_path / "root"))
    assert storage.head("a") is None
    assert list(storage.list_after("")) == []
    with pytest.raises(OSError, match=r"exists|Not a directory"):
        storage.create("a")


def test_a_link_is_deleted_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    for name in ("outside", "root/t"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside" / "a").write_text("x")
    (tmp_path / "root" / "t" / "folder").symlink_to(tmp_path / "outside")
    (tmp_path / "root" / "t" / "file").symlink_to(tmp_path / "outside" / "a")
    Local(str(tmp_path / "root")).delete_below("t")
    assert list((tmp_path / "root" / "t").iterdir()) == []
    assert (tmp_path / "outside" / "a").read_text() == "x"
