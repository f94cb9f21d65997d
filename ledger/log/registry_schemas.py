"""The schemas that the log's records name, fetched from registries once and kept with the tables.

An id never changes its meaning, and neither does an answer here: an id that the registry did not have when a record first
named it stays without schema, so that all layers decode the record alike, now and in every recompute. After the first fetch no
registry is needed. Only records of the log decide that: a value that is not in the log yet leaves nothing.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from threading import Lock
from typing import Final

import pyarrow as pa

from tandem.infra import clock
from tandem.infra.settings import RegistrySettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.registry_client import RegistryAway, RegistryClient
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.schema_ids import dump_schemas, load_schemas, missing_schemas, needs_registry, with_schemas
from tandem.views.project.project import SCHEMAS_FILE
from tandem.views.source.formats.schema_registry import FetchedSchema, FetchedSchemas, SchemaKey
from tandem.views.source.source import Source

SCHEMA: Final = pa.schema([("at", pa.timestamp("us", "UTC")), ("schemas", pa.string())])
"""`schemas` is what `dump_schemas` writes."""
_AGAIN_S: Final = 1.0
"""A registry of several servers may not have a new schema on all of them yet: ids that it does not have are asked for twice."""
_ROUND: Final = 100
"""The most ids that are asked for before their answers are stored: values of another format may look like any number of ids."""


class TooManyUnknownIds(RegistryAway, code="registry-ids-unknown"):
    """Records name more ids that their registry does not have than `registry.max_unknown_ids`. Their source waits."""


@dataclass
class RegistrySchemas:
    """The fetched schemas of a project. Those that are fetched are added to the tables, unless there are none or not `stores`.

    For any thread.
    """

    settings: RegistrySettings
    tables: Tables | None = None
    now: Callable[[], datetime] = clock.now
    sleep: Callable[[float], None] = time.sleep
    stores: bool = True
    _known: dict[SchemaKey, FetchedSchema] = field(default_factory=dict, init=False, repr=False)
    _content: bytes | None = field(default=None, init=False, repr=False)
    _journal: Journal | None = field(default=None, init=False, repr=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.tables is not None:
            self._journal = _journal_of(self.tables)

    def attach(self, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """A release's files for tasks, with the schemas that are known here."""
        with self._lock:
            if not self._known:
                return files
            if self._content is None:
                self._content = dump_schemas(self._known)
            return {**files, SCHEMAS_FILE: self._content}

    def load(self) -> None:
        """Read what is stored, also by other processes. Raises Unreadable."""
        if self._journal is not None:
            self._add(_schemas_of(self._journal.read()))

    def fetch(self, missing: Iterable[SchemaKey], *, source: str) -> None:
        """Fetch what neither memory nor the journal has, and add it to both; `source` names these schemas.

        Raises RegistryAway, Unreadable, Unwritable, TooManyUnknownIds. What was fetched before stays.
        """
        self.load()
        wanted = [key for key in missing if key not in self._known]
        for start in range(0, len(wanted), _ROUND):
            answers = self._ask(wanted[start : start + _ROUND])
            beyond = self._surplus(answers)
            self._keep({key: answer for key, answer in answers.items() if key not in beyond})
            if beyond:
                most, first = self.settings.max_unknown_ids, beyond[0]
                raise TooManyUnknownIds(
                    f"source '{source}': its records name more than {most} ids that {first.registry} does not have, the bound of "
                    f"`registry.max_unknown_ids`; the next is {first.id}: register its schema, correct the decoder if these "
                    "values have another format, or raise the setting"
                )

    def _surplus(self, answers: FetchedSchemas) -> Sequence[SchemaKey]:
        """The ids without schema that are too many beside those of their registry that are stored."""
        unknown = Counter(key.registry for key, schema in self._known.items() if not schema.kind)
        beyond = []
        for key, answer in answers.items():
            if not answer.kind:
                unknown[key.registry] += 1
                if unknown[key.registry] > self.settings.max_unknown_ids:
                    beyond.append(key)
        return beyond

    def peek(self, source: Source, missing: Iterable[SchemaKey]) -> Source:
        """The source with these schemas besides, for values that may never be in the log. Raises RegistryAway, Unreadable.

        Nothing is stored, and that an id has no schema is not remembered.
        """
        self.load()
        answers = self._ask([key for key in missing if key not in self._known])
        self._add({key: answer for key, answer in answers.items() if answer.kind})
        return with_schemas(source, {**answers, **self._known})

    def _ask(self, wanted: Sequence[SchemaKey]) -> dict[SchemaKey, FetchedSchema]:
        """The registries' answers. Raises RegistryAway."""
        client = RegistryClient(self.settings)
        answers = {key: client.fetch(key) for key in wanted}
        if absent := [key for key, answer in answers.items() if not answer.kind]:
            self.sleep(_AGAIN_S)
            answers |= {key: client.fetch(key) for key in absent}
        return answers

    def _keep(self, answers: FetchedSchemas) -> None:
        """Add answers to memory and journal. Raises Unreadable, Unwritable."""
        if self._journal is None or not self.stores:
            self._add(answers)
            return

        _add_row(self._journal, answers, self.now)
        self.load()

    def ready(self, source: Source, records: pa.Table) -> Source:
        """The source with all schemas that these records name. Raises RegistryAway, Unreadable, Unwritable."""
        if not needs_registry(source):
            return source
        source = self.bind(source)
        if missing := missing_schemas(source, records):
            self.fetch(missing, source=source.name)
            source = self.bind(source)
        return source

    def ready_for(self, source: Source, values: Sequence[bytes]) -> Source:
        """The same for values that are not in the log. Raises RegistryAway, Unreadable, Unwritable."""
        if not values or not needs_registry(source):
            return source
        return self.ready(source, as_records(source, values, topic_id="", offsets=range(len(values)), at=self.now()))

    def bind(self, source: Source) -> Source:
        """The source with the schemas that are known here."""
        return with_schemas(source, self._known)

    def _add(self, schemas: FetchedSchemas) -> None:
        with self._lock:
            if schemas.keys() - self._known.keys():
                self._known, self._content = {**schemas, **self._known}, None


