# SPDX-License-Identifier: Apache-2.0
"""Tuning."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

import tierline
from tierline import Knob, Scenario, tune
from tierline.tuning import distribution

GUPS = Scenario("colloid-icx", "gups:set=4GiB,hot=1GiB", ratio=(1, 3), seconds=2)
COMMAND = [sys.executable, "-m", "tierline", "--policy", "hemem", "--machine", "colloid-icx", "--workload", "gups:set=4GiB,hot=1GiB"]


def knob(form: str, least: float, most: float) -> Knob:
    return Knob("knob", "", "", form, least, most, least)


def test_ranges_over_decades_are_searched_logarithmically() -> None:
    assert distribution(knob("real", 0.001, 1)) == FloatDistribution(0.001, 1, log=True)
    assert distribution(knob("real", 0, 1000)) == FloatDistribution(0, 1000)
    assert distribution(knob("whole", 1, 64)) == IntDistribution(1, 64)
    assert distribution(knob("whole", 1, 1 << 40)) == IntDistribution(1, 1 << 40, log=True)
    assert distribution(knob("switch", 0, 1)) == CategoricalDistribution((0, 1))


def test_the_first_trial_is_the_default_and_the_best_trial_can_be_repeated() -> None:
    found = tune(GUPS, "hemem", trials=14, threads=2)
    assert found["trials"] == 14 == len(found["history"]["trial"])
    assert found["default"]["trial"] == 0
    assert found["default"]["knobs"] == {knob.name: knob.default for knob in tierline.knobs("hemem")}
    assert found["best"]["throughput_per_second"] == max(found["history"]["throughput_per_second"])
    assert found["gain"] >= 1
    assert tierline.simulate(GUPS.under("hemem", found["best"]["knobs"])).throughput == found["best"]["throughput_per_second"]
    assert sum(found["importance"].values()) == pytest.approx(1)


def test_same_seed_same_trials() -> None:
    first, again, other = (tune(GUPS, "hemem", trials=13, threads=2, seed=seed)["history"] for seed in (1, 1, 2))
    assert first == again != other


def test_an_interrupted_study_resumes(tmp_path: Path) -> None:
    rounds = iter([False, False, True])
    begun = tune(GUPS, "hemem", trials=8, out=tmp_path, threads=2, stop=lambda: next(rounds))
    assert begun["trials"] == 4
    reported: list[int] = []
    ended = tune(GUPS, "hemem", trials=8, out=tmp_path, threads=2, progress=lambda now: reported.append(now["trials"]))
    assert reported == [6, 8]
    for column, values in begun["history"].items():
        assert ended["history"][column][:4] == values
    assert ended["cpu_seconds"] > begun["cpu_seconds"] > 0
    with pytest.raises(ValueError, match="another scenario"):
        tune(GUPS, "memtis", trials=8, out=tmp_path)


def test_lost_trials_are_run_again(tmp_path: Path) -> None:
    class Lost(Exception):
        pass

    def lose(_: object) -> None:
        raise Lost

    whole = tune(GUPS, "hemem", trials=2, threads=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tierline, "simulate_all", lambda *_, **__: lose(None))
        with pytest.raises(Lost):
            tune(GUPS, "hemem", trials=2, out=tmp_path, threads=2)
    after = tune(GUPS, "hemem", trials=2, out=tmp_path, threads=2)
    for column, values in whole["history"].items():
        if column != "trial":
            assert after["history"][column] == values


def test_a_policy_without_knobs_is_refused() -> None:
    with pytest.raises(ValueError, match="no knobs"):
        tune(GUPS, "hold", trials=2)


def test_an_interrupt_ends_tuning_with_a_result(tmp_path: Path) -> None:
    command = [*COMMAND, "--trials", "100000", "--seconds", "5", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd="/") as child:
        assert child.stderr is not None
        while not Path(tmp_path, "trials.log").exists() or Path(tmp_path, "trials.log").stat().st_size < 10_000:
            assert child.poll() is None, child.stderr.read()
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    found = json.loads(out)
    assert 0 < found["trials"] < 100_000
    assert json.loads(Path(tmp_path, "tuning.json").read_text()) == found


def test_an_error_is_one_line() -> None:
    child = subprocess.run([*COMMAND, "--ratio", "1:3", "--trials", "0"], capture_output=True, text=True, check=False, cwd="/")
    assert child.returncode == 2 and child.stderr == "Error: no trial was done\n"
