"""The mutation tester's command: plant small bugs at random, run the tests that reach them, report what survived."""

import argparse
import gc
import hashlib
import importlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tandem.infra import folders
from tests.mutation import equivalents
from tests.mutation.changes import Change, changes, differs
from tests.mutation.reach import Reach, read
from tests.mutation.trial import Outcome, Tree, ended

PATHS = ("views", "ledger", "batch", "speed", "serving/memory")
_NOT_PRODUCT = ("views/oracle/", "views/verify/laws.py", "views/verify/random_events.py", "views/testing.py")
"""What tests of projects are made of: nothing that answers depend on."""
_COMPUTING = "not slow and not spark and not broker"
_TESTS = (
    *(
        f"tests/{name}"
        for name in ("views", "ledger", "speed", "batch", "serving", "agreement", "laws", "simulation", "together")
    ),
    "tests/cli/records",  # what of views only a command needs
)
_ELSEWHERE = tuple(f"tests/serving/{name}" for name in ("http", "page", "project_code", "access"))
"""What these reach of the product runs in servers that they start."""
_MOST_S = 60
"""A test that takes longer while it is recorded waits for something, and is not used."""
_LOADED = ("duckdb", "deltalake", "hypothesis", "kafka", "msgspec", "numpy", "pandas", "pyarrow.dataset", "pyspark.sql", "pytest")
"""Loaded before the first trial, whose forks share them: loading them takes longer than most trials."""
_LEAST = 0.9


@dataclass(frozen=True)
class Mutant:
    """A change of a file's text."""

    change: Change
    text: str

    def __str__(self) -> str:
        old, new = self.change.shown(self.text)
        return f"{self.change.file}:{self.change.line} {self.change.within}\n    - {old}\n    + {new}"


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 if fewer mutants were caught than asked for."""
    asked = _parser().parse_args(arguments)
    root = folders.ROOT
    files = list(_files(root, asked.paths))
    if not files:
        sys.stderr.write(f"{' '.join(asked.paths)} has no file that is tested by mutants; such as views/measures has some\n")
        return 2
    reach = _reached(root, asked.record, processes=asked.processes)
    drawn = draw(root, files, asked.sample, asked.seed)
    sys.stdout.write(f"{len(drawn)} mutants of {len(files)} files, seed {asked.seed}\n")
    outcomes: dict[Mutant, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="tandem-mutants-") as folder:
        for mutant, outcome in tried(root, Path(folder), drawn, reach, seconds=asked.seconds, processes=asked.processes):
            outcomes[mutant] = outcome
            if outcome is not Outcome.CAUGHT:
                sys.stdout.write(f"{outcome}: {mutant}\n")
                sys.stdout.flush()
    score = _report(outcomes)
    return 0 if score >= asked.least else 1


def draw(root: Path, files: Iterable[str], sample: int | None, seed: str) -> list[Mutant]:
    """Mutants of the files but equivalents, in random order, at most `sample`; the same ones for an equal seed and equal code."""
    texts = {file: (root / file).read_text() for file in files}
    every = [Mutant(change, text) for file, text in texts.items() for change in changes(file, text)]
    random.Random(seed).shuffle(every)
    kept = []
    for mutant in every:
        if len(kept) == sample:
            break
        if differs(mutant.change, mutant.text) and equivalents.reason(mutant.change, mutant.text) is None:
            kept.append(mutant)
    return kept


def tried(
    root: Path, folder: Path, mutants: Sequence[Mutant], reach: Reach, *, seconds: float, processes: int
) -> Iterator[tuple[Mutant, Outcome]]:
    """Each mutant with what became of it, as they end. A mutant's tests take at most about `seconds` where nothing is planted."""
    for name in _LOADED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # what the forks share is never garbage; looking through it costs each of them time and memory
    folder.mkdir(exist_ok=True)
    free = [Tree.copied(root, folder / str(number)) for number in range(processes)]
    running: dict[int, tuple[Tree, Mutant, float]] = {}
    waiting = list(mutants)[::-1]
    while waiting or running:
        while waiting and free:
            mutant = waiting.pop()
            tests = _within(reach.of(mutant.change), reach.seconds, seconds)
            if not tests:
                yield mutant, Outcome.UNREACHED
                continue
            tree = free.pop()
            process = tree.begin(mutant.change, tests, tree.folder.with_suffix(".log"))
            # Four times what they take, and the start; a busy machine is slow.
            running[process] = tree, mutant, time.monotonic() + 60 + 4 * sum(reach.seconds[test] for test in tests)
        for process, (tree, mutant, deadline) in list(running.items()):
            outcome = ended(process, deadline)
            if outcome is not None:
                del running[process]
                tree.restore(mutant.change)
                free.append(tree)
                yield mutant, outcome
        with suppress(InterruptedError):
            time.sleep(0.02)  # there is no wait for one of several groups


