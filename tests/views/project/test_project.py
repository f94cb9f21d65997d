"""Projects: loaded from their own files alone, named, checked, and wrong in one clear sentence with file and line."""

import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from tandem.views.errors import TandemError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import Project, load, load_files
from tests.stack import PYTHONPATH
from tests.views.logged import decoded

ROOT = Path(__file__).parents[3]
DEFINITIONS = """\
from datetime import datetime

from tandem import Event, Source, View, count, total, tumbling


class Request(Event):
    id: str
    at: datetime
    path: str
    size: int


requests = Source(topic="requests", event=Request, event_time="at", identity=("id",))

page_traffic = View(
    source=requests,
    keys={"page": "path"},
    window=tumbling(minutes=1),
    measures={"hits": count(), "bytes": total("size")},
)

SOURCES = (requests,)
VIEWS = (page_traffic,)
"""


def files(**changes: str) -> dict[str, bytes]:
    """A project's files; a dot in a name is written as two underscores, a slash as three."""
    texts = {"tandem.toml": "", "definitions.py": DEFINITIONS}
    texts |= {name.replace("___", "/").replace("__py", ".py"): text for name, text in changes.items()}
    return {path: text.encode() for path, text in texts.items()}


def folder(tmp_path: Path, contents: Mapping[str, bytes]) -> Path:
    """The files in a folder."""
    for path, content in contents.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    return tmp_path


def test_a_folder_is_a_project(tmp_path: Path) -> None:
    """Sources and views go by their variables' names, views know their named source, files are those that were reached."""
    text = DEFINITIONS.replace("from tandem", "from shared.limits import LIMIT\nfrom tandem", 1)
    contents = files(definitions__py=text, generator__py="1 / 0", test_definitions__py="1 / 0")
    contents |= {"shared/__init__.py": b"", "shared/limits.py": b"LIMIT = 1", "shared/unused.py": b"", "tandem.toml": b"# mine"}
    project = load(folder(tmp_path, contents))
    assert project.folder == tmp_path
    assert list(project.sources) == ["requests"]
    assert list(project.views) == ["page_traffic"]
    assert project.views["page_traffic"].source is project.sources["requests"]
    assert project.sources["requests"].name == "requests"
    reached = ("tandem.toml", "definitions.py", "shared/__init__.py", "shared/limits.py")
    assert project.files == {path: contents[path] for path in reached}
    assert load_files(project.files).views.keys() == project.views.keys()


def test_loading_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of the same names stay what they were, paths stay as they are, and no file is written."""
    mine = ModuleType("definitions")
    monkeypatch.setitem(sys.modules, "definitions", mine)
    contents = files(definitions__py="import helper\n" + DEFINITIONS, helper__py="LIMIT = 1")
    folder(tmp_path, contents)
    load(tmp_path)
    before = (list(sys.path), list(sys.meta_path), sys.dont_write_bytecode, set(sys.modules))
    load(tmp_path)
    assert (list(sys.path), list(sys.meta_path), sys.dont_write_bytecode, set(sys.modules)) == before
    assert sys.modules["definitions"] is mine
    assert "helper" not in sys.modules
    assert {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")} == set(contents)


def limited(limit: int) -> dict[str, bytes]:
    """A project whose events are limited by a module that every such project has under the same name."""
    check = "    def __post_init__(self) -> None:\n        if self.size > limit():\n            raise ValueError(limit())\n"
    # Slow enough for another thread's import to come between, were it let.
    imports = "import time\n\ntime.sleep(0.01)\nfrom limits import limit"
    text = DEFINITIONS.replace("    size: int\n", f"    size: int\n\n{check}").replace("\n\n\nclass", f"\n{imports}\n\n\nclass")
    return files(definitions__py=text, limits__py=f"LIMIT = {limit}\n\n\ndef limit() -> int:\n    return LIMIT\n")


def limit_of(project: Project) -> int:
    """The limit that a project's own module sets, found by decoding."""
    values = [b'{"id": "a", "at": "2026-11-01T00:00:00Z", "path": "/", "size": %d}' % size for size in range(5)]
    return len(decoded(project.sources["requests"], *values).events) - 1


