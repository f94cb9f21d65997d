"""The addresses of Delta tables under one root folder or object-store URI."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tandem.infra.files import private_files
from tandem.infra.settings import Settings
from tandem.infra.storage.mounts import network_file_system
from tandem.infra.storage.resolve import is_local, storage_at
from tandem.infra.storage.storage import Storage
from tandem.ledger.delta import state_format
from tandem.ledger.delta.one_writer.refuse_other_writers import HeldLease, Unclaimed
from tandem.views.errors import TandemError

_FOLDER: Final = "tables"
_CONTROL: Final = "control"
_REALTIME: Final = "realtime"
SPEED: Final = "speed"
"""The name of the lock and lease of the speed layer, which writes the realtime tables."""
_LOCKS: Final = "locks"
_GUARDED: Final = {"log": "archive", "views": "views"}
"""Which lease guards the tables of a folder."""
_FENCED: Final = {"publications": "views", "standing": "views", "runs": "archive", "checked": "archive", "summaries": "archive"}
"""Which lease fences the rows of a journal, if its writer has one. Commands without a lease add rows, too."""


@dataclass(frozen=True)
class Tables:
    """The addresses of all tables under `root`, a folder (made absolute) or a URI; `options` are delta-rs storage options.

    Both delta-rs and Spark accept an address: an absolute path for a folder, else the URI itself. Nothing is read or created
    here; a table exists from its first commit on. `locks` is the folder of lock files on this machine, by default `locks` in a
    root that is a folder. `leases` are those that the process holds now, by name.
    """

    root: str
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    locks: str = ""
    leases: Mapping[str, HeldLease] = field(default_factory=dict, hash=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.local:
            object.__setattr__(self, "root", str(Path(self.root).absolute()))
        if self.local and "%" in self.root:
            # delta-rs decodes such a path twice, and then does not find its own files.
            raise TandemError(f"the folder {self.root} cannot hold tables: its path contains a '%'; choose a path without it")

    @classmethod
    def of(cls, settings: Settings) -> "Tables":
        """The tables of a project: in `storage.root`, else in `tables` of the state folder.

        The lock files of tables on an object store are in the state folder. Raises TandemError for a root on a network file
        system, unless `storage.network` declares that locks work there, and OtherStateFormat for a state folder that has tables
        itself.
        """
        if not is_local(settings.storage.root):
            return cls(settings.storage.root, settings.storage.options, str(settings.folder / _LOCKS))
        root = settings.storage.root or str(settings.folder / _FOLDER)
        if not settings.storage.root and (settings.folder / _CONTROL).is_dir():
            state_format.refuse(str(settings.folder))
        if settings.storage.network == "refuse" and (kind := network_file_system(Path(root))):
            raise TandemError(
                f"{root} is on a network file system ({kind}), where locks may not exclude other hosts; set `storage.root` to a "
                'folder of a local disk, or `storage.network = "locks"` if POSIX locks work there between all hosts'
            )
        return cls(root)

    def make_root(self) -> None:
        """Create the root folder if it does not exist, accessible only to its owner (mode 0700). Raises TandemError."""
        if not self.local:
            return
        try:
            private_files.folder(Path(self.root))
        except OSError as error:
            raise TandemError(f"cannot create the folder {self.root} for tables: {error.strerror or error}") from error

    def below(self, name: str) -> "Tables":
        """Other tables with a root of their own, the folder `name` of this one, such as those of a replay."""
        return Tables(self._at(name), self.options, str(Path(self.locks, name)) if self.locks else "")

    def archive(self, source: str) -> str:
        """The source's records byte for byte; written by Spark."""
        return self._at("log", source, "archive")

    def events(self, source: str, decoder: str) -> str:
        """The archive, decoded under one decoder fingerprint; files by Spark's tasks, commits by delta-rs."""
        return self._at("log", source, decoder, "events")

    def quarantine(self, source: str, decoder: str) -> str:
        """The records that did not decode under one decoder fingerprint; files by Spark's tasks, commits by delta-rs."""
        return self._at("log", source, decoder, "quarantine")

    def view(self, view: str, fingerprint: str) -> str:
        """The batch versions of one fingerprint of a view; files by Spark's tasks, commits by delta-rs."""
        return self._at("views", view, fingerprint)

    def realtime(self, release: int, source: str) -> str:
        """The commits of one release's speed layer for one source; written by delta-rs."""
        return self._at(_REALTIME, str(release), source)

    def realtime_of(self, release: int) -> str:
        """The folder of a release's realtime tables, which holds nothing else."""
        return self._at(_REALTIME, str(release))

    def control(self, *names: str) -> str:
        """A journal: `releases`, `publications`, `gaps`, `runs/<source>`, ...; written by delta-rs."""
        return self._at(_CONTROL, *names)

    def lock(self, name: str) -> Path:
        """The file whose OS lock the one writer of the named tables holds."""
        return Path(self.locks or self._at(_LOCKS), f"{name}.lock")

    def lease(self, address: str) -> HeldLease | None:
        """The lease that a commit to this table needs; None for a table without one, and in a folder, where locks guard.

        Raises Unclaimed if the process does not hold the lease of an archive, events, quarantine or view table.
        """
        folder, _, rest = self.name(address).partition("/")
        if self.local:
            return None
        if folder == _REALTIME:
            return self.leases.get(SPEED)  # cuts and bridges of batch commands need none
        if folder == _CONTROL:
            return self.leases.get(_FENCED.get(rest.partition("/")[0], ""))
        name = _GUARDED.get(folder)
        if name is not None and name not in self.leases:
            raise Unclaimed(f"table {address} was to be written without the lease {name!r}")
        return None if name is None else self.leases[name]

    def decoded(self, source: str, decoder: str) -> str:
        """The folder of a decoder's events and quarantine, which contains nothing else."""
        return self._at("log", source, decoder)

    def storage(self) -> Storage:
        """The storage of all tables' files, which are named relative to the root; `name` returns a table's name there."""
        return storage_at(self.root, self.options)

    def name(self, address: str) -> str:
        """The name of a table, or of a folder of tables, relative to the root."""
        return address.removeprefix(f"{self.root.rstrip('/')}/")

    def address(self, name: str) -> str:
        """The address of the table of this name."""
        return self._at(name)

    def names(self, *within: str) -> list[str]:
        """The distinct first parts of the names of all files in a folder of tables, sorted: sources, for `control("runs")`."""
        prefix = "/".join(within)
        return sorted({head.name[len(prefix) + 1 :].partition("/")[0] for head in self.storage().list_after(prefix)})

    @property
    def local(self) -> bool:
        """Whether the root is a folder of this machine."""
        return is_local(self.root)

    def _at(self, *names: str) -> str:
        if self.local:
            return str(Path(self.root, *names))
        return "/".join((self.root.rstrip("/"), *names))
