"""What views look up in a file is, at any cut, what nested loops over events and rows say; and what `check` refuses.

As in tests/together/test_rollups_agree.py the cases of a run share one log, in which each is a value of the key `trial`.
"""

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import Event, Source, View, count, maximum, rollup, total, tumbling
from tandem.cli.__main__ import main
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.views.composite.dated import Earlier, chain
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import Partial, merge, present, roll
from tandem.views.lookup.file_table import FileTable
from tandem.views.project import project
from tandem.views.project.column_lineage import lineage
from tandem.views.read_columns import columns
from tandem.views.verify.every_cut import checked_answer
from tests.samples import EPOCH, LONGER
from tests.serving.world import DEFINITIONS, World, hit, position
from tests.together.model import Chain
from tests.together.split_logs import split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
ROWS = {"NO": ("north", "25"), "IT": ("south", None), "it's": ("", "x"), "ÅL": ("north", "3")}
REGIONS = FileTable("regions.csv", "code", 'code,area,rate\r\nNO,north,25\r\nIT,south,\nit\'s,,x\n"ÅL",north,3\n'.encode())


class Sale(Event):
    id: int
    trial: int
    at: datetime
    region: str | None
    cents: int


SALES = Source(topic="sales", event=Sale, event_time="at", identity=("id",), name="sales")
AREAS = View(
    source=SALES,
    lookup={"r": REGIONS.now(code="upper(region)"), "raw": REGIONS.now(code="substr(region, 1, 100 // (cents - 50))")},
    keys={"trial": "trial", "area": "r.area"},
    where="r IS NULL OR cents <> 7",
    measures={
        "n": count(),
        "unmatched": count(filter="r IS NULL"),
        "tax": total("cents * TRY_CAST(r.rate AS BIGINT)"),
        "same": count(filter="r = raw"),
    },
    name="areas",
)


def sales_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Two partitions with sales of regions that the file has, that it has in other case, and that it lacks; some twice."""
    sales = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": EPOCH + timedelta(seconds=dice.randrange(100)),
            "region": dice.choice((None, "NO", "no", "IT", "IT", "it's", "ål", "", "XX")),
            "cents": dice.choice((7, 50, 51, 149, dice.randrange(200))),
        }
        for number in range(dice.randrange(1, 7))
    ]
    return [[dice.choice(sales) for _ in range(dice.randrange(5))] for _ in range(2)]


@cache
def chain_of(seed: int) -> Chain:
    return split_chain(seed, CASES, sales_of, lambda _: "topic")


def row_of(key: str | None) -> tuple[str | None, str | None] | None:
    """The row of the file with this key, by going through all rows."""
    for code, (area, rate) in ROWS.items():
        if key is not None and code == key:
            return area or None, rate
    return None


def by_nested_loops(sales: list[Any], drawn: Counter[str]) -> dict[Any, dict[str, Any]]:
    groups: dict[Any, list[Any]] = {}
    for sale in sales:
        region = sale["region"]
        row = row_of(region and region.upper())
        if row is not None and sale["cents"] == 7:
            drawn["left out"] += 1
            continue
        if sale["cents"] == 50:  # a division by zero: the look-up's key fails, and the view rejects the event
            drawn["rejected"] += 1
            continue
        size = 100 // (sale["cents"] - 50)
        raw = row_of(None if region is None else region[:size] if size >= 0 else sliced(region, size))
        drawn["matched" if row else "unmatched"] += 1
        groups.setdefault((sale["trial"], row and row[0]), []).append((sale["cents"], row, raw))
    return {
        key: {
            "n": len(rows),
            "unmatched": sum(row is None for _, row, _ in rows),
            "tax": added([cents * int(row[1]) for cents, row, _ in rows if row and row[1] and row[1].isdigit()]),
            "same": sum(row is not None and row == raw for _, row, raw in rows),
        }
        for key, rows in groups.items()
    }


def sliced(text: str, size: int) -> str:
    """What DuckDB's substr(text, 1, size) is for a negative size: the characters before the first, which are none."""
    return text[:0] if size < 0 else text[:size]


def added(values: list[int]) -> int | None:
    return sum(values) if values else None


def rows(view: View, states: Partial) -> dict[Any, dict[str, Any]]:
    return {tuple(row[key] for key in view.keys): {m: row[m] for m in view.measures} for row in present(view, states).to_pylist()}