def test_projects_with_modules_of_the_same_name_do_not_mix(tmp_path: Path) -> None:
    """Two releases and a folder, each with its own `limits`, keep their own, in whatever order they are loaded and used."""
    first, second = load_files(limited(1)), load_files(limited(2))
    third = load(folder(tmp_path, limited(3)))
    assert [limit_of(one) for one in (second, third, first)] == [2, 3, 1]


def test_releases_are_loaded_once_and_from_many_threads() -> None:
    """Equal files are one project in a process, and threads that load different ones do not disturb each other."""
    assert load_files(limited(1)) is load_files(dict(reversed(limited(1).items())))
    with ThreadPoolExecutor(4) as pool:
        loaded = list(pool.map(lambda limit: limit_of(load_files(limited(limit))), [0, 1, 2, 3, 4, 3, 2, 1, 0] * 2))
    assert loaded == [0, 1, 2, 3, 4, 3, 2, 1, 0] * 2


def test_what_definitions_print_is_kept_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """A print in definitions.py does not spoil a command's JSON."""
    load_files(files(definitions__py="print('here')\n" + DEFINITIONS))
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "here\n")


def test_a_name_may_be_given() -> None:
    """`name=` comes before the variable's name, and a definition without a variable needs it."""
    text = DEFINITIONS.replace("    source=requests,", '    source=requests, name="hits_by_page",')
    text = text.replace("VIEWS = (page_traffic,)", "VIEWS = (page_traffic, View(requests, measures={'n': count()}, name='all'))")
    assert list(load_files(files(definitions__py=text)).views) == ["hits_by_page", "all"]


