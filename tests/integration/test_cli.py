"""The command line says what the API says, and ends with 2 and a message where that raises."""

from __future__ import annotations

import argparse
import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.main import PASSED_ON, add_fit_options, main
from dmlrank.options import OPTIONS

FORMULA = "winner ~ 1 | model_a + model_b"


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=1500, rng=1)


@pytest.fixture
def csv(battles, tmp_path):
    path = tmp_path / "battles.csv"
    battles.to_csv(path, index=False)
    return str(path)


def test_the_package_runs_as_a_module():
    ran = subprocess.run([sys.executable, "-m", "dmlrank.cli", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"dmlrank {dr.__version__}\n"


def test_demo_prints_a_summary(capsys):
    assert main(["demo", "--contexts", "2000", "--functional", "borda"]) == 0
    shown = capsys.readouterr().out
    assert "Nonparametric Ranking Results" in shown
    assert "gpt-4" in shown


def test_fit_agrees_with_the_api(battles, csv, capsys):
    assert main(["fit", FORMULA, csv, "--functional", "bt", "--context", "question_id", "--rng", "3"]) == 0
    expected = dr.dml_rank(FORMULA, battles, functional="bt", context="question_id", rng=3).summary().as_text()
    assert capsys.readouterr().out.rstrip("\n") == expected


def test_functionals_and_estimators_by_their_words(tmp_path, capsys):
    path = str(tmp_path / "wins.csv")
    dr.datasets.Bt(n_items=3, n_features=1).sample(400, rng=0).to_csv(path, index=False)
    about = [FORMULA, path, "--context", "question_id", "--rng", "0"]
    assert main(["fit", *about, "--functional", "softmin"]) == 0
    assert "softmin (worst opponent)" in capsys.readouterr().out
    assert main(["fit", *about, "--estimator", "bt_restricted"]) == 0
    assert "bt (model assumed)" in capsys.readouterr().out
    assert main(["design", *about, "--estimator", "bt_restricted", "--budget", "100"]) == 0
    assert "bt (model assumed)" in capsys.readouterr().out
    assert main(["fit", *about, "--functional", "minimum"]) == 2
    assert "functional='softmin'" in capsys.readouterr().err


def test_json_lines_are_read_too(battles, tmp_path, capsys):
    path = tmp_path / "battles.jsonl"
    battles.to_json(path, orient="records", lines=True)
    assert main(["fit", FORMULA, str(path), "--rng", "3", "--alpha", "0.1"]) == 0
    assert "[90% simult. CI]" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["parquet", "feather", "arrow"])
def test_arrow_files_are_read_too(battles, csv, tmp_path, capsys, kind):
    path = tmp_path / f"battles.{kind}"
    (battles.to_parquet if kind == "parquet" else battles.to_feather)(path)
    shown = []
    for file in (csv, str(path)):
        assert main(["fit", FORMULA, file, "--rng", "3"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_arrow_files_need_pyarrow(tmp_path, capsys, monkeypatch, kind):
    path = tmp_path / f"battles.{kind}"
    path.write_bytes(b"no such thing")
    assert main(["fit", FORMULA, str(path)]) == 2
    assert "cannot be read as" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert main(["fit", FORMULA, str(path)]) == 2
    assert "files needs pyarrow: pip install 'dmlrank[arrow]'" in capsys.readouterr().err


def test_votes_and_unlabelled_prompts_are_passed_on(battles, tmp_path, capsys, ignore_warnings):
    prompts = battles.iloc[:90][["question_id", "length"]].assign(question_id=np.arange(10_000, 10_090))
    files = {"battles": battles, "prompts": prompts}
    for name, frame in files.items():
        frame.to_parquet(tmp_path / f"{name}.parquet")
    formula, options = "winner ~ length | model_a + model_b", {"context": "question_id", "rng": 3, "tune": None}
    call = ["fit", formula, str(tmp_path / "battles.parquet"), "--context", "question_id", "--rng", "3"]
    call += ["--tune", "none"]
    assert main([*call, "--votes", "first", "--unlabelled", str(tmp_path / "prompts.parquet")]) == 0
    expected = dr.dml_rank(formula, battles, votes="first", unlabelled=prompts, **options)
    assert capsys.readouterr().out.rstrip("\n") == expected.summary().as_text()
    assert main([*call, "--unlabelled", str(tmp_path / "nowhere.parquet")]) == 2
    assert "there is no file" in capsys.readouterr().err


def test_the_floor_is_a_number_or_auto(csv, capsys, ignore_warnings):
    call = ["fit", FORMULA, csv, "--rng", "3", "--functional", "bt"]
    shown = []
    for floor in ([], ["--floor", "auto"], ["--floor", "0.2"]):
        assert main([*call, *floor]) == 0
        shown.append(" ".join(capsys.readouterr().out.split()))
    assert shown[0] == shown[1]
    assert "floor 0.2 bit" in shown[2]
    assert "floor 0.2 bit" not in shown[0]
    assert main([*call, "--floor", "half"]) == 2
    assert "floor='half': the smallest probability allowed in mu lies in [0, 0.5), or 'auto'" in capsys.readouterr().err


def test_tables_pages_and_plots_are_written(csv, tmp_path, capsys):
    out = {kind: str(tmp_path / f"out.{kind}") for kind in ("csv", "html", "png")}
    options = ["--csv", out["csv"], "--method", "none", "--html", out["html"], "--plot", out["png"]]
    assert main(["fit", FORMULA, csv, "--rng", "3", *options]) == 0
    capsys.readouterr()
    tidy = pd.read_csv(out["csv"])
    half_width = (tidy["conf_high"] - tidy["conf_low"]) / 2
    np.testing.assert_allclose(half_width, 1.959964 * tidy["std_error"], rtol=1e-6)
    assert "<table" in pathlib.Path(out["html"]).read_text(encoding="utf-8")
    assert pathlib.Path(out["png"]).read_bytes()[:4] == b"\x89PNG"


def test_claims_about_order_are_written(battles, csv, tmp_path, capsys):
    out = {kind: tmp_path / f"{kind}.csv" for kind in ("pairs", "ranks")}
    assert main(["fit", FORMULA, csv, "--rng", "3", "--pairs", str(out["pairs"]), "--ranks", str(out["ranks"])]) == 0
    capsys.readouterr()
    result = dr.dml_rank(FORMULA, battles, rng=3)
    pd.testing.assert_frame_equal(pd.read_csv(out["pairs"]), result.t_test_pairwise().result_frame, rtol=1e-9)
    ranks = pd.read_csv(out["ranks"], index_col="model")
    pd.testing.assert_frame_equal(ranks, result.ranks(), check_names=False)


def test_reports_are_written_in_every_format(csv, tmp_path, capsys):
    out = {kind: tmp_path / f"out.{kind}" for kind in ("latex", "markdown", "json")}
    options = [part for kind, path in out.items() for part in (f"--{kind}", str(path))]
    assert main(["fit", FORMULA, csv, "--rng", "3", *options]) == 0
    shown = capsys.readouterr().out
    result = dr.read_json(out["json"])
    assert result.summary().as_text() == shown.rstrip("\n")
    assert out["latex"].read_text(encoding="utf-8") == result.summary().as_latex()
    assert out["markdown"].read_text(encoding="utf-8") == result.summary().as_markdown()


def test_check_agrees_with_the_api(battles, csv, capsys):
    call = ["check", FORMULA, csv, "--context", "question_id", "--min-labels", "40", "--groups", "question_id", "judge"]
    assert main(call) == 0
    groups = {"groups": ["question_id", "judge"]}
    expected = dr.check(FORMULA, battles, context="question_id", min_labels=40, cov_kwds=groups)
    shown = capsys.readouterr().out
    for line in expected.as_text().splitlines():
        if "thread" not in line and "trees" not in line:
            assert line in shown
    assert main(["check", FORMULA, csv, "--context", "promt"]) == 2
    assert "there is no column 'promt'" in capsys.readouterr().err


def test_maximum_likelihood_from_the_command_line(csv, capsys):
    assert main(["fit", FORMULA, csv, "--estimator", "bt_mle"]) == 0
    assert "bt_mle (assumes Bradley-Terry)" in capsys.readouterr().out


def test_groups_and_categories_are_passed_on(battles, tmp_path, capsys):
    path = tmp_path / "odd.csv"
    battles.assign(winner=battles["winner"].replace({"tie": "meh"})).to_csv(path, index=False)
    call = ["fit", FORMULA, str(path), "--rng", "0", "--cov-type", "cluster", "--groups", "judge"]
    assert main([*call, "--categories", "meh=tie"]) == 0
    assert "cluster (judge)" in capsys.readouterr().out
    assert main(call) == 2
    assert "unknown winner label 'meh'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["winner ~ 1 | model_a", "FILE"], "1 item column after |"),
        ([FORMULA, "nowhere.csv"], "there is no file 'nowhere.csv'"),
        ([FORMULA, "battles.xls"], "unknown kind"),
        ([FORMULA, "FILE", "--functional", "brda"], "did you mean 'borda'?"),
        ([FORMULA, "FILE", "--categories", "skipped"], "LABEL=MEANING"),
    ],
)
def test_errors_are_messages_not_tracebacks(csv, capsys, arguments, words):
    assert main(["fit", *[csv if argument == "FILE" else argument for argument in arguments]]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert not shown.out


def test_every_option_of_the_table_has_its_word():
    in_words_of_their_own, python_only = {"tune", "categories", "cov_kwds", "unlabelled"}, {"mu", "env"}
    assert set(PASSED_ON) == set(OPTIONS) - in_words_of_their_own - python_only
    command = argparse.ArgumentParser()
    add_fit_options(command)
    actions = {action.dest: action for action in command._actions}
    assert {"tune", "categories", "groups", "unlabelled"} <= actions.keys()
    for name in PASSED_ON:
        option, action = OPTIONS[name], actions[name]
        assert action.default is None, f"what is not given has the API's default, not one of its own: {name}"
        assert tuple(action.choices or ()) == option.words
        assert {f"--{name}", f"--{name.replace('_', '-')}"} <= set(action.option_strings)


def test_order_repetitions_and_prompts_are_passed_on(battles, csv, capsys):
    options = ["--no-position-bias", "--n-rep", "2", "--prompts", "fixed", "--weights", "length", "--context"]
    assert main(["fit", FORMULA, csv, "--rng", "3", *options, "question_id", "--progress"]) == 0
    shown = capsys.readouterr()
    expected = dr.dml_rank(
        FORMULA, battles, position_bias=False, n_rep=2, prompts="fixed", weights="length", context="question_id", rng=3
    )
    assert shown.out.rstrip("\n") == expected.summary().as_text()
    assert "scores, contexts: 1500/1500" in shown.err


def test_compare_fits_once_and_agrees_with_the_api(battles, csv, tmp_path, capsys):
    out = {name: tmp_path / f"out.{name}" for name in ("csv", "html", "tex", "md", "png", "pairs")}
    words = ["compare", FORMULA, csv, "--functional", "borda", "bt", "--rng", "3", "--names", "mean wins", "odds"]
    options = {
        "csv": "--csv",
        "html": "--html",
        "tex": "--latex",
        "md": "--markdown",
        "png": "--plot",
        "pairs": "--reversals",
    }
    for name, option in options.items():
        words += [option, str(out[name])]
    assert main(words) == 0
    first = dr.dml_rank(FORMULA, battles, functional="borda", rng=3)
    expected = dr.compare(**{"mean wins": first, "odds": first.update(functional="bt")})
    assert capsys.readouterr().out.rstrip("\n") == expected.summary().as_text()
    pd.testing.assert_frame_equal(
        pd.read_csv(out["csv"]), expected.tidy().astype({"rank": "int64", "rank_change": "int64"})
    )
    assert out["html"].read_text() == expected.summary().as_html()
    assert out["tex"].read_text() == expected.summary().as_latex()
    assert out["md"].read_text() == expected.summary().as_markdown()
    assert out["png"].stat().st_size > 1000
    assert len(pd.read_csv(out["pairs"])) == len(expected.reversals())


def test_compare_takes_stored_results(battles, csv, tmp_path, capsys):
    paths = []
    for functional in ("bt", "borda"):
        paths.append(str(tmp_path / f"{functional}.json"))
        assert main(["fit", FORMULA, csv, "--functional", functional, "--rng", "3", "--json", paths[-1]]) == 0
    capsys.readouterr()
    assert main(["compare", *paths]) == 0
    stored = {name: dr.read_json(path) for name, path in zip(("bt", "borda"), paths, strict=True)}
    assert capsys.readouterr().out.rstrip("\n") == dr.compare(**stored).summary().as_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.json"], "two or more stored results"),
        (["one.json", "two.json", "--n_folds", "3"], "--n_folds is an option of a fit"),
        (["one.json", "two.json"], "there is no file 'one.json'"),
        ([FORMULA], "a formula and one file"),
        ([FORMULA, "x.csv", "--functional", "bt"], "two or more different functionals"),
        ([FORMULA, "x.csv", "--functional", "bt", "bt"], "two or more different functionals"),
    ],
)
def test_compare_says_what_it_needs(words, message, capsys):
    assert main(["compare", *words]) == 2
    assert message in capsys.readouterr().err


