"""Set-up says where Java archives no classes, instead of making an archive that holds next to none."""

from pathlib import Path

import pytest

from tandem.infra.java.java_home import refuse_escapes
from tandem.views.errors import TandemError


@pytest.mark.parametrize("path", ["/home/ann/tandem", "/tmp/it's/v1.2_x-y+z@1,2", "/Users/Ann/(old)/~x!$&*:"])
def test_a_path_without_escapes_is_fine(path: str) -> None:
    refuse_escapes([Path(path) / "spark.jsa", Path(path) / "pyspark"])


@pytest.mark.parametrize("name", ["my data", "é", "50%", "a#b", "c;d", "x=y", 'say "hi"', "[1]", "ł"])
def test_a_path_that_a_url_would_escape_is_named(name: str) -> None:
    folder = Path("/home/ann", name)
    with pytest.raises(TandemError, match="Java archives no classes of jars below") as error:
        refuse_escapes([Path("/home/ann/tandem/jars"), folder / "pyspark"])
    assert str(folder) in str(error.value)