WRONG = [
    ('{"page": "path"}', '{"page": "pth"}', r"^definitions.py:15: view 'page_traffic', key 'page': 'pth' .*fields: path, "),
    ('total("size")', 'total("sise")', r"^definitions.py:15: view 'page_traffic', measure 'bytes': 'sise' .*fields: size, "),
    ('total("size")', "total('path')", r"^definitions.py:15: view 'page_traffic', measure 'bytes'"),
    ('"bytes": total', '"page": total', r"^definitions.py:15: view 'page_traffic': the name 'page' is already used"),
    ('"bytes": total', '"window_end": total', r"^definitions.py:15: view 'page_traffic': the name 'window_end' is already used"),
    ('"bytes": total', '"_bytes": total', r"^definitions.py:15: view 'page_traffic': '_bytes' is not a name"),
    ('keys={"page": "path"}', 'keys=["path"]', r"^definitions.py:15: view 'page_traffic': keys is a list, not a dict"),
    (
        'keys={"page": "path"}',
        'key={"page": "path"}',
        r"^definitions.py:15: view 'page_traffic': View has no parameter 'key'; parameters: keys, ",
    ),
    (
        "    source=requests",
        "    source='requests'",
        r"^definitions.py:15: view 'page_traffic': source is 'requests', not a Source",
    ),
    ('total("size")}', "'count'}", r"^definitions.py:15: view 'page_traffic', measure 'bytes': 'count' is not a measure"),
    ('total("size")}', "[1]}", r"^definitions.py:15: "),
    (
        'event_time="at"',
        'event_time="att"',
        r"^definitions.py:13: source 'requests': event_time: no field 'att' in Request; fields: at, ",
    ),
    (
        'identity=("id",)',
        'identity=("ids",)',
        r"^definitions.py:13: source 'requests': identity: no field 'ids' in Request; fields: id, ",
    ),
    (
        'topic="requests"',
        'topic="my requests"',
        r"^definitions.py:13: source 'requests': topic 'my requests' is not a name that Kafka takes",
    ),
    (
        'event_time="at"',
        'event_time="at", decoder=__import__("tandem").apache_combined()',
        r"^definitions.py:13: source 'requests': Request.id: the combined",
    ),
    ("    size: int", "    size: int = 'one'", r"^definitions.py:13: source 'requests': Request.size: default 'one'"),
    ("    size: int", "    size: dict", r"^definitions.py:13: source 'requests': Request.size: a map declares what it holds"),
    ("    size: int", "    size: 'Sise'", r"^definitions.py:13: source 'requests': Request: name 'Sise' is not defined"),
    (
        "tumbling(minutes=1)",
        "tumbling(minute=1)",
        r"^definitions.py:18: view 'page_traffic': tumbling has no parameter 'minute'; parameters: minutes, ",
    ),
    (
        "SOURCES = (requests,)",
        "SOURCES = (requests)",
        r"^definitions.py:22: SOURCES is a Source, not a tuple \(a tuple of one ends with a comma\)",
    ),
    (
        "SOURCES = (requests,)",
        "SOURCES = ()",
        r"^definitions.py:15: view 'page_traffic': its source is not in SOURCES; sources: none",
    ),
    ("SOURCES = (requests,)", "SOURCES = (page_traffic,)", r"^definitions.py:22: SOURCES\[0\] is View.*not a Source"),
    ("tumbling(minutes=1)", 'tumbling("1h")', r"page_traffic': tumbling takes parts of a length by name: tumbling\(hours=1\)$"),
    ("tumbling(minutes=1)", 'tumbling("1h 30 min")', r"tumbling\(hours=1, minutes=30\)$"),
    (
        "tumbling(minutes=1)",
        '__import__("tandem").session("5m")',
        r"session takes parts of a length by name: session\(minutes=5\)$",
    ),
    ("tumbling(minutes=1)", 'tumbling("2 Days 3secs")', r"tumbling\(days=2, seconds=3\)$"),
    *(
        ("tumbling(minutes=1)", f'tumbling("{text}")', rf"by name: days, hours, minutes, seconds; '{text}' is not made of these$")
        for text in ("1 month", "500ms", "1 mo", "1 dog", "1hm", "1h 1h", "daily")
    ),
    (
        "tumbling(minutes=1)",
        '__import__("tandem").session("1 day")',
        r"session takes parts of a length by name: hours, minutes, seconds; '1 day' is not made of these$",
    ),
    *(
        ("tumbling(minutes=1)", f'__import__("tandem").hopping({written})', rf"hopping takes timedeltas: hopping\({form}\)$")
        for written, form in (
            ('"1h"', r"timedelta\(hours=1\), every=timedelta\(\.\.\.\)"),
            ('"1h", "10 min"', r"timedelta\(hours=1\), every=timedelta\(minutes=10\)"),
            ('"1 month", "1h"', r"timedelta\(\.\.\.\), every=timedelta\(hours=1\)"),
        )
    ),
    (
        "tumbling(minutes=1)",
        '__import__("tandem").hopping("1h", every="10m")',
        r"page_traffic': a hopping window's size is a timedelta, such as timedelta\(minutes=10\), not '1h'$",
    ),
    (
        "tumbling(minutes=1)",
        '__import__("tandem").calendar("day")',
        r"^definitions.py:18: view 'page_traffic': calendar is called as calendar\(unit, \*, zone\)$",
    ),
    ("count(),", 'count("size"),', r"takes no expression: count\(\) .*, count\(filter='size IS NOT NULL'\) those .*\('size'\)"),
    ("count(),", 'count("*"),', r"^definitions.py:\d+: view 'page_traffic': count takes no expression: count\(\)$"),
    ('total("size")', 'sum("size")', r"sum is Python's own here; write total\('size'\), or import sum from tandem$"),
    (
        'total("size")',
        'max("size")',
        r"measure 'bytes': 'z' is not a measure, such as .*; Python's own sum, min and max are not measures$",
    ),
    (
        'total("size")',
        "total(size)",
        r"^definitions.py:\d+: view 'page_traffic': 'size' is not defined; a field is named by a text: 'size'$",
    ),
    ('total("size")', 'median("size")', r"tandem has no 'median'; write approx_quantiles\("),
    ("count(),", "cont(),", r"'cont' is not defined; similar names of tandem: count$"),
    ("event=Request", "event=Request()", r"source 'requests': Request\(\) makes an event.* the class itself: event=Request$"),
    ("size: int", "size: Optional[int]", r"'Optional' is not imported; write `from typing import Optional`$"),
    ("size: int", "size: int = 'x'", r"Request.size: default 'x': Expected 'int', got 'str'$"),
    ("size: int", "size: bytes = 'x'", r"Request.size: default 'x': Expected 'bytes', got 'str'$"),
    ("count(),", "mean('size'),", r"'mean' is not imported; write `from tandem import mean`$"),
    ('total("size")', 'total(["size"])', r"measure 'bytes': \['size'\] is not a text: .*; write 'size'$"),
    ('total("size")', 'total("size" > 3)', r"an expression is one text: 'size > 3'$"),
    ('total("size")', 'total("size") / count()', r"derived, by their names: derived\("),
    ("tumbling(minutes=1)", "tumbling(60)", r"by name: tumbling\(minutes=10\); parts: days, "),
    ("tumbling(minutes=1)", 'tumbling(__import__("datetime").timedelta(minutes=5))', r"by name: tumbling\(minutes=5\)$"),
    ("tumbling(minutes=1)", "tumbling(minutes='1')", r"minutes='1' is not a number; write minutes=1$"),
    ("tumbling(minutes=1)", "tumbling", r"the function tumbling is not a window; call it: tumbling\(hours=1\)$"),
    ("tumbling(minutes=1)", '"5m"', r"'5m' is not a window; write tumbling\(minutes=5\)$"),
    ('event_time="at"', "event_time=Request.at", r"event_time Request.at is not a text; .* such fields: at$"),
    ('total("size")', "total()", r"total is called as total\(expression, \*, filter=None, of=None\)$"),
    ('total("size")', "count", r"measure 'bytes': the function count is not a measure; call it: count\(\)$"),
    (
        "VIEWS = (page_traffic,)",
        "VIEWS = (page_traffic, page_traffic)",
        r"^definitions.py:15: view 'page_traffic': the name is taken",
    ),
    (
        "VIEWS = (page_traffic,)",
        "PAGE_traffic = View(requests, measures={'n': count()})\nVIEWS = (page_traffic, PAGE_traffic)",
        r"^definitions.py:23: view 'PAGE_traffic': the name is taken at definitions.py:15",
    ),
    (
        "VIEWS = (page_traffic,)",
        "VIEWS = (View(requests, measures={'n': count()}),)",
        r"^definitions.py:23: a view has no name: ",
    ),
    ("page_traffic", "_traffic", r"^definitions.py:15: view '_traffic': invalid name"),
    ("    source=requests", "    name='my view', source=requests", r"^definitions.py:15: view 'my view': invalid name"),
    ("count, total", "count, totl", r"^definitions.py:3: tandem has no 'totl'; it offers: total, "),
    (
        "from tandem import Event",
        "from helper import x\nfrom tandem import Event",
        r"^definitions.py:3: No module named 'helper'.*own modules: none",
    ),
    ("SOURCES =", "1 / 0\nSOURCES =", r"^definitions.py:22: ZeroDivisionError: division by zero"),
    ("SOURCES =", "SOURCES ==", r"^definitions.py:22: NameError: name 'SOURCES' is not defined"),
    ("SOURCES =", "exit(3)\nSOURCES =", r"^definitions.py:22: SystemExit: 3"),
    ("SOURCES =", "SOURCES = = ", r"^definitions.py:22: invalid syntax"),
    ("SOURCES =", "x = '\udcff'\nSOURCES =", r"^definitions.py:22: .*utf-8"),
    ("SOURCES =", "\tSOURCES =", r"^definitions.py:22: unexpected indent"),
    (
        "SOURCES =",
        "def late():\n    import definitions\nSOURCES =",
        r"^definitions.py:23: 'import definitions' is inside a function",
    ),
    ("SOURCES =", "__file__\nSOURCES =", r"^definitions.py:22: NameError: name '__file__'"),
]


