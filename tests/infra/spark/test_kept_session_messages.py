"""What a command and the owner of a kept session compare and say, without Spark."""

import os
import stat
from pathlib import Path

import pytest

from infra import folders
from infra.settings import Settings
from infra.spark.kept import marks, messages
from infra.spark.kept.messages import Closed, Lines, Reply, Request

JAVA = Path("/java")


def of(environ: dict[str, str], **properties: str) -> marks.Marks:
    return marks.marks(Settings(), JAVA, properties, environ)


def test_what_a_task_may_read_is_compared_and_nothing_else() -> None:
    base = of({"AWS_REGION": "here", "PATH": "/bin"})
    same = {"AWS_REGION": "here", "PATH": "/usr/bin", "AIRFLOW_CTX_DAG_ID": "recompute", "TANDEM_WHO": "me", "TERM": "vt100"}
    assert marks.differences(base, of(same)) == ""
    for environ in ({"AWS_REGION": "there"}, {}):
        assert marks.differences(base, of(environ)) == "the environment variable AWS_REGION"
    assert marks.differences(base, of({"AWS_REGION": "here"}, memory="2g")) == "the Spark property memory"
    many = {"AWS_REGION": "here"} | {f"V{number}": "" for number in range(4)}
    assert marks.differences(base, of(many)) == "the environment variable V0, the environment variable V1 and 2 more"


def test_the_folder_of_dags_counts_for_no_task() -> None:
    mine = os.pathsep.join(["/mine", str(folders.DAGS)])
    assert marks.differences(of({"PYTHONPATH": "/mine"}), of({"PYTHONPATH": mine})) == ""
    assert marks.differences(of({"PYTHONPATH": "/mine"}), of({})) == "the environment variable PYTHONPATH"


def test_marks_hold_no_value() -> None:
    assert "hush" not in str(of({"AWS_SECRET_ACCESS_KEY": "hush"}, key="hush"))


def test_a_changed_file_changes_the_mark_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "batch" / "fold" / "fold.py"
    file.parent.mkdir(parents=True)
    file.write_text("a = 1\n")
    monkeypatch.setattr(folders, "ROOT", tmp_path)
    before = marks.code()
    assert marks.code() == before
    file.write_text("a = 10\n")
    assert marks.code() != before


def test_a_link_to_nothing_and_a_file_that_has_gone_are_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "batch"
    folder.mkdir()
    (folder / "fold.py").write_text("a = 1\n")
    monkeypatch.setattr(folders, "ROOT", tmp_path)
    before = marks.code()
    (folder / ".#fold.py").symlink_to("user@host.1234")
    assert marks.code() == before


@pytest.mark.parametrize("depth", [0, 12])
def test_messages_go_over_a_private_socket_whatever_its_path(tmp_path: Path, depth: int) -> None:
    state = tmp_path.joinpath(*["a_long_name"] * depth)
    for _ in range(2):  # the second replaces the file of an owner that has ended
        with messages.listen(state) as listening:
            assert stat.S_IMODE(messages.file(state).stat().st_mode) == 0o600
            client = messages.connect(state, 5)
            other, _ = listening.accept()
            with client.socket, other:
                owner = Lines(other)
                client.send(Request("session", "tandem recompute", 7, {"Python": "3"}))
                line = owner.read()
                assert line is not None
                assert b"tandem recompute" in line
                owner.send(Reply("wait"))
                owner.send(Reply("yours", port=1, secret="s", loan=2))
                assert [client.reply(5).answer for _ in range(2)] == ["wait", "yours"]
                other.close()
                with pytest.raises(Closed):
                    client.reply(5)
    with pytest.raises(ConnectionRefusedError):
        messages.connect(state, 5)
    assert messages.ping(state, 5) is None
