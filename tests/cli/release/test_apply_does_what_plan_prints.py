"""What `tandem plan` prints is what `tandem apply` does, as the tables show it afterwards, for any change of definitions."""

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.cli.__main__ import main
from tandem.ledger.publish import releases
from tandem.ledger.publish.batch_parts import versions
from tandem.ledger.publish.diffs import ReleaseDiffs
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.rates import RunRates
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime.commit_files import spans_of
from tandem.views.errors import TandemError
from tandem.views.project import project
from tests.batch.release.test_apply import promoted, sale
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop, records

Edit = Callable[[str], str]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    return MemoryShop.of(tmp_path, monkeypatch)


def _edit(old: str, new: str) -> Edit:
    def edit(definitions: str) -> str:
        return definitions.replace(old, new)

    return edit


EDITS: Mapping[str, Edit] = {
    "a comment": _edit("SOURCES =", "# one\nSOURCES ="),
    "a label": _edit('identity=("id",)', 'identity=("id",), clock_skew=timedelta(hours=2)'),
    "a new view": _edit(
        "VIEWS = (", 'per_shop = View(sales, keys={"shop": "shop"}, measures={"n": count()})\nVIEWS = (per_shop, '
    ),
    "a new view and its rollup": _edit(
        "VIEWS = (",
        'best = View(sales, keys={"shop": "shop"}, measures={"most": maximum("cents")})\n'
        "best_of_all = rollup(best, keys=())\nVIEWS = (best_of_all, best, ",
    ),
    "a changed measure": _edit('mean("cents")', 'mean("cents + 1")'),
    "a new measure": _edit('"biggest": ', '"least": total("-cents"), "biggest": '),
    "a new measure that fails for some events": _edit('"biggest": ', '"root": total("sqrt(cents)"), "biggest": '),
    "a changed key": _edit('keys={"shop": "shop"},\n    window', 'keys={"shop": "upper(shop)"},\n    window'),
    "a changed window": _edit("hours=1", "hours=3"),
    "a changed filter": _edit("cents < 0", "cents < -10"),
    "a renamed view": _edit("refunds", "returns"),
    "a removed view": _edit("per_hour, ", "*(), "),
    "a field that no view reads": _edit("cents: int\n", "cents: int\n    weather: str | None = None\n"),
    "a field that a view reads": _edit("cents: int\n", "cents: int\n    till: int = 3\n"),
    "the other identity": _edit('identity=("id",)', 'identity=("id", "shop")'),
}
IMPORTS = _edit("from datetime import datetime\n", "from datetime import datetime, timedelta\nfrom tandem import rollup\n")


def edited(*names: str) -> str:
    definitions = IMPORTS(DEFINITIONS)
    for name in names:
        before = definitions
        definitions = EDITS[name](definitions)
        assert definitions != before or len(names) > 1, name
    return definitions.replace('mean("cents")', 'mean("cents + till")') if "a field that a view reads" in names else definitions


def drawn(dice: random.Random) -> str:
    """Definitions with two to four edits."""
    return edited(*dice.sample(sorted(EDITS), dice.randrange(2, 5)))