@pytest.mark.parametrize(("old", "new", "says"), WRONG, ids=lambda text: text[:50])
def test_a_wrong_definition_is_one_sentence_with_its_place(old: str, new: str, says: str) -> None:
    """Each mistake says file, line, which definition, the value, and what exists, the nearest first."""
    assert old in DEFINITIONS
    text = DEFINITIONS.replace(old, new).encode("utf-8", "surrogateescape")
    with pytest.raises(TandemError, match=says) as caught:
        load_files({"definitions.py": text})
    assert "\n" not in str(caught.value)


def test_without_sources_and_views_those_of_the_file_count() -> None:
    """In its order, also those that it imports, and the sources of its views; what begins with _ is the file's own."""
    text = DEFINITIONS.replace("SOURCES = (requests,)", "_draft = View(requests, measures={'n': count()})")
    found = load_files({"definitions.py": text.replace("VIEWS = (page_traffic,)", "").encode()})
    listed_ones = load_files({"definitions.py": DEFINITIONS.encode()})
    assert (list(found.sources), list(found.views)) == (list(listed_ones.sources), list(listed_ones.views))
    assert {name: fingerprint(view) for name, view in found.views.items()} == {
        name: fingerprint(view) for name, view in listed_ones.views.items()
    }
    shop = DEFINITIONS.replace("SOURCES = (requests,)", "").replace("VIEWS = (page_traffic,)", "")
    imported = load_files(files(definitions__py="from shop import page_traffic", shop__py=shop))
    assert (list(imported.sources), list(imported.views)) == (["requests"], ["page_traffic"])