def test_look_ups_at_any_cut_are_nested_loops() -> None:
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    chain, drawn = chain_of(seed), Counter[str]()
    folds, counted = split_partials(AREAS, chain), chain.counted()
    expected = by_nested_loops([sale for batch in counted for sale in batch], drawn)
    assert rows(AREAS, merge(AREAS, folds)) == expected, f"{seed=}"
    assert rows(AREAS, folds[0]) == by_nested_loops(counted[0], Counter()), f"{seed=}"
    assert merge(AREAS, folds).rejected == {"expression": drawn["rejected"]}
    trials = rollup(AREAS, keys=("trial",), measures=("n", "unmatched"), name="trials")
    rolled = merge(trials, [Partial(roll(trials, fold.states), fold.ranges) for fold in folds])
    assert sum(row["n"] for row in rows(trials, rolled).values()) == sum(row["n"] for row in expected.values())
    print(f"{CASES} cases: {dict(drawn)}")  # noqa: T201 - how many hard cases were drawn
    assert min(drawn[case] for case in ("left out", "rejected", "matched", "unmatched")) > CASES / 10


def test_the_oracle_looks_up_the_same_and_only_read_columns_are_read() -> None:
    sales = [Sale(id=n, trial=1, at=EPOCH, region=region, cents=60 + n) for n, region in enumerate(("no", "IT", None, "x"))]
    assert {row["area"]: (row["n"], row["tax"]) for row in checked_answer(AREAS, sales)} == {
        "north": (1, 1500),
        "south": (1, None),
        None: (2, None),
    }
    assert columns(AREAS) == {"trial", "at", "region", "cents"}
    origins = {column.name: {origin.field for origin in column.origins} for column in lineage(AREAS).columns}
    assert (origins["area"], origins["tax"]) == ({"region"}, {"region", "cents"})
    other = FileTable("regions.csv", "code", REGIONS.content.replace(b"25", b"26"))
    changed = replace(AREAS, lookup={**AREAS.lookup, "r": other.now(code="upper(region)")})
    assert fingerprint(changed) != fingerprint(AREAS) == fingerprint(replace(AREAS, doc="sales by area"))


def test_windows_before_a_time_keep_the_content_of_their_definition() -> None:
    """As `apply --from` publishes another content of a file: each window has the rows of its own definition."""
    later = FileTable("regions.csv", "code", REGIONS.content.replace(b"north", b"arctic").replace(b"IT,south", b"IT,"))
    before = View(SALES, AREAS.keys, tumbling(hours=1), {"n": count()}, name="areas", lookup={"r": REGIONS.now(code="region")})
    after = replace(before, lookup={"r": later.now(code="region")})
    dated = chain(after, (Earlier(before, EPOCH + timedelta(hours=1)),))
    sales = [
        Sale(id=n, trial=1, at=EPOCH + timedelta(minutes=minute), region=region, cents=1)
        for n, (minute, region) in enumerate([(0, "NO"), (59, "IT"), (60, "NO"), (61, "IT"), (62, None)])
    ]
    assert [(row["window_start"][11:13], row["area"], row["n"]) for row in checked_answer(dated, sales)] == [
        ("00", "north", 1),
        ("00", "south", 1),
        ("01", "arctic", 1),
        ("01", None, 2),
    ]
    assert columns(dated) == {"trial", "at", "region"}


LOOKING = (
    DEFINITIONS[: DEFINITIONS.index("per_page = ")].replace("Source, View", "Source, Table, View")
    + """
pages = Table.from_file("pages.csv", key="page")
sections = View(source=hits, lookup={"p": pages.now(page="page")}, keys={"section": "p.section"}, measures={"n": count()})
"""
)
NEWEST = """others = Source(topic="others", event=Hit, event_time="moment", name="others")
newest = Table(others, key={"page": "page"})
sections = """
PAGES = "page,section\n/a,news\n/b,sport\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(LOOKING)
    (tmp_path / "pages.csv").write_text(PAGES)
    (tmp_path / "notes.csv").write_text("not read")
    return tmp_path


def test_a_release_has_the_file_and_plan_names_its_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = World(folder, definitions=LOOKING)
    made.append(0, hit("/a", 1), hit("/b", 2), hit("/c", 3), hit("/a", 4))
    made.trigger(position(2))
    made.recompute(position(2))
    made.trigger()

    def sections() -> dict[str, int]:
        return {row["section"]: row["n"] for row in Connection(Store(made.tables, 3)).view("sections").rows()}

    assert sections() == {"news": 2, "sport": 1, None: 1}
    assert set(made.project.files) == {"tandem.toml", "definitions.py", "pages.csv"}
    stored = project.load_files(made.project.files)
    assert fingerprint(stored.views["sections"]) == fingerprint(made.project.views["sections"])
    assert main(["explain", "sections", "--project", str(folder)]) == 0
    assert "lookup     p: pages.csv (2 rows) by page" in capsys.readouterr().out
    assert main(["check", "--project", str(folder)]) == 0
    assert "  p: pages.csv (2 rows) by page" in capsys.readouterr().out
    (folder / "pages.csv").write_text(PAGES.replace("sport", "games"))
    assert sections() == {"news": 2, "sport": 1, None: 1}, "answers are of the published file"
    assert main(["plan", "--project", str(folder)]) == 3
    plan = capsys.readouterr().out
    assert "lookup 'p'" in plan
    assert "breaking" in plan