def _within(tests: Iterable[str], costs: Mapping[str, float], seconds: float) -> list[str]:
    kept: list[str] = []
    left = seconds
    for test in tests:
        left -= costs[test]
        if left < 0 and kept:
            break
        kept.append(test)
    return kept


def _files(root: Path, paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        found = sorted((root / path).rglob("*.py")) if (root / path).is_dir() else [root / path]
        for file in found:
            name = str(file.relative_to(root))
            if file.is_file() and not name.startswith(_NOT_PRODUCT):
                yield name


def _reached(root: Path, folder: Path | None, *, processes: int) -> Reach:
    """What each test reaches: recorded once for a state of the code, in a folder of the cache."""
    folder = folder or folders.cache(os.environ) / "reach" / _digest(root)
    if not (folder / "complete").exists():
        folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.write("recording which lines each test reaches\n")
        sys.stdout.flush()
        environ = {**os.environ, "REACH_FOLDER": str(folder), "TANDEM_HYPOTHESIS": "first"}
        workers = str(processes if processes > 1 else 0)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.mutation.reaching", "-n", workers, "--dist", "loadfile"]
        command += ["-m", _COMPUTING, f"--timeout={_MOST_S}", *(f"--ignore={place}" for place in _ELSEWHERE)]
        done = subprocess.run([*command, *_TESTS], cwd=root, env=environ, check=False)
        if done.returncode not in {0, 1}:
            raise SystemExit(f"pytest ended with {done.returncode} while it recorded what tests reach")
        (folder / "complete").touch()
    return read(folder, root)


def places() -> list[str]:
    """Where the tests lie that are recorded, and those of them that are left out."""
    return [*_TESTS, *_ELSEWHERE]


def _digest(root: Path) -> str:
    found = hashlib.sha256()
    for package in (*PATHS, "serving", "infra", "tests"):
        for file in sorted((root / package).rglob("*.py")):
            found.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes())
    return found.hexdigest()[:16]


def _report(outcomes: Mapping[Mutant, Outcome]) -> float:
    """Write the score of each file and of all, and give that of all: the share of mutants that tests caught or that hung."""
    files: dict[str, Counter[Outcome]] = {}
    for mutant, outcome in outcomes.items():
        files.setdefault(mutant.change.file, Counter())[outcome] += 1
    total = sum(files.values(), Counter[Outcome]())
    for name, counts in [*sorted(files.items()), ("all", total)]:
        seen = counts[Outcome.CAUGHT] + counts[Outcome.HUNG]
        rest = ", ".join(f"{counts[each]} {each}" for each in Outcome if each is not Outcome.CAUGHT and counts[each])
        sys.stdout.write(f"{name}: {seen} of {counts.total()} caught{', ' if rest else ''}{rest}\n")
    return (total[Outcome.CAUGHT] + total[Outcome.HUNG]) / max(1, total.total())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tandem test --mutants", description=__doc__)
    parser.add_argument(
        "paths", nargs="*", default=PATHS, metavar="PATH", help="files or folders (default: all that answers depend on)"
    )
    parser.add_argument("--sample", type=int, default=None, help="how many mutants (default: every one)")
    parser.add_argument("--seed", default=datetime.now(UTC).date().isoformat(), help="draws the sample (default: today's date)")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="how long a mutant's tests may take without a bug (default 60)"
    )
    parser.add_argument("--processes", type=int, default=2, help="tests and trials at once (default 2)")
    parser.add_argument("--least", type=float, default=_LEAST, help="the share that must be caught (default 0.9)")
    parser.add_argument("--record", type=Path, default=None, help="the folder of what tests reach (default: one of the cache)")
    return parser