@pytest.mark.parametrize(("text", "kind"), [("", "Source"), (DEFINITIONS.split("page_traffic = ", maxsplit=1)[0], "View")])
def test_without_any_source_or_view_the_file_is_refused(text: str, kind: str) -> None:
    with pytest.raises(TandemError, match=rf"^definitions.py: no {kind}; assign {kind}\(\.\.\.\) to a variable"):
        load_files({"definitions.py": text.encode()})


def test_the_names_of_sql_are_the_same_functions() -> None:
    import tandem  # noqa: PLC0415  as definitions do

    same = {"sum": "total", "min": "minimum", "max": "maximum", "avg": "mean"}
    assert all(getattr(tandem, name) is getattr(tandem, own) for name, own in same.items())
    assert not set(same) & set(tandem.__all__), "`import *` must leave Python's own alone"


def test_an_error_below_names_the_line_that_raised() -> None:
    """A mistake in another module of the project is placed where it stands."""
    with pytest.raises(TandemError, match=r"^helper.py:2: KeyError: 'x'"):
        load_files(files(definitions__py="import helper\n" + DEFINITIONS, helper__py="\n{}['x']"))
    with pytest.raises(TandemError, match=r"^helper.py:1: invalid syntax"):
        load_files(files(definitions__py="import helper\n" + DEFINITIONS, helper__py="def"))
    with pytest.raises(TandemError, match=r"^definitions.py:1: No module named 'helpr'; the project's own modules: helper"):
        load_files(files(definitions__py="import helpr\n" + DEFINITIONS, helper__py=""))


def test_a_definition_in_another_module_is_placed_there() -> None:
    """A view that definitions.py only imports is reported where it is assigned."""
    shop = DEFINITIONS.replace('"page": "path"', '"page": "pth"')
    with pytest.raises(TandemError, match=r"^shop.py:15: view 'page_traffic', key 'page'"):
        load_files(files(definitions__py="from shop import SOURCES, VIEWS, page_traffic, requests", shop__py=shop))


@pytest.mark.parametrize("name", ["tandem", "json", "statistics"])
def test_a_module_may_not_hide_one_that_is_needed(name: str) -> None:
    """A file named as a module of Python's or Tandem's would be imported in its place, so it is refused."""
    with pytest.raises(TandemError, match=f"^{name}.py has the name of .* of .*; rename it"):
        load_files(files() | {f"{name}.py": b""})


def test_a_folder_that_is_no_project_says_what_it_lacks(tmp_path: Path) -> None:
    """No folder, no tandem.toml and no definitions.py are three sentences."""
    with pytest.raises(TandemError, match="the folder does not exist"):
        load(tmp_path / "none")
    with pytest.raises(TandemError, match=r"it has no tandem.toml \(it may be empty\)"):
        load(tmp_path)
    (tmp_path / "tandem.toml").touch()
    with pytest.raises(TandemError, match=r"it has no definitions.py"):
        load(tmp_path)


def test_a_project_is_loaded_without_java_spark_or_pandas(tmp_path: Path) -> None:
    """A fresh process that loads a project imports none of the packages that take seconds; the time depends on the machine."""
    script = """
import sys
from tandem.views.project.project import load
load(sys.argv[1])
print(*sorted({'pandas', 'pyspark', 'deltalake'} & set(sys.modules)))
"""
    run = subprocess.run(
        [sys.executable, "-c", script, folder(tmp_path, files())],
        env={"PYTHONPATH": PYTHONPATH, "PATH": "", "JAVA_HOME": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not run.stdout.split()
