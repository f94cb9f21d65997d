"""Between machines a lease decides who writes realtime tables: its token refuses the claims of every earlier holder."""

import pytest

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta.addresses import SPEED, Tables
from tandem.ledger.delta.one_writer import refuse_other_writers
from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced
from tandem.ledger.realtime.commit_files import open_or_create, spans_of
from tandem.ledger.realtime_writer import NewerEpoch
from tests.infra.storage.s3 import a_bucket
from tests.ledger.delta.held import held
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, fold


def test_an_overtaken_speed_layer_neither_commits_nor_claims_again() -> None:
    with a_bucket() as (url, options):
        tables = Tables(url, options)
        first = held(tables, SPEED, what="the first")
        paused = claim(first)
        commit_each(paused, at(1, 1))
        second = held(tables, SPEED, what="the second")
        taken = claim(second)
        commit_each(taken, at(2, 2))
        with pytest.raises(NewerEpoch):
            paused.append(fold(at(1, 1), at(2, 2), paused.epoch))
        with pytest.raises(Fenced, match=r"is written by the second .*, with token 2; this process has token 1 and must stop"):
            claim(first)
        commit_each(taken, at(3, 3))
        assert taken.compact(lambda _, partials: partials[0], live=at(0, 0), at=AT, fanout=2)
        ends = [span.end for span in spans_of(tables, 1, SOURCE) if not span.mark]
        assert max(end.get(("T", 0), 0) for end in ends) == 3
        assert refuse_other_writers.token(open_or_create(tables, 1, SOURCE)) == 2


def test_a_batch_command_bridges_without_the_lease_and_leaves_its_token() -> None:
    with a_bucket() as (url, options):
        tables = Tables(url, options)
        writer = claim(held(tables, SPEED))
        commit_each(writer, at(1, 1))
        bridge(tables, 1, SOURCE, to=at(4, 4), by="recompute", at=AT)
        assert refuse_other_writers.token(open_or_create(tables, 1, SOURCE)) == 1
