# SPDX-License-Identifier: Apache-2.0
"""The model, called from Python."""

import threading
import time

import pytest

import tierline
from tierline import Scenario

GUPS = Scenario("colloid-icx", "gups:set=4GiB,hot=1GiB", ratio=(1, 3), seconds=2)


def lengths(table: tierline.Table) -> set[int]:
    return {len(column) for column in table.values()}


def test_same_seed_same_fingerprint_on_any_number_of_threads() -> None:
    scenarios = [GUPS.under(policy) for policy in ("hemem", "tpp", "hemem")]
    one, other, again = tierline.simulate_all(scenarios, threads=3)
    assert one.fingerprint == again.fingerprint != other.fingerprint
    assert [run.report for run in tierline.simulate_all(scenarios, threads=1)] == [one.report, other.report, again.report]


def test_a_series_has_one_row_per_interval() -> None:
    series = tierline.simulate(GUPS).series()
    assert lengths(series) == {2}
    assert series["seconds"] == pytest.approx([1, 2], abs=0.1)
    fast, slow = (series[f"gups.share.{tier}"][-1] for tier in ("default", "alternate"))
    assert fast + slow == pytest.approx(1)


def test_knobs_change_what_a_policy_does() -> None:
    assert tierline.simulate(GUPS.under("hemem")).fingerprint != tierline.simulate(GUPS.under("hemem", {"quantum": 0.5})).fingerprint


def test_every_policy_declares_its_knobs_with_the_default_in_the_range() -> None:
    assert tierline.policies()[0] == "tierline"
    for policy in tierline.policies():
        for knob in tierline.knobs(policy):
            assert knob.least <= knob.default <= knob.most, (policy, knob)
            assert knob.form in ("real", "whole", "switch") and knob.about


def test_compare_gives_columns_of_equal_length() -> None:
    table = tierline.compare(["hold", "hemem"], workloads=["gups:set=4GiB,hot=1GiB"], ratios=[(1, 3)], seconds=2)
    assert lengths(table) == {2}
    assert table["policy"] == ["hold", "hemem"] and max(table["relative_to_best"]) == 1


def test_reproduce_gives_figures_as_lists() -> None:
    table = tierline.reproduce("A-PAR")
    assert table["id"] == ["A-PAR"] and table["holds"] == [True]
    assert table["published"] == table["ours"]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: Scenario("colloid-ick", "gups"), "colloid-icx"),
        (lambda: Scenario("colloid-icx", "gusp"), "gups"),
        (lambda: GUPS.under("hemem", {"hot_read": 1}), "hot_reads"),
        (lambda: GUPS.under("kernel"), "no"),
        (lambda: Scenario.arms("word"), "gups"),
        (lambda: tierline.knobs("hemen"), "hemem"),
        (lambda: tierline.reproduce("Z-1"), "Z-1"),
    ],
)
def test_an_unknown_name_is_reported_with_known_ones(wrong: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong()


def test_other_threads_run_while_the_model_runs() -> None:
    ticks = 0
    over = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not over.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    before = ticks
    tierline.simulate(Scenario("colloid-icx", "gups", seconds=60))
    during = ticks - before
    over.set()
    thread.join()
    assert during > 5
