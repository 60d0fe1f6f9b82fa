# SPDX-License-Identifier: Apache-2.0
"""Tuning: searches the knob settings of a policy that give a program the highest throughput.

Bayesian optimisation by Optuna's tree-structured Parzen estimator, with all knobs in one model. Like the SMAC of ARMS it supports whole
numbers, switches and many knobs; unlike SMAC it needs no compiler, and its trials resume from a plain file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    import optuna

    from . import Knob, Scenario

DECADES = 100.0
"""Ranges whose maximum is at least this many times the minimum are searched on a logarithmic scale."""


class Setting(TypedDict):
    """A trial."""

    trial: int
    throughput_per_second: float
    """Operations per second of the first program over the whole run."""
    knobs: dict[str, float]


class Tuning(TypedDict):
    """Result of tuning."""

    policy: str
    scenario: str
    engine: str
    seed: int
    trials: int
    cpu_seconds: float
    """CPU time of all trials, including those before an interruption."""
    default: Setting
    best: Setting
    gain: float
    """Throughput of the best trial relative to the default."""
    importance: dict[str, float]
    """Importance of each knob for reaching the best tenth of trials (PED-ANOVA), highest first; empty with too few trials."""
    history: dict[str, list[Any]]
    """One row per trial: `trial`, `throughput_per_second`, and one column per knob."""


def tune(
    scenario: Scenario,
    policy: str,
    *,
    trials: int = 100,
    out: str | os.PathLike[str] | None = None,
    seed: int = 1,
    threads: int | None = None,
    progress: Callable[[Tuning], None] = lambda _: None,
    stop: Callable[[], bool] = lambda: False,
) -> Tuning:
    """Searches the knobs of `policy` until `trials` trials are done; the first has the defaults.

    One trial per thread runs at a time. With the same seed and number of threads the trials are the same. If `out` names a folder,
    trials are stored there, and a later call resumes. `progress` is called after each round; if `stop` returns true, no round follows.
    """
    import optuna

    from . import knobs, simulate_all

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    threads = threads or os.cpu_count() or 1
    table = knobs(policy)
    if not table:
        raise ValueError(f"policy {policy} has no knobs")
    space = {knob.name: distribution(knob) for knob in table}
    study = _study(scenario.under(policy), out, seed)
    if not study.trials:
        study.enqueue_trial({knob.name: _number(knob, knob.default) for knob in table})
    while (missing := trials - len(_done(study))) > 0 and not stop():
        begun = time.process_time()
        asked = [study.ask(space) for _ in range(min(threads, missing))]
        runs = simulate_all([scenario.under(policy, trial.params) for trial in asked], threads=threads)
        for trial, run in zip(asked, runs, strict=True):
            study.tell(trial, run.throughput)
        spent = study.user_attrs.get("cpu_seconds", 0.0) + time.process_time() - begun
        study.set_user_attr("cpu_seconds", spent)
        progress(_found(study, policy, seed))
    if not _done(study):
        raise ValueError("no trial was done")
    return _found(study, policy, seed)


def distribution(knob: Knob) -> optuna.distributions.BaseDistribution:
    """Range of a knob, logarithmic if it spans decades."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    log = knob.least > 0 and knob.most / knob.least >= DECADES
    if knob.form == "switch":
        return CategoricalDistribution((0, 1))
    if knob.form == "whole":
        return IntDistribution(int(knob.least), int(knob.most), log=log)
    return FloatDistribution(knob.least, knob.most, log=log)


def _number(knob: Knob, value: float) -> float:
    return value if knob.form == "real" else int(value)


def _study(scenario: Scenario, out: str | os.PathLike[str] | None, seed: int) -> optuna.Study:
    """The study of a scenario: a new one, or the one stored in the folder."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    storage = None
    if out is not None:
        Path(out).mkdir(parents=True, exist_ok=True)
        storage = JournalStorage(JournalFileBackend(str(Path(out, "trials.log"))))
    study = optuna.create_study(direction="maximize", storage=storage, study_name="tune", load_if_exists=True)
    if study.user_attrs.get("scenario", repr(scenario)) != repr(scenario):
        raise ValueError(f"{out} has trials of another scenario; name another folder")
    study.set_user_attr("scenario", repr(scenario))
    # Trials that an interrupted run left unfinished are run again.
    for trial in study.get_trials(states=(optuna.trial.TrialState.RUNNING,)):
        study.tell(trial.number, state=optuna.trial.TrialState.FAIL)
        study.enqueue_trial(trial.params)
    # A resumed run must not repeat the random numbers of the first one.
    study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials), multivariate=True)
    return study


def _done(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    import optuna

    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def _found(study: optuna.Study, policy: str, seed: int) -> Tuning:
    import optuna

    done = _done(study)
    importance = {}
    try:
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        importance = optuna.importance.get_param_importances(study, evaluator=evaluator)
    except (RuntimeError, ValueError):
        pass  # too few trials, or all equal
    default, best = _setting(done[0]), _setting(study.best_trial)
    history: dict[str, list[Any]] = {
        "trial": [trial.number for trial in done],
        "throughput_per_second": [trial.value for trial in done],
    }
    return {
        "policy": policy,
        "scenario": study.user_attrs["scenario"],
        "engine": f"Optuna {optuna.__version__}, TPE",
        "seed": seed,
        "trials": len(done),
        "cpu_seconds": study.user_attrs.get("cpu_seconds", 0.0),
        "default": default,
        "best": best,
        "gain": best["throughput_per_second"] / default["throughput_per_second"],
        "importance": importance,
        "history": history | {name: [trial.params[name] for trial in done] for name in default["knobs"]},
    }


def _setting(trial: optuna.trial.FrozenTrial) -> Setting:
    return {"trial": trial.number, "throughput_per_second": trial.values[0], "knobs": dict(trial.params)}
