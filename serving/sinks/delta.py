"""A Delta table as a sink's target: rows and token are one commit.

The token is in the metadata of the commit, and the number of the commit is a transaction of the application `tandem.sink`.
A merge of delta-rs that changes no row makes no commit, so a token without rows is a commit without files.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction

from tandem.ledger.delta.delta_tables import committing, refresh

APPLICATION: Final = "tandem.sink"
TOKEN: Final = "tandem.token"  # noqa: S105 - a name, not a secret
_GONE: Final = "_gone"
_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)


@dataclass
class DeltaTarget:
    """A table whose rows `identity` tells apart; one process at a time writes it."""

    handle: DeltaTable
    identity: Sequence[str]

    def token(self) -> str | None:
        """The token of the newest commit of a sink."""
        refresh(self.handle)
        number = self.handle.transaction_version(APPLICATION)
        for commit in self.handle.history():
            if TOKEN in commit:
                return str(commit[TOKEN]) if commit["version"] == number else None
        return None

    def content(self) -> pa.Table:
        """The rows of the table."""
        return pa.table(self.handle.to_pyarrow_table())

    def write(self, rows: pa.Table, gone: pa.Table, token: str) -> None:
        """Merge rows and deletions in one commit. Raises Conflict, Unwritable."""
        number = self.handle.version() + 1
        properties = CommitProperties(
            custom_metadata={TOKEN: token}, max_commit_retries=0, app_transactions=[Transaction(APPLICATION, number)]
        )
        with committing(self.handle):
            if not rows.num_rows and not gone.num_rows:
                self.handle.create_write_transaction(
                    [], "append", self.handle.schema(), commit_properties=properties, post_commithook_properties=_HOOKS
                )
            else:
                self._merge(rows, gone, properties)
        refresh(self.handle)

    def _merge(self, rows: pa.Table, gone: pa.Table, properties: CommitProperties) -> None:
        kept = rows.append_column(_GONE, pa.array([False] * rows.num_rows, pa.bool_()))
        deleted = gone.append_column(_GONE, pa.array([True] * gone.num_rows, pa.bool_()))
        # Without the brackets delta-rs takes `a IS NOT DISTINCT FROM b AND c` for a comparison with `b AND c`.
        same = " AND ".join(f'(t."{name}" IS NOT DISTINCT FROM s."{name}")' for name in self.identity)
        columns = {f'"{name}"': f's."{name}"' for name in rows.column_names}
        merge = self.handle.merge(
            pa.concat_tables([kept, deleted], promote_options="default"),
            same,
            source_alias="s",
            target_alias="t",
            commit_properties=properties,
            post_commithook_properties=_HOOKS,
        )
        merge.when_matched_delete(f"s.{_GONE}").when_matched_update(columns).when_not_matched_insert(
            columns, f"NOT s.{_GONE}"
        ).execute()
