"""Predicted durations: worked out by hand, never from the future, by a tree that is the best there is."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairlead.kernels import forecast as kernel
from fairlead.kernels.jit import from_python
from fairlead.model.cluster import parse_cluster_shape
from fairlead.model.errors import InputError
from fairlead.policy.forecast import Forecaster, Labels
from fairlead.policy.forecast.forecaster import job_keys, levels
from fairlead.policy.forecast.tree import grow
from fairlead.record.estimates import prediction_error
from fairlead.sim.profiles import Profile, Profiles
from fairlead.sim.run import Run, simulate
from fairlead.state.rules import Options
from fairlead.workload.generate import generate
from fairlead.workload.readers import load_trace
from fairlead.workload.trace import Names, Trace
from test_against_reference import rows_of

log_of, from_log = from_python(kernel.log_of), from_python(kernel.from_log)

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

# One GPU, so jobs end one after another. a and b are users; x and y what they run.
#
#   submit  GPUs  duration  user  group
HISTORY = """
      0      1       4       a     x
      0      1       8       a     x
      0      1      16       a     y
      0      1       2       b     x
    100      1      32       a     x
    100      2       1       a     x
    100      1       1       b     y
    100      1       1       c     x
    200      1       1       a     x
"""


def history(text: str = HISTORY) -> Trace:
    submit_s, gpus, duration_s, users, groups = zip(*(line.split() for line in text.strip().splitlines()))

    def names(column: tuple[str, ...]) -> Names:
        known = tuple(sorted(set(column)))
        return Names(np.array([known.index(name) for name in column], np.int32), known)

    return Trace(
        submit_s=np.array(submit_s, np.float64),
        gpus=np.array(gpus, np.int32),
        duration_s=np.array(duration_s, np.float64),
        user=names(users),
        group=names(groups),
    )


def predicted(
    trace: Trace, how: str, cluster: str = "1x2", options: Options | None = None, profiles: Profiles | None = None
) -> list[float]:
    run = simulate(
        trace, parse_cluster_shape(cluster), f"sjf:estimate=predicted,{how}", options=options, profiles=profiles
    )
    return estimates(run)


def estimates(run: Run) -> list[float]:
    assert run.estimate_s is not None
    found: list[float] = run.estimate_s.tolist()
    return found


# at 100, a has run 4, 8 (x) and 16 (y); b has run 2 (x); the four before had nothing to go by
@pytest.mark.parametrize(
    ("how", "at_100", "at_200"),
    [
        ("model=mean,by=user", [28 / 3, 28 / 3, 2, 0], (4 + 8 + 16 + 32 + 1) / 5),
        ("model=mean,by=user+group", [6, 6, 2, 0], (4 + 8 + 32 + 1) / 4),
        ("model=mean,by=user+group+gpu", [6, 6, 2, 0], (4 + 8 + 32) / 3),
        ("model=mean,by=user+gpu", [28 / 3, 28 / 3, 2, 0], (4 + 8 + 16 + 32) / 4),
        ("model=moving,by=user,window=2", [12, 12, 2, 0], (32 + 1) / 2),
        ("model=moving,by=user+group,window=2", [6, 6, 2, 0], (32 + 1) / 2),
        ("model=harmonic,by=user", [48 / 7, 48 / 7, 2, 0], 5 / (1 / 4 + 1 / 8 + 1 / 16 + 1 / 32 + 1)),
    ],
)
def test_a_prediction_is_what_one_works_out_by_hand(how: str, at_100: list[float], at_200: float) -> None:
    # on two GPUs a's end at 4, 8 and 20, b's at 10; of those of 100, c's and b's at 101, a's at 133 and then at 134
    found = predicted(history(), how)
    assert found[:4] == [0, 0, 0, 0]
    assert found[4:8] == pytest.approx(at_100)
    assert found[8] == pytest.approx(at_200)


def test_the_window_holds_the_jobs_that_ended_last() -> None:
    lines = [f"{100 * i} 1 {2**i} a x" for i in range(8)]
    found = predicted(history("\n".join(lines)), "model=moving,by=user,window=3", "1x1")
    assert found == pytest.approx([0, 1, 3 / 2, 7 / 3, 14 / 3, 28 / 3, 56 / 3, 112 / 3])


def test_a_job_that_ends_when_another_is_submitted_has_ended_and_one_that_runs_has_not() -> None:
    trace = history("0 1 10 a x\n10 1 5 a x\n14 1 5 a x")
    assert predicted(trace, "model=mean,by=user", "1x1") == [0, 10, 10]


def test_what_is_learnt_is_how_long_a_job_ran_and_not_how_long_it_waited_or_should_have_run() -> None:
    trace = replace(history("0 1 10 a x\n0 1 10 a x\n50 1 10 a x"), profile=Names(np.zeros(3, np.int32), ("slow",)))
    halved = Profiles({"slow": Profile(speed={"": 0.5})})
    assert predicted(trace, "model=mean,by=user", "1x1", profiles=halved) == [0, 0, 20]


def test_a_job_that_was_given_up_teaches_nothing() -> None:
    trace = history("0 1 10 a x\n50 1 10 a x")
    assert predicted(trace, "model=mean,by=user", "1x1", Options(job_failures=1.0)) == [0, 0]


def test_shortest_predicted_job_first() -> None:
    # a's jobs took 8, b's 2: of the next two, b's goes first although the trace says that it is longer
    trace = history("0 1 8 a x\n0 1 2 b x\n20 1 4 c x\n21 1 1 a x\n21 1 9 b x")
    run = simulate(trace, parse_cluster_shape("1x1"), "sjf:estimate=predicted,model=mean,by=user")
    assert run.outcome.start_s.tolist() == [0, 8, 20, 33, 24]


# -- the tree -------------------------------------------------------------------------------------------------------------------


def test_the_logarithm_goes_through_powers_of_two_and_back() -> None:
    assert [log_of(value) for value in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 1024.0)] == [0, 0, 0, 0.5, 1, 1.5, 10]
    values = np.linspace(1, 1e7, 9999)
    assert [from_log(log_of(value)) for value in values] == pytest.approx(values, rel=1e-12)
    logs = [log_of(value) for value in values]
    assert all(a < b for a, b in pairwise(logs))


def squared_error(values: np.ndarray[Any, Any]) -> float:
    return float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0


@pytest.mark.parametrize("seed", range(20))
def test_the_first_split_leaves_the_least_squared_error_of_all(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    x = rng.integers(0, 6, (3, 60)).astype(float)
    y = np.round(3 * (x[seed % 3] > 2) + rng.normal(0, 1, 60), 3)
    tree = grow(x, y, depth=1, least=4)
    errors = {
        (feature, limit): squared_error(y[x[feature] <= limit]) + squared_error(y[x[feature] > limit])
        for feature in range(3)
        for limit in np.unique(x[feature])[:-1]
        if min((x[feature] <= limit).sum(), (x[feature] > limit).sum()) >= 4
    }
    assert errors[int(tree.feature[0]), float(tree.limit[0])] == pytest.approx(min(errors.values()))
    left = y[x[tree.feature[0]] <= tree.limit[0]]
    assert tree.limit[tree.child[0]] == pytest.approx(left.mean())


@pytest.mark.parametrize("seed", range(5))
def test_leaves_hold_the_mean_of_their_samples_and_never_too_few(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    x, y = rng.normal(size=(4, 500)), rng.normal(size=500)
    tree = grow(x, y, depth=6, least=7)
    value = tree.predict(x)
    for leaf in np.unique(value):
        assert (value == leaf).sum() >= 7
        assert leaf == pytest.approx(y[value == leaf].mean())
    assert squared_error(y) > ((y - value) ** 2).sum()


def test_a_tree_of_equal_values_is_one_leaf() -> None:
    tree = grow(np.arange(40.0).reshape(1, 40), np.full(40, 3.0), depth=4, least=1)
    assert tree.feature.tolist() == [-1]
    assert tree.limit.tolist() == [3.0]


def busy(jobs: int = 700, seed: int = 3) -> tuple[Trace, str]:
    made = generate("philly-like", seed=seed, jobs=jobs, gpus=32, load=1.1, max_gpus=8)
    return replace(made, submit_s=np.floor(made.submit_s)), "4x8"


def test_the_core_climbs_the_tree_as_it_was_last_grown(monkeypatch: pytest.MonkeyPatch) -> None:
    trees: list[tuple[int, Any]] = []  #: how many jobs had been submitted, and the tree that was grown then
    looks: list[Any] = []

    def train(self: Forecaster, log: Any, rows: int, desk: Any) -> None:
        before = self.tree
        original(self, log, rows, desk)
        looks[:] = [desk.floats[kernel.D_RING :]]
        if self.tree is not before:
            trees.append((int(np.count_nonzero(looks[0][0])), self.tree))

    original = Forecaster.train
    monkeypatch.setattr(Forecaster, "train", train)
    trace, cluster = busy()
    run = simulate(trace, parse_cluster_shape(cluster), "sjf:estimate=predicted,model=tree,retrain_s=36000")
    checked = 0
    for (first, tree), (last, _) in pairwise([*trees, (len(trace), None)]):
        want = [from_log(value) for value in tree.predict(looks[0][:, first:last])]
        assert estimates(run)[first:last] == want
        checked += len(set(want))
    assert checked > 50


# -- nobody's future -------------------------------------------------------------------------------------------------------------

HOW = ("model=mean", "model=moving,window=3", "model=harmonic", "model=tree,retrain_s=20000")


def changed_after(trace: Trace, run: Run, cut_s: float, seed: int) -> Trace:
    """The same trace, but all that had not ended at the cut takes longer, each by another factor."""
    rng = np.random.Generator(np.random.PCG64(seed))
    longer = np.floor(trace.duration_s * (1 + 9 * rng.random(len(trace)))) + 1
    return replace(trace, duration_s=np.where(run.outcome.finish_s <= cut_s, trace.duration_s, longer))


def up_to(run: Run, cut_s: float) -> list[Any]:
    return [row for row in rows_of(run) if row[0] <= cut_s]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("preempt", ["false", "true"])
@pytest.mark.parametrize("how", HOW)
def test_no_prediction_depends_on_a_job_that_has_not_ended(how: str, preempt: str, seed: int) -> None:
    trace, cluster = busy(400, seed)
    policy = f"sjf:estimate=predicted,{how},preempt={preempt}"
    spec = parse_cluster_shape(cluster)
    run = simulate(trace, spec, policy)
    for cut_s in np.quantile(trace.submit_s, [0.2, 0.5, 0.8]).tolist():
        other = simulate(changed_after(trace, run, cut_s, seed), spec, policy)
        known = trace.submit_s <= cut_s
        assert np.array(estimates(other))[known].tolist() == np.array(estimates(run))[known].tolist()
        assert up_to(other, cut_s) == up_to(run, cut_s)
        assert estimates(other) != estimates(run), "a change after the cut shows after the cut, or this tests nothing"


def test_the_oracle_does_look_ahead_so_the_test_above_can_fail() -> None:
    trace, cluster = busy(400, 0)
    spec = parse_cluster_shape(cluster)
    run = simulate(trace, spec, "sjf")
    cut_s = float(np.quantile(trace.submit_s, 0.5))
    assert up_to(simulate(changed_after(trace, run, cut_s, 0), spec, "sjf"), cut_s) != up_to(run, cut_s)


# -- what jobs are alike in --------------------------------------------------------------------------------------------------------


def test_keys_are_numbered_through_all_levels() -> None:
    user, group = np.array([0, 0, 1, 1], np.int32), np.array([0, 1, 0, 0], np.int32)
    assert job_keys([user, group]).tolist() == [[0, 0, 1, 1], [2, 3, 4, 4]]


def test_all_is_what_the_trace_has_and_the_tenant_stands_in_for_the_user() -> None:
    one = np.zeros(1, np.int32)
    assert levels("all", Labels(one)) == ("gpu",)
    assert levels("all", Labels(one, tenant=one)) == ("tenant", "gpu")
    assert levels("all", Labels(one, tenant=one, user=one, group=one)) == ("user", "group", "gpu")
    assert levels("tenant+gpu", Labels(one, tenant=one, user=one)) == ("tenant", "gpu")


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ("sjf:estimate=predicted,by=tenant", "the trace has no such column"),
        ("sjf:estimate=predicted,by=usr", "no label of jobs is called 'usr'; did you mean 'user'?"),
        ("sjf:estimate=predicted,by=group+user", "labels go from coarse to fine"),
        ("sjf:estimate=predicted,model=tre", "no model of durations is called 'tre'; did you mean 'tree'?"),
        ("sjf:estimate=predicted,window=0", "a window is a number of jobs"),
        ("sjf:estimate=predicted,retrain_s=0", "this is no time"),
        ("sjf:estimate=predict", "no estimate is called 'predict'; did you mean 'predicted'?"),
        ("sjf:by=user", "by is for predictions"),
    ],
)
def test_a_prediction_that_can_not_be_had_is_an_error_with_a_sentence(policy: str, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        simulate(history(), parse_cluster_shape("1x1"), policy)


def test_given_estimates_are_those_of_the_trace() -> None:
    trace = replace(history("0 1 9 a x\n1 1 4 a x\n1 1 5 a x"), estimate_s=np.array([9.0, 7.0, 6.0]))
    spec = parse_cluster_shape("1x1")
    assert simulate(trace, spec, "sjf:estimate=given").outcome.start_s.tolist() == [0, 14, 9]
    assert simulate(trace, spec, "sjf").outcome.start_s.tolist() == [0, 9, 13]


def test_how_good_predictions_were_is_told_of_the_jobs_that_finished() -> None:
    estimate_s = np.array([0.0, 10.0, 10.0, 10.0, 99.0])
    duration_s = np.array([5.0, 8.0, 12.6, 40.0, 1.0])
    finish_s = np.array([1.0, 1.0, 1.0, 1.0, np.nan])
    assert prediction_error(estimate_s, duration_s, finish_s) == {
        "known": 0.75,
        "within_25_percent": 0.5,
        "median_factor": pytest.approx(1.26),
    }


# -- a real trace -------------------------------------------------------------------------------------------------------------------


def test_on_philly_predictions_are_worth_most_of_what_the_oracle_is() -> None:
    path = DATA / "train" / "philly_pollux_60000.csv.gz"
    if not path.is_file():
        pytest.skip("the public traces are not here")
    trace, spec = load_trace(path, limit=20_000).trace, parse_cluster_shape("48x8")
    jct = {
        policy: float(np.mean(simulate(trace, spec, policy).outcome.finish_s - trace.submit_s))
        for policy in ("fifo-backfill", "sjf:estimate=predicted", "sjf")
    }
    assert jct["sjf"] < jct["sjf:estimate=predicted"] < jct["fifo-backfill"]