def printed(shop: Shop, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    """The document of `plan`, which writes nothing."""
    before = files(shop)
    code = main(["plan", "--project", str(shop.folder), "--json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code in (0, 1, 3), document
    assert (code == 1) is ("error" in document)
    assert files(shop) == before
    return document


def files(shop: Shop) -> dict[Path, int]:
    return {path: path.stat().st_size for path in Path(shop.settings.state).rglob("*") if path.is_file()}


@dataclass
class Observed:
    """What the tables hold before an `apply`, to see what it did."""

    shop: Shop
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        tables = self.shop.tables
        self.records, self.rates = len(StandingReleases(tables).records()), len(RunRates(tables).history())
        self.compared = ReleaseDiffs(tables).newest()
        self.files = files(self.shop)

    def apply(self, terms: Terms) -> apply.Applied:
        return apply.run(replace(self.shop.run("apply"), say=self.said.append), self.shop.project, terms)

    def steps(self, live: Publication, number: int) -> dict[str, Any]:
        """What was done, in the form in which `plan` prints it."""
        tables = self.shop.tables
        release = Releases(tables).load(number)
        new = StandingReleases(tables).records()[self.records :]
        begun = any(one.state.release == number for one in new)
        state = StandingReleases(tables).state_of(number)
        assert state is not None
        diff = ReleaseDiffs(tables).newest()[number]
        return {
            "release": number,
            "ready": not begun,
            "retires": [one.state.release for one in new if one.stage == "retired"],
            "begins": {
                source: span.end.to_json()
                for source in (release.sources if begun else ())
                for span in spans_of(tables, number, source)[:1]
            },
            "decodes": [source for source, decoder in release.sources.items() if self.wrote(tables.events(source, decoder))],
            "keeps": self.kept(),
            "folds": self.folds(live, state, release) if begun else {},
            "compares": [
                name for name, view in diff.views.items() if view["status"] == "changed" and self.compared.get(number) != diff
            ],
        }

    def wrote(self, address: str) -> bool:
        """Whether files were added to a table."""
        return any(
            path not in self.files and path.suffix == ".parquet" for path in files(self.shop) if Path(address) in path.parents
        )

    def kept(self) -> dict[str, list[str]]:
        kept = (line.split(": keeps its batch view: it does not read ") for line in self.said if "keeps its batch view" in line)
        return {name: rest.split(", and no ")[0].split(", ") for name, rest in kept}

    def folds(self, live: Publication, state: Publication, release: releases.Release) -> dict[str, Any]:
        """By source that was folded: the views that got a batch version which the live ones lack."""
        definitions, alone = project.load_files(release.files), self.alone()
        there = {part.version for view in live.views.values() for part in view.parts}
        found: dict[str, Any] = {rate.source: {} for rate in RunRates(self.shop.tables).history()[self.rates :]}
        for name, view in state.views.items():
            if view.parts and not {part.version for part in view.parts} <= there:
                assert view.parts[-1].version in versions(self.shop.tables, view.address(self.shop.tables, name))
                found.setdefault(definitions.views[name].source.name, {})[name] = alone.get(name)
        return found

    def alone(self) -> dict[str, list[str]]:
        """The views of which only new measures were folded, at first."""
        lines = (line.split(": folding only the new measures (") for line in self.said if "folding only" in line)
        return {name: rest.split(")")[0].split(", ") for name, rest in lines}


def agree(shop: Shop, capsys: pytest.CaptureFixture[str], definitions: str, *, terms: Terms | None = None) -> dict[str, Any]:
    """Plan and apply the definitions; the plan as it was printed."""
    shop.define(definitions)
    options = ["--accept-shorter-history"] if terms is not None and terms.shorter_history else []
    document, seen = printed(shop, capsys, *options), Observed(shop)
    if "error" in document:
        with pytest.raises(TandemError, match=re.escape(document["error"])):
            seen.apply(terms or Terms(max_lag=0))
        assert (seen.said, files(shop)) == ([], seen.files)
        return document
    plan: dict[str, Any] = document["apply"]
    live = Publications(shop.tables).latest()
    assert live is not None
    done = seen.apply(terms or Terms(max_lag=0))
    if plan is None:
        assert (done.release, seen.said) == (None, [])
        return document
    assert done.release is not None
    told = seen.steps(live, done.release)
    # A plan names what only the data decide: a view that is kept is not folded, one that is not kept is.
    kept = told.pop("keeps")
    assert kept.items() <= plan["keeps"].items()
    assert len(kept) + sum("is recomputed: " in line for line in seen.said) == len(plan["keeps"])
    folds = {
        source: {name: alone for name, alone in views.items() if name not in kept} for source, views in plan["folds"].items()
    }
    assert told | {"keeps": plan["keeps"]} == plan | {"folds": folds}
    for rate in RunRates(shop.tables).history()[seen.rates :]:
        if rate.source not in plan["decodes"]:
            assert document["estimates"][rate.source]["rows"] == rate.rows
            assert rate.views == len(folds[rate.source])
    work = {name for name, view in document["views"].items() if view["work"] is not None}
    assert work == {name for views in plan["folds"].values() for name in views}
    assert document["nothing_to_compute"] is not (bool(folds) or bool(plan["decodes"]))
    return document


@pytest.fixture
def published(shop: Shop) -> Shop:
    """A shop with a published cut, whose records hold a field that definitions do not name yet."""
    shop.define(edited())
    shop.sell(records(61, 120))
    shop.sell({0: [sale("held", '"wet"')], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    return shop


def test_each_kind_of_change_is_done_as_it_was_printed(published: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    plans = {name: agree(published, capsys, edited(name))["apply"] for name in EDITS}
    assert agree(published, capsys, edited())["apply"] is None, "the live definitions"
    numbers = [plan["release"] for plan in plans.values()]
    assert numbers == list(range(2, 2 + len(EDITS)))
    assert all(plan["retires"] == [before["release"]] for before, plan in pairwise(plans.values()))
    folded = {name: plan["folds"].get("sales", {}) for name, plan in plans.items()}
    assert folded["a new measure"] == {"per_hour": ["least"]}
    assert folded["a new measure that fails for some events"] == {"per_hour": ["root"]}
    assert folded["a changed filter"] == {"refunds": None}
    assert folded["a comment"] == folded["a label"] == folded["a renamed view"] == folded["a removed view"] == {}
    assert folded["a new view and its rollup"] == {"best": None}
    assert plans["a field that no view reads"]["keeps"] == {"per_hour": ["weather"], "refunds": ["weather"]}
    assert plans["a field that a view reads"]["decodes"] == ["sales"]


def test_what_is_ready_is_not_built_again(published: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    first, again = (agree(published, capsys, edited("a changed filter")) for _ in range(2))
    assert (first["apply"]["ready"], again["apply"]["ready"], again["apply"]["release"]) == (False, True, 2)
    assert again["nothing_to_compute"]
    promoted(published)
    # Beside another live release; the definitions of an earlier release are a new one.
    assert agree(published, capsys, edited("a changed filter", "a new view"))["apply"]["release"] == 3
    assert agree(published, capsys, edited())["apply"]["release"] == 4


@pytest.mark.each_run("0")
@pytest.mark.parametrize("seed", range(2))
def test_any_change_is_done_as_it_was_printed(published: Shop, capsys: pytest.CaptureFixture[str], seed: int) -> None:
    """From any definitions to any others: each second release goes live. What `plan` refuses, `apply` refuses alike."""
    dice = random.Random(seed)
    for number in range(4):
        plan = agree(published, capsys, drawn(dice)).get("apply")
        if number % 2 and plan is not None:
            promoted(published)


def test_before_a_cut_nothing_is_computed(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.define(edited())
    shop.sell(records(62, 20))
    write_archive.run(shop.run("archive"), shop.project)
    document = agree(shop, capsys, edited("a changed filter"))
    assert (document["nothing_to_compute"], document["estimates"], document["apply"]["folds"]) == (True, {}, {})


def test_new_measures_are_not_folded_alone_over_a_shorter_history(published: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    def more(parent: Publication | None) -> Publication:
        """As if the archive had had ten records more when the live views were built."""
        assert parent is not None
        counts = parent.counts["sales"]
        return replace(parent, counts={"sales": replace(counts, holes=counts.holes + 10)})

    Publications(published.tables).publish(more)
    terms = Terms(shorter_history=True, max_lag=0)
    assert agree(published, capsys, edited("a new measure"), terms=terms)["apply"]["folds"] == {"sales": {"per_hour": None}}