def of_source(source: Source, settings: Settings, tables: Tables, now: Callable[[], datetime]) -> RegistrySchemas | None:
    """The schemas of a project's tables, with those that are stored; None for a source that reads no registry.

    Raises Unreadable.
    """
    if not needs_registry(source):
        return None
    schemas = RegistrySchemas(settings.registry, tables, now)
    schemas.load()
    return schemas


def schemas_in(settings: RegistrySettings, tables: Tables) -> RegistrySchemas:
    """The schemas that are stored, for a command: what it fetches decides nothing, since the layers ask for themselves.

    Raises Unreadable.
    """
    schemas = RegistrySchemas(settings, tables, stores=False)
    schemas.load()
    return schemas


def add_schemas(tables: Tables, schemas: FetchedSchemas, *, at: datetime) -> None:
    """Store schemas of another installation, besides those that are stored. Raises Unreadable, Unwritable."""
    if schemas:
        _add_row(_journal_of(tables), schemas, lambda: at)


def _journal_of(tables: Tables) -> Journal:
    return Journal(tables, tables.control("schemas"), SCHEMA)


def _add_row(journal: Journal, answers: FetchedSchemas, now: Callable[[], datetime]) -> None:
    def derive(snapshot: JournalSnapshot) -> Row | None:
        stored = _schemas_of(snapshot)  # another process may have asked meanwhile: the first answer counts
        new = {key: answer for key, answer in answers.items() if key not in stored}
        return {"at": now(), "schemas": dump_schemas(new).decode()} if new else None

    journal.add(derive)


def _schemas_of(snapshot: JournalSnapshot) -> dict[SchemaKey, FetchedSchema]:
    schemas: dict[SchemaKey, FetchedSchema] = {}
    for row in reversed(snapshot.rows()):  # of two answers the first counts
        schemas.update(load_schemas(row["schemas"].encode()))
    return schemas
