"""How many prompts a difference needs: one number from every door, and the power that it promises."""

import re

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import main
from dmlrank.exceptions import OptionError
from dmlrank.options import in_objects


def draw(n, n_runs=1, gap=0.1, n_models=2, seed=0):
    """Runs of models that succeed with probabilities that differ between prompts and models."""
    rng = np.random.default_rng(seed)
    task, model, run = (part.ravel() for part in np.indices((n, n_models, n_runs)))
    chance = np.clip(rng.beta(2, 2, (n, n_models))[task, model] * (1 - gap) + gap * (model == 0), 0, 1)
    solved = (rng.random(len(task)) < chance).astype(float)
    return pd.DataFrame({"task": task, "model": np.array(list("abcd"))[model], "run": run, "solved": solved})


def fit(table, **options):
    return dr.dml_rank("solved ~ 1 | model", table, **in_objects({"context": "task", "rng": 0} | options))


@pytest.mark.parametrize("n_models", [2, 3])
def test_every_door_has_the_number_of_sample_size(n_models, tmp_path, capsys):
    """Verdict, explanation, command line, a plan's summary and its search for a budget are asked the same."""
    table = draw(150, gap=0.05, n_models=n_models, seed=2)
    res = fit(table)
    sizes = res.sample_size()
    wanted, closest = sizes.loc["first place", "prompts"], sizes["prompts"].iloc[0]
    for text in (res.verdict(), res.explain()):
        said = re.search(r"[Aa]bout ([\d,]+) independent prompts in all", " ".join(text.split()))
        assert float(said[1].replace(",", "")) == pytest.approx(float(f"{wanted:.2g}"))
    table.to_csv(tmp_path / "runs.csv", index=False)
    given = ["solved ~ 1 | model", str(tmp_path / "runs.csv"), "--context", "task", "--run", "run"]
    assert main(["design", *given, "--detect", "0.02"]) == 0
    shown = capsys.readouterr().out.split("first place")[1].split()
    assert float(shown[1]) == res.sample_size(0.02).loc["first place", "prompts"]
    leader, rival = res.params.nlargest(2).index
    plan = res.design(150 * n_models, top=1, from_scratch=True)
    said = re.search(r"too few to decide first place[^,]*, so .* about ([\d,]+) like", " ".join(str(plan).split()))
    assert float(said[1].replace(",", "")) == pytest.approx(wanted, rel=0.02)
    with pytest.raises(OptionError) as error:
        plan.for_power(leader, rival, method="none")
    said = re.search(r"about ([\d,]+) prompts like these", str(error.value))
    assert float(said[1].replace(",", "")) == pytest.approx(closest, rel=0.01)
    assert plan.smallest_gap(leader, rival, method="none") == pytest.approx(sizes["smallest"].iloc[0], rel=1e-3)
    # The limits are those of the fit of as many runs, too.
    width = plan.predicted((leader, rival), method="none")["width"].item()
    assert width == pytest.approx(np.ptp(res.t_test((leader, rival)).conf_int()), rel=1e-3)


@pytest.mark.parametrize("n_models", [2, 4])
def test_sizes_before_data_are_those_of_the_data_that_they_suppose(n_models):
    n = 400
    res = fit(draw(n, gap=0.1, n_models=n_models, seed=4))
    error = res.sample_size()["std_error"].to_numpy()[:-1]
    # Votes without ties have the variance one.
    before = dr.planning.sample_size(0.1, models=n_models)["prompts"].item()
    after = res.sample_size(0.1).loc["first place", "prompts"]
    assert after == pytest.approx(before * n * np.square(error).mean(), rel=0.05)


def test_the_smallest_difference_needs_the_data_as_they_are():
    res = fit(draw(200, n_runs=3))
    smallest = res.sample_size()["smallest"].iloc[0]
    needed = res.sample_size(smallest).iloc[0]
    np.testing.assert_allclose([needed["times"], needed["times_runs"]], 1.0, rtol=1e-9)
    # Runs alone: with so many of them the error is the one that the difference needs.
    more = res.sample_size(smallest / 1.05).iloc[0]
    np.testing.assert_allclose(1 - more["share_runs"] * (1 - 1 / more["times_runs"]), 1.05**-2, rtol=2e-3)
    assert res.sample_size(smallest / 100).iloc[0]["times_runs"] == np.inf


@pytest.mark.parametrize(("n_runs", "repeat", "shared"), [(1, 0.5, 0.0), (4, 0.2, 0.2), (2, 0.4, 0.1)])
def test_sizes_before_data_have_their_power(n_runs, repeat, shared):
    rate, difference = 0.6, 0.1
    # Scores of 0 and 1 with these two rates that agree as often as they can are correlated so much.
    correlation = shared * (0.55 * 0.35) / (0.6 * 0.4)
    sizes = dr.planning.sample_size(difference, rate=rate, repeat=repeat, shared=correlation)
    n, rng = int(sizes.loc[n_runs, "prompts"]), np.random.default_rng(0)
    # A prompt is solved in all runs or in none with probability ``repeat``, by both models alike with ``shared``.
    p, size = np.array([rate - difference / 2, rate + difference / 2]), (1500, n, 2)
    kind = rng.random((1500, n, 1))
    common, own = rng.random((1500, n, 1)) < p, rng.random(size) < p
    runs = rng.binomial(n_runs, np.broadcast_to(p, size)) / n_runs
    scores = np.where(kind < shared, common, np.where(kind < repeat, own, runs))
    gap = scores[..., 1] - scores[..., 0]
    found = np.mean(gap.mean(axis=1) / gap.std(axis=1) * np.sqrt(n) > 1.96)
    assert found == pytest.approx(0.8, abs=0.04)
    back = dr.planning.sample_size(prompts=n, rate=rate, repeat=repeat, shared=correlation).loc[n_runs, "difference"]
    assert back == pytest.approx(difference, rel=0.01)


def test_what_sample_size_refuses():
    res = fit(draw(60))
    for call in (lambda: res.sample_size(0), lambda: res.sample_size(0.1, power=0.01)):
        with pytest.raises(OptionError):
            call()
    with pytest.raises(OptionError, match="one of the two"):
        dr.planning.sample_size(rate=0.5)
    with pytest.raises(OptionError, match="shared"):
        dr.planning.sample_size(0.1, rate=0.5, shared=0.7)
