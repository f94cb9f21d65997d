"""A master on other hosts is refused at once where its executors cannot reach the tables."""

from pathlib import Path

import pytest

from tandem.infra.settings import SettingsError, load
from tandem.infra.settings.spark_master import kind

MASTERS = {
    "local": "local",
    "local[2]": "local",
    "local[*]": "local",
    "local[2,4]": "local",
    "local-cluster[2,1,1024]": "local-cluster",
    "spark://host:7077": "standalone",
    "spark://one:7077,two:7077": "standalone",
    "yarn": "yarn",
    "k8s://https://host:6443": "kubernetes",
}
ON_OTHER_HOSTS = [master for master, found in MASTERS.items() if not found.startswith("local")]


@pytest.mark.parametrize(("master", "found"), MASTERS.items())
def test_every_form_of_a_master_is_known(master: str, found: str) -> None:
    assert kind(master) == found


@pytest.mark.parametrize(
    "master", ["", "spark://host", "spark:host:7077", "mesos://host:5050", "local[]", "k8s://", "yarn-client"]
)
def test_another_form_is_refused_with_the_valid_ones(tmp_path: Path, master: str) -> None:
    with pytest.raises(SettingsError, match=r"spark\.master = .* is not valid; expected local\[N\]"):
        load(tmp_path, {"TANDEM_SPARK_MASTER": master})


@pytest.mark.parametrize("master", ON_OTHER_HOSTS)
@pytest.mark.parametrize("root", ["", "/data/tables"])
def test_a_folder_of_this_machine_is_refused(tmp_path: Path, master: str, root: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, {"TANDEM_SPARK_MASTER": master, "TANDEM_STORAGE_ROOT": root})
    said = str(refused.value)
    assert f"spark.master = '{master}' runs tasks on other hosts" in said
    assert (root or str(tmp_path / ".tandem")) in said
    assert 'set storage.root to an object store, or storage.folder = "shared"' in said


@pytest.mark.parametrize("master", ON_OTHER_HOSTS)
@pytest.mark.parametrize("reached", [{"TANDEM_STORAGE_ROOT": "s3://bucket/prefix"}, {"TANDEM_STORAGE_FOLDER": "shared"}])
def test_an_object_store_and_a_shared_folder_are_taken(tmp_path: Path, master: str, reached: dict[str, str]) -> None:
    assert load(tmp_path, {"TANDEM_SPARK_MASTER": master, **reached}).spark.master == master


@pytest.mark.parametrize("master", [master for master, found in MASTERS.items() if found.startswith("local")])
def test_executors_on_this_machine_need_neither(tmp_path: Path, master: str) -> None:
    assert load(tmp_path, {"TANDEM_SPARK_MASTER": master}).spark.master == master
