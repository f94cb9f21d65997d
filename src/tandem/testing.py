"""For a project's own tests: what a view answers for events written down in the test, without Java or Kafka."""

from views.testing import answer, events_table, rejected

__all__ = ["answer", "events_table", "rejected"]