@pytest.mark.parametrize(
    ("old", "new", "content", "sentence"),
    [
        ("pages.csv", "page.csv", PAGES, "no file 'page.csv' beside definitions.py; CSV files: pages.csv, notes.csv"),
        ('key="page"', 'key="pag"', PAGES, "pages.csv:1: key 'pag' and another column are needed; columns: page, section"),
        ('now(page="page")', 'now(code="page")', PAGES, "look-up in pages.csv: its key is page; write now(page='...')"),
        ('page="page")}', 'page="bytes")}', PAGES, "'bytes' is of type BIGINT; page of pages.csv is of type VARCHAR"),
        ('page="page")}', 'page="pge")}', PAGES, "lookup 'p': 'pge' names a field 'pge' that Hit does not have"),
        ('{"p": pages.now(page="page")}', '{"page": pages.now(page="page")}', PAGES, "lookup 'page': Hit has a field"),
        ('{"p": pages.now(page="page")}', '{"p": pages}', PAGES, "lookup 'p': FileTable is not a look-up, such as"),
        ('{"p": pages.now(page="page")}', '["p"]', PAGES, "lookup is a list, not a dict of names"),
        ('"p.section"', '"p.sect"', PAGES, "'p.sect'"),
        ("pages.csv", "../pages.csv", PAGES, "no file '../pages.csv' beside definitions.py"),
        ("pages.csv", "pages.csv", PAGES + "/c," + "x" * 2**24, "pages.csv is larger than 16 MB"),
        ("pages.csv", "pages.csv", "page,section\n", "pages.csv: no rows; a table has at least one"),
        ("pages.csv", "pages.csv", PAGES + "/a,x\n", "pages.csv:4: '/a' is the key of line 2, too"),
        ("pages.csv", "pages.csv", PAGES + ",x\n", "pages.csv:4: the key page is empty"),
        ("pages.csv", "pages.csv", PAGES + "/c\n", "pages.csv:4: 1 fields; the header has 2"),
        ("pages.csv", "pages.csv", "page,a b\n/a,x\n", "pages.csv:1: 'a b' is not a name"),
        ("pages.csv", "pages.csv", "page,PAGE\n/a,x\n", "pages.csv:1: two columns have one name"),
        ("pages.csv", "pages.csv", 'page,a\n/a,"x', "pages.csv:2: unexpected end of data"),
        ("pages.csv", "pages.csv", "page,a\n" + "".join(f"{n},x\n" for n in range(100_001)), "more than 100000 rows"),
    ],
)  # fmt: skip
def test_what_cannot_be_looked_up_is_refused_in_a_sentence(folder: Path, old: str, new: str, content: str, sentence: str) -> None:
    assert old in LOOKING
    (folder / "definitions.py").write_text(LOOKING.replace(old, new))
    (folder / "pages.csv").write_text(content)
    with pytest.raises(DefinitionError) as error:
        project.load(folder)
    assert sentence in str(error.value)
    assert str(error.value).startswith("definitions.py:")


def test_a_table_is_in_the_project_that_looks_up_in_it(folder: Path) -> None:
    table = LOOKING.replace("pages.now", "newest.now").replace("sections = ", NEWEST).replace("p.section", "p.bytes")
    (folder / "definitions.py").write_text(table)
    assert [*project.load(folder).views] == ["newest_versions", "sections"]
    (folder / "definitions.py").write_text(f"{table}VIEWS = (sections,)\n")
    with pytest.raises(DefinitionError, match="lookup 'p': its table is not in VIEWS; assign it to a variable; tables: none"):
        project.load(folder)


