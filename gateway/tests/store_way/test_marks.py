"""Which gateways clients avoid according to the metadata log."""

from __future__ import annotations

from tidegate_gateway.store_way.marks import Marks, Sign
from tidegate_gateway.store_way.store_way import BROKEN_SECONDS, StoreWay, Way


def test_a_way_is_broken_once_calls_fail_for_a_while() -> None:
    way = Way()
    assert not way.is_broken(9.0)
    way.failed(1.0, "refused")
    way.failed(1.9, "refused again")
    assert not way.is_broken(1.0 + BROKEN_SECONDS - 0.1)
    assert way.is_broken(1.0 + BROKEN_SECONDS)
    assert way.why == "refused again"
    way.succeeded(2.0)
    assert not way.is_broken(9.0)


def test_a_call_that_hung_breaks_no_way_on_which_others_succeeded_meanwhile() -> None:
    way = Way()
    way.succeeded(9.9)
    way.failed(0.0, "no answer")
    assert not way.is_broken(10.0)
    assert way.is_broken(9.9 + BROKEN_SECONDS)


def test_a_failed_read_alone_breaks_nothing() -> None:
    way = StoreWay(read_failed=True)
    assert not way.is_broken(1000.0)
    way.gets.failed(1.0, "refused")
    assert way.is_broken(1000.0)
    assert way.why == "refused"


def test_a_marked_gateway_is_avoided_once_another_one_commits_for_a_while() -> None:
    marks = Marks()
    marks.look([Sign(1, 5, is_marked=False), Sign(2, 7, is_marked=False)], 0.0)
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 8, is_marked=False)], 1.0)
    assert marks.is_marked(1)
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 9, is_marked=False)], 1.9)
    assert marks.avoided == frozenset()
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 10, is_marked=False)], 2.0)
    assert marks.avoided == {1}
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 10, is_marked=False)], 90.0)
    assert marks.avoided == {1}
    marks.look([Sign(1, 7, is_marked=False), Sign(2, 10, is_marked=False)], 91.0)
    assert marks.avoided == frozenset()


def test_commits_of_a_marked_gateway_prove_nothing() -> None:
    marks = Marks()
    for at in range(20):
        marks.look([Sign(1, at, is_marked=True), Sign(2, at, is_marked=True)], float(at))
        assert marks.avoided == frozenset()
        assert not marks.has_well_others(1)


def test_a_new_incarnation_proves_nothing_by_what_its_state_holds() -> None:
    marks = Marks()
    for at in range(20):
        marks.look([Sign(1, 5, is_marked=True), Sign(10 + at, at, is_marked=False)], float(at))
        assert marks.avoided == frozenset()


def test_no_gateway_is_avoided_if_no_other_one_is_well() -> None:
    marks = Marks()
    for at in range(20):
        marks.look([Sign(1, 5, is_marked=True), Sign(2, at, is_marked=False)], float(at))
    assert marks.avoided == {1}
    marks.look([Sign(1, 5, is_marked=True), Sign(2, 20, is_marked=True)], 21.0)
    assert marks.avoided == frozenset()
    marks.look([Sign(1, 5, is_marked=True)], 22.0)
    assert marks.avoided == frozenset()


def test_an_idle_gateway_is_asked_to_prove_its_way_until_the_mark_is_settled() -> None:
    marks = Marks()
    marks.look([Sign(1, 5, is_marked=False), Sign(2, 7, is_marked=False)], 0.0)
    assert not marks.wants_proof(2, 0.0)
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 7, is_marked=False)], 1.0)
    assert marks.wants_proof(2, 1.0)
    assert not marks.wants_proof(1, 1.0)
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 8, is_marked=False)], 1.2)
    assert not marks.wants_proof(2, 1.3)
    assert marks.wants_proof(2, 1.8)
    marks.look([Sign(1, 6, is_marked=True), Sign(2, 9, is_marked=False)], 2.3)
    assert marks.avoided == {1}
    assert not marks.wants_proof(2, 9.0)