def test_a_plan_from_the_command_line_is_the_apis(battles, csv, tmp_path, capsys):
    prompts = dr.datasets.Arena().contexts(80, rng=5)[["question_id", "length"]]
    prompts.to_csv(tmp_path / "prompts.csv", index=False)
    out = {kind: str(tmp_path / f"tasks.{kind}") for kind in ("csv", "json", "png")}
    call = ["design", FORMULA, csv, "--context", "question_id", "--rng", "3", "--functional", "bt"]
    call += ["--budget", "60", "--one-pair", "--explore", "0.1", "--min-propensity", "0.0002"]
    new = ["--new", str(tmp_path / "prompts.csv"), "--criterion", "D", "--top", "3", "--out", out["csv"]]
    assert main([*call, *new, "--plot", out["png"]]) == 0
    fit = dr.dml_rank(FORMULA, battles, functional="bt", context="question_id", rng=3)
    options = {"one_pair": True, "explore": 0.1, "min_propensity": 0.0002}
    plan = fit.design(60, "D", newdata=prompts, contrasts=dr.Top(3), **options)
    assert capsys.readouterr().out.rstrip("\n") == plan.summary().as_text()
    pd.testing.assert_frame_equal(pd.read_csv(out["csv"]), plan.sample(3), check_dtype=False)
    assert pathlib.Path(out["png"]).read_bytes()[:4] == b"\x89PNG"
    assert main([*call, "--against", "gpt-4", "--out", out["json"], "--costs", "2"]) == 0
    own = fit.design(60, contrasts=dr.Against("gpt-4"), costs=2.0, **options)
    assert capsys.readouterr().out.rstrip("\n") == own.summary().as_text()
    assert '"seed": 3' in pathlib.Path(out["json"]).read_text(encoding="utf-8")
    assert main([*call, "--contrasts", "gpt-4 - gpt4"]) == 2
    assert "unknown model 'gpt4'" in capsys.readouterr().err


def test_every_option_of_a_plan_has_its_word():
    import argparse
    import inspect

    from dmlrank.cli.main import add_design_options

    parser = argparse.ArgumentParser()
    add_design_options(parser)
    words = {action.dest for action in parser._actions}
    assert set(inspect.signature(dr.RankResults.design).parameters) - {"self", "newdata"} <= words
    assert "prompts_file" in words
