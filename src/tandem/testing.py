"""For a project's own tests: what a view answers for events written down in the test, without Java or Kafka.

`tandem.pytest_plugin` has the same as fixtures.
"""

from tandem.views.testing import answer, events_table, rejected
from tandem.views.verify.every_cut import Answer, AnswerAtCuts, at_every_cut, checked_answer
from tandem.views.verify.every_prefix import check_expectations

__all__ = ["Answer", "AnswerAtCuts", "answer", "at_every_cut", "check_expectations", "checked_answer", "events_table", "rejected"]