@pytest.mark.parametrize(
    ("type_", "key", "codes"),
    [
        ("BIGINT", "cents", ["50", "+149", "-7"]),
        ("HUGEINT", "CAST(cents AS HUGEINT) * 10000000000000000000", ["500000000000000000000", "0"]),
        ("decimal(9, 2)", "CAST(cents * 0.01 AS DECIMAL(9, 2))", ["0.5", "1.49"]),
        ("DOUBLE", "cents / 4", ["12.5", "3725e-2"]),
        ("BOOLEAN", "cents > 60", ["true", "false"]),
        ("DATE", 'CAST("at" AS DATE) + CAST(cents AS INTEGER)', ["1970-02-20", "1970-05-30"]),
        ("TIMESTAMPTZ", '"at" + to_seconds(cents)', ["1970-01-01T00:00:50Z", "1970-01-01 01:02:29+01"]),
        ("BLOB", "encode(region)", ["NO", "IT"]),
    ],
)
def test_typed_keys_find_what_python_finds(type_: str, key: str, codes: list[str]) -> None:
    """The columns of a row are of their types, too; the oracle's rows are those of Python's values."""
    content = "code,rate,since\n" + "".join(f"{code},{n}.50,2026-03-0{n + 1}\n" for n, code in enumerate(codes))
    file = FileTable("typed.csv", "code", content.encode(), (("code", type_), ("rate", "DECIMAL(9, 2)"), ("since", "DATE")))
    view = View(
        SALES,
        lookup={"r": file.now(code=key)},
        measures={"n": count(), "found": count(filter="r IS NOT NULL"), "tax": total("r.rate"), "last": maximum("r.since")},
        name="typed",
    )
    events = ((50, "NO"), (149, "IT"), (-7, "XX"), (0, "no"), (61, None))
    sales = [Sale(id=cents, trial=1, at=EPOCH, region=region, cents=cents) for cents, region in events]
    (row,) = checked_answer(view, sales)
    assert row["n"] == len(sales)
    assert row["found"] >= len(codes)


@pytest.mark.parametrize(
    ("types", "content", "sentence"),
    [
        ({"page": "BIGINT"}, "page,n\n1,a\nx,b\n", "pages.csv:3: page 'x' is not of type BIGINT"),
        ({"page": "BIGINT"}, "page,n\n1.5,a\n", "pages.csv:2: page '1.5' is not of type BIGINT"),
        ({"page": "BIGINT"}, "page,n\n1,a\n2,b\n01,c\n", "pages.csv:4: '01' is the key of line 2, too"),
        ({"n": "DECIMAL(4, 2)"}, "page,n\n/a,1.234\n", "pages.csv:2: n '1.234' is not of type DECIMAL(4,2)"),
        ({"n": "DATE"}, "page,n\n/a,2026-02-30\n", "pages.csv:2: n '2026-02-30' is not of type DATE"),
        ({"n": "DATE"}, "page,n\n/a,2026-02-03 10:00\n", "pages.csv:2: n '2026-02-03 10:00' is not of type DATE"),
        ({"n": "DOUBLE"}, "page,n\n/a,nan\n", "pages.csv:2: n 'nan' is not of type DOUBLE"),
        ({"m": "DATE"}, "page,n\n/a,1\n", "pages.csv:1: types has 'm', which is not a column; columns: page, n"),
        ({"n": "TIMESTAMP"}, "page,n\n/a,1\n", "pages.csv: types, 'n': 'TIMESTAMP' is not the type of a column: "),
        ({"n": "int) + (1"}, "page,n\n/a,1\n", "'int) + (1' is not the type of a column: example: 'DECIMAL(9, 2)'"),
        ({"n": 1}, "page,n\n/a,1\n", "types={'n': 1} is not a dict of SQL types, such as {'code': 'BIGINT'}"),
    ],
)  # fmt: skip
def test_a_value_that_is_not_of_its_columns_type_is_refused_in_a_sentence(
    folder: Path, types: dict[str, object], content: str, sentence: str
) -> None:
    (folder / "definitions.py").write_text(LOOKING.replace('key="page")', f'key="page", types={types!r})'))
    (folder / "pages.csv").write_text(content)
    with pytest.raises(DefinitionError) as error:
        project.load(folder)
    assert sentence in str(error.value)


def test_a_type_is_part_of_the_fingerprint() -> None:
    typed = FileTable("regions.csv", "code", REGIONS.content.replace(b"x", b"1"), (("rate", "BIGINT"),))
    other = replace(typed, types=(("rate", "DECIMAL(9, 2)"),))
    plain = replace(AREAS, where=None, measures={"n": count()}, keys={"area": "r.area"})
    marks = {fingerprint(replace(plain, lookup={"r": each.now(code="region")})) for each in (typed, other)}
    assert len(marks) == 2


def test_mapping_of_rows_is_what_the_file_says() -> None:
    assert REGIONS.rows == {key: {"area": area or None, "rate": rate} for key, (area, rate) in ROWS.items()}
