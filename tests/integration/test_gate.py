"""The gate of a pipeline: exit codes, one line, JSON, looks at growing data, and its error rates."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import dmlrank as dr
from dmlrank.cli.gate import with_lost_runs
from dmlrank.cli.main import main
from dmlrank.exceptions import IntervalWarning

from ..support import table_of_releases

FORMULA = "accuracy ~ 1 | model"


@pytest.fixture(scope="module")
def table():
    return table_of_releases(600, -0.06, np.random.default_rng(1))


@pytest.fixture
def run(table, tmp_path, capsys):
    path = tmp_path / "scores.csv"
    table.to_csv(path, index=False)

    def gate(*options, inputs=(FORMULA, str(path), "--context", "prompt"), candidate="candidate", margin="0.05"):
        question = ["--candidate", candidate, "--baseline", "baseline", "--margin", margin]
        status = main(["gate", *inputs, *question, *options])
        return status, capsys.readouterr()

    return gate


@pytest.mark.parametrize(
    ("margin", "status", "words"),
    [
        (
            "0.2",
            0,
            r"^pass: candidate is at least baseline - 0.2: difference -[\d.]+, above -[\d.]+ with 95 % confidence "
            r"\(the limit is -0.2, P < 0.001\)$",
        ),
        (
            "0",
            3,
            r"^worse: candidate is below baseline: difference -[\d.]+, below -[\d.]+ with 95 % confidence "
            r"\(P < 0.001\)$",
        ),
        (
            "0.05",
            4,
            r"^not decided: .* about [\d,]+ independent prompts in all \(600 so far\) would decide it with 80 % ",
        ),
    ],
)
def test_the_exit_code_is_the_decision(run, margin, status, words):
    code, said = run(margin=margin)
    assert code == status
    assert said.out.count("\n") == 1
    assert re.search(words, said.out)
    assert said.err.startswith("read 1,200 rows of ")


def test_the_figures_are_those_of_paired_tests_written_out(run, table):
    status, said = run("--json", "--level", "0.9")
    figures = json.loads(said.out)
    wide = table.pivot(index="prompt", columns="model", values="accuracy")
    gaps = (wide["candidate"] - wide["baseline"]).to_numpy()
    assert figures["std_error"] == pytest.approx(gaps.std() / np.sqrt(len(gaps)))
    limits = gaps.mean() + norm.isf(0.1) * figures["std_error"] * np.array([-1, 1])
    np.testing.assert_allclose([figures["lower"], figures["upper"]], limits, atol=0.002)
    assert figures["p_pass"] == pytest.approx(norm.sf((gaps.mean() + 0.05) / figures["std_error"]), abs=0.02)
    assert 1 <= figures["p_pass"] + figures["p_worse"] < 1.05
    # The prompts with which the test would find the difference from the margin with a power of 80 %.
    needed = 600 * ((norm.isf(0.1) + norm.isf(0.2)) * figures["std_error"] / (gaps.mean() + 0.05)) ** 2
    shown = re.search(r"about ([\d,]+) independent prompts", figures["text"])
    assert float(shown[1].replace(",", "")) == pytest.approx(needed, rel=0.1)
    expected = {True: "pass", False: "not decided"}[bool(limits[0] > -0.05)]
    assert (figures["decision"], status) == (expected, {"pass": 0, "not decided": 4}[expected])


def test_stored_results_and_votes_have_a_gate_too(run, table, tmp_path, capsys):
    path = tmp_path / "stored.json"
    dr.dml_rank(FORMULA, table, context="prompt").to_json(path)
    assert run(inputs=(str(path),))[0] == run()[0] == 4
    battles = tmp_path / "battles.csv"
    dr.datasets.simulate_arena(n=1500, rng=0).to_csv(battles, index=False)
    question = ["--candidate", "dolly-v2-12b", "--baseline", "gpt-4", "--margin", "0.02"]
    assert main(["gate", "winner ~ 1 | model_a + model_b", str(battles), *question]) == 3
    assert "worse: dolly-v2-12b is below gpt-4 - 0.02" in capsys.readouterr().out


def test_a_margin_that_no_difference_can_exceed_is_refused(run, table, tmp_path, capsys):
    path = tmp_path / "stored.json"
    results = dr.dml_rank(FORMULA, table, context="prompt")
    low, high = results.estimates.description.score_range
    by_prompt = table.groupby(["prompt", "model"])["accuracy"].mean()
    assert (low, high) == (by_prompt.min(), by_prompt.max()) == (0, 1)
    for scaled, factor in ((results, 1), (results.rescale(100), 100)):
        scaled.to_json(path)
        code, said = run(inputs=(str(path),), margin=f"{2 * factor}")
        assert code == 1
        assert f"between 0 and {factor}, so that every candidate would pass" in said.err
        assert run(inputs=(str(path),), margin=f"{0.99 * factor}")[0] == 0
    code, said = run(margin="2")
    assert code == 1
    assert "0.01 is 1 % of this range" in said.err
    dr.dml_rank(FORMULA, table.assign(accuracy=1 + 4 * table["accuracy"]), context="prompt").to_json(path)
    assert run(inputs=(str(path),), margin="3.9")[0] == 0
    code, said = run(inputs=(str(path),), margin="4")
    assert code == 1
    assert "between 1 and 5, so that" in said.err
    assert "0.04 is 1 % of this range" in said.err
    # Win shares lie between 0 and 1, and log-odds have no limits.
    for functional, expected in (("borda", 1), ("bt", 0)):
        assert run("--functional", functional, margin="8")[0] == expected, functional
    capsys.readouterr()


def test_releases_that_agree_on_all_prompts_pass_from_the_number_that_is_named(table, tmp_path, capsys, printed):
    path = tmp_path / "constant.csv"
    question = ["--candidate", "candidate", "--baseline", "baseline", "--margin", "0.01", "--context", "prompt"]
    for n, status in ((170, 4), (298, 4), (300, 0)):
        table[table["prompt"] < n].assign(accuracy=1.0).to_csv(path, index=False)
        assert main(["gate", FORMULA, str(path), *question]) == status
        said = capsys.readouterr().out
        assert ("this margin needs 299 prompts, even if none of them is lost" in said) == (status == 4)
    # A loss makes the interval wider, and an unseen one counts as before.
    few = table[table["prompt"] < 170].assign(accuracy=1.0)
    few.iloc[few["model"].eq("candidate").argmax(), few.columns.get_loc("accuracy")] = 0.0
    few.to_csv(path, index=False)
    assert "this margin needs 299 prompts" in printed(["gate", FORMULA, str(path), *question], 4)
    table.assign(accuracy=5.0).to_csv(path, index=False)
    with pytest.warns(dr.exceptions.IntervalWarning, match="same on all"):
        assert main(["gate", FORMULA, str(path), *question]) == 4
    assert "is 0 on all prompts, and says nothing about others" in capsys.readouterr().out


def test_gaps_of_other_models_do_not_matter(run, table, tmp_path):
    third = table[table["model"] == "baseline"].assign(model="third").iloc[:-20]
    path = tmp_path / "gaps.csv"
    pd.concat([table, third]).to_csv(path, index=False)
    status, said = run(inputs=(FORMULA, str(path), "--context", "prompt"))
    assert (status, said.out) == (run()[0], run()[1].out)
    # A prompt on which only the third model was run counts as a failure of both.
    alone = pd.concat([table, third.assign(prompt=third["prompt"] + 10_000)[:50]])
    alone.to_csv(path, index=False)
    with pytest.warns(IntervalWarning, match="missing scores of 'third'"):
        status, said = run("--json", inputs=(FORMULA, str(path), "--context", "prompt", "--missing", "0.0"))
    whole = json.loads(run("--json")[1].out)["difference"]
    assert json.loads(said.out)["difference"] == pytest.approx(whole * 600 / 650)


def test_a_candidate_that_loses_the_runs_in_which_it_fails_does_not_pass(tmp_path, capsys):
    rng = np.random.default_rng(3)
    prompt, model, run = (axis.ravel() for axis in np.meshgrid(range(400), ("new", "old"), range(3), indexing="ij"))
    score = (rng.random(len(prompt)) < 0.6).astype(float)
    score[(model == "new") & (score == 0) & (rng.random(len(prompt)) < 0.25)] = np.nan
    table = pd.DataFrame({"prompt": prompt, "model": model, "run": run, "score": score, "half": prompt % 2})
    path, stored = tmp_path / "runs.csv", tmp_path / "stored.json"
    table.to_csv(path, index=False)
    fit = ["score ~ 1 | model", str(path), "--context", "prompt", "--run", "run"]
    question = ["--candidate", "new", "--baseline", "old", "--margin"]

    def gate(*options):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", IntervalWarning)
            return main(["gate", *options]), capsys.readouterr().out

    code, said = gate(*fit, *question, "0.02")
    assert code == 4
    n_lost = int(table["score"].isna().sum())
    found = r"^not decided: lost runs: \d+ of new; left out, pass: .*; at their worst .*, (not decided|worse): "
    assert re.search(found, said)
    code, said = gate(*fit, *question, "0.02", "--json")
    figures = json.loads(said)
    counted = json.loads(gate(*fit, *question, "0.02", "--missing", "0", "--json")[1])
    assert (code, figures["decision"], figures["lost_runs"]) == (4, "not decided", {"new": n_lost})
    # The baseline lost none, so that the worst for the candidate is that all lost runs count as 0.
    assert figures["lost_runs_at_worst"]["lower"] == pytest.approx(counted["lower"])
    # So it is with chances that all of several runs succeed, for which prompts with lost runs may have too few.
    of_three = ("--functional", "PassHatK(3)", "--json")
    figures, counted = (
        json.loads(gate(*fit, *question, "0.02", *of_three, *options)[1]) for options in ((), ("--missing", "0"))
    )
    assert figures["lost_runs"] == {"new": n_lost}
    assert figures["lost_runs_at_worst"]["lower"] == pytest.approx(counted["lower"])
    # Who says what a lost run counts has the decision of that, and a decision that holds with any score is one.
    assert gate(*fit, *question, "0.02", "--missing", "drop")[0] == 0
    code, said = gate(*fit, *question, "0.02", "--lost", "left-out")
    assert (code, said.endswith("; lost runs are left out\n")) == (0, True)
    code, said = gate(*fit, *question, "0.02", "--lost", "lowest", *of_three)
    assert (code, json.loads(said)["difference"]) == (4, pytest.approx(counted["difference"]))
    code, said = gate(*fit, *question, "0.2")
    assert code == 0
    assert said.endswith(f"; lost runs: {n_lost} of new; the decision holds whatever they count\n")
    head, *groups = gate(*fit, *question, "0.3", "--by", "half")[1].splitlines()
    assert head.endswith(f"; lost runs: {n_lost} of new; the decision holds whatever they count")
    assert [line.split(":")[0] for line in groups] == ["  0", "  1"]
    # A stored result cannot tell.
    with pytest.warns(IntervalWarning, match="different shares"):
        dr.dml_rank("score ~ 1 | model", table, context="prompt", run="run").to_json(stored)
    code, said = gate(str(stored), *question, "0.02")
    assert code == 4
    assert "give the formula and the file" in said
    assert gate(str(stored), *question, "0.02", "--lost", "left-out")[0] == 0


@pytest.mark.filterwarnings("ignore::dmlrank.exceptions.IntervalWarning")
def test_lost_runs_are_counted_for_each_model(tmp_path, capsys):
    """Few lost runs matter at the margin; those of the baseline too; and names that contain others are told apart."""
    rng = np.random.default_rng(1)
    prompt, model, run = (
        axis.ravel() for axis in np.meshgrid(range(300), ("x", "gpt x", "y"), range(4), indexing="ij")
    )
    table = pd.DataFrame({"prompt": prompt, "model": model, "run": run, "score": (rng.random(len(prompt)) < 0.6) * 1.0})
    lost = table.copy()
    lost.loc[(lost["model"] == "gpt x") & (lost["run"] == 0), "score"] = np.nan
    # Some of the baseline's lost runs have no row at all.
    lost = lost.drop(lost.index[(lost["model"] == "y") & (lost["run"] == 2)][:15])
    lost.loc[lost.index[(lost["model"] == "y") & (lost["run"] == 3)][:10], "score"] = np.nan
    path, stored = tmp_path / "runs.csv", tmp_path / "runs.json"
    lost.to_csv(path, index=False)
    result = dr.dml_rank("score ~ 1 | model", lost, context="prompt", run="run")
    result.to_json(stored)
    assert dict(zip(result.models, result.estimates.description.runs_lost, strict=True)) == {
        "gpt x": 300,
        "x": 0,
        "y": 25,
    }

    def gate(candidate, baseline, margin, *inputs):
        question = ["--candidate", candidate, "--baseline", baseline, "--margin", str(margin), "--json"]
        code = main(["gate", *(inputs or fit), *question])
        return code, json.loads(capsys.readouterr().out)

    fit = ["score ~ 1 | model", str(path), "--context", "prompt", "--run", "run"]
    _, figures = gate("x", "y", 0.05)
    assert figures["lost_runs"] == {"y": 25}
    full = lost.merge(table[["prompt", "model", "run"]], how="right").fillna({"score": 1.0})
    means = full.groupby("model")["score"].mean()
    assert figures["lost_runs_at_worst"]["difference"] == pytest.approx(means["x"] - means["y"])
    # Between the two margins that the bounds decide, the decision depends on what a lost run counts.
    low, high = -figures["lost_runs_at_worst"]["lower"], -figures["lower"]
    assert high < low
    assert gate("x", "y", (low + high) / 2)[0] == 4
    assert gate("x", "y", low + 1e-6)[0] == 0
    # Only the runs of the two models count, by their whole names, from a stored result, too.
    assert gate("x", "y", (low + high) / 2, str(stored))[0] == 4
    stored_of_x = gate("x", "gpt x", 0.5, str(stored))
    assert (stored_of_x[0], stored_of_x[1]["lost_runs"]) == (4, {"gpt x": 300})


def test_the_line_tells_a_limit_of_the_interval_from_that_of_the_margin(run):
    lower = json.loads(run("--json")[1].out)["lower"]
    margin = f"{round(0.0001 - lower, 4)}"
    said = run(margin=margin)[1].out
    shown = re.search(r"above (-[\d.]+) .*limit is (-[\d.]+)", said)
    assert float(shown[1]) != float(shown[2])
    assert float(shown[1]) == pytest.approx(lower, abs=1e-4)
    assert len(shown[1].partition(".")[2]) == 4


def test_the_worst_group_decides(table, tmp_path, capsys, printed):
    path = tmp_path / "tasks.csv"
    is_sql = table["prompt"].astype(int) % 3 == 0
    shift = np.where(table["model"] == "candidate", np.where(is_sql, -0.3, 0.3), 0)
    table.assign(task=np.where(is_sql, "sql", "other"), accuracy=table["accuracy"] + shift).to_csv(path, index=False)
    command = ["gate", FORMULA, str(path), "--context", "prompt", "--candidate", "candidate", "--baseline", "baseline"]
    assert main([*command, "--margin", "0.05"]) == 0
    capsys.readouterr()
    assert main([*command, "--margin", "0.05", "--by", "task"]) == 3
    head, other, sql = capsys.readouterr().out.splitlines()
    assert head.startswith("worse: the worst of 2 groups decides")
    assert other.startswith("  other: pass: ")
    assert sql.startswith("  sql: worse: ")
    assert "with 97.5 % confidence" in sql
    assert main([*command, "--margin", "0.9", "--by", "task", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    results = dr.dml_rank(FORMULA, pd.read_csv(path), context="prompt", rng=0)
    expected = results.by("task")["sql"].t_test(("candidate", "baseline"), delta=-0.9, side="larger").conf_int(0.025)[0]
    assert figures["groups"]["sql"]["lower"] == pytest.approx(expected[0])
    assert "one look only" in printed([*command, "--margin", "0.9", "--by", "task", "--planned", "900"], 1)
    # A group that is worse decides beside one that is not decided.
    third = table["prompt"].astype(int) % 3
    shift = np.where(table["model"] == "candidate", np.array([-0.3, 0.3, 0.0])[third], 0)
    table.assign(task=third, accuracy=table["accuracy"] + shift).to_csv(path, index=False)
    assert "2: not decided" in printed([*command, "--margin", "0.05", "--by", "task"], 3)


def test_looks_at_growing_data(run):
    code, said = run("--planned", "900", "--start", "300", margin="0.3")
    assert code == 0
    assert said.out.endswith("at all looks from 300 prompts on\n")
    code, said = run("--planned", "900", "--start", "300")
    assert code == 4
    assert "would decide it" not in said.out


@pytest.mark.parametrize(
    ("options", "margin", "message"),
    [
        (("--level", "0.3"), "0", "--level is 0.3; give a number from 0.5"),
        (("--level", "1"), "0", "--level is 1; give a number from 0.5"),
        (("--start", "300"), "0", "--start is the size of the first look"),
        ((), "-1", "--margin is -1; give a number of at least 0"),
        ((), "nan", "--margin is nan; give a number of at least 0"),
    ],
)
def test_wrong_options_are_errors(run, options, margin, message):
    code, said = run(*options, margin=margin)
    assert code == 1
    assert message in said.err
    assert run("--level", "0.5")[0] != 1


def test_wrong_models_and_files_are_errors(run, tmp_path, table):
    assert "name two different models" in run(candidate="baseline")[1].err
    assert "there is no model 'candidat'; did you mean 'candidate'" in run(candidate="candidat")[1].err
    stored = tmp_path / "stored.json"
    dr.dml_rank(FORMULA, table, context="prompt").to_json(stored)
    assert "2 files and no formula were given" in run(inputs=(str(stored), str(stored)))[1].err
    assert "nothing is fitted" in run(inputs=(str(stored), "--context", "prompt"))[1].err
    with pytest.raises(SystemExit) as ended:
        main(["gate", str(stored), "--candidate", "candidate", "--baseline", "baseline"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("left_out", "worst", "best", "found", "begins"),
    [
        ("pass", "pass", "pass", "pass", "pass: left out; lost runs: 3 of m; the decision holds"),
        ("not decided", "pass", "pass", "pass", "pass: at worst; lost runs: 3 of m; the decision holds"),
        ("not decided", "worse", "worse", "worse", "worse: at best; lost runs: 3 of m; the decision holds"),
        ("pass", "worse", "not decided", "not decided", "not decided: lost runs: 3 of m; left out, pass: left out; at"),
        ("worse", "worse", "pass", "not decided", "not decided: lost runs: 3 of m; left out, worse: left out; at"),
    ],
)
def test_a_decision_holds_where_the_bounds_of_lost_runs_agree(left_out, worst, best, found, begins):
    names = {"left out": left_out, "at worst": worst, "at best": best}
    decision, *bounds = ({"decision": word, "text": f"{word}: {where}"} for where, word in names.items())
    made = with_lost_runs(decision, bounds, {"m": 3})
    assert made["decision"] == found
    assert made["text"].startswith(begins)


def test_runs_that_both_models_lost_are_counted_where_another_model_has_them(tmp_path, capsys):
    rng = np.random.default_rng(1)
    rows = [(prompt, model, float(rng.random() < 0.7)) for prompt in range(300) for model in ("a", "b", "c")]
    table = pd.DataFrame(rows, columns=["prompt", "model", "score"])
    path = tmp_path / "lost.csv"
    table[(table["prompt"] >= 40) | (table["model"] == "c")].to_csv(path, index=False)
    words = ["score ~ 1 | model", str(path), "--context", "prompt", "--functional", "borda", "--margin", "0.1"]
    with pytest.warns(dr.DmlrankWarning):
        assert main(["gate", *words, "--candidate", "a", "--baseline", "b"]) == 4
    assert "lost runs: 40 of a and 40 of b" in capsys.readouterr().out


@pytest.mark.parametrize("cells", ["1,234;2,500", "12,345;1,000"])
def test_commas_that_may_be_decimal_or_thousands_are_named(cells, tmp_path, capsys):
    path = tmp_path / "scores.csv"
    first, second = cells.split(";")
    path.write_text(f"prompt;model;score\n1;a;{first}\n1;b;{second}\n2;a;{second}\n2;b;{first}\n", encoding="utf-8")
    assert main(["fit", "score ~ 1 | model", str(path), "--context", "prompt"]) == 1
    assert "may have a decimal comma, or thousands" in capsys.readouterr().err


def test_comparisons_of_scores_say_where_a_model_has_none(tmp_path, run, table):
    path, gappy = tmp_path / "gaps.csv", table.copy()
    gappy.loc[gappy.index[gappy["model"] == "candidate"][:3], "accuracy"] = np.nan
    gappy.to_csv(path, index=False)
    _, said = run("--scores", "prompt", "model", "accuracy", inputs=(str(path),), margin="0.4")
    assert "prompts without a score (3 of candidate) are left out" in said.out
    assert "--run RUN" in said.out


@pytest.mark.parametrize("functional", ["mean", "PassHatK(1)"])
def test_the_comment_has_the_decision_the_scores_and_what_was_counted(run, table, tmp_path, functional):
    path = tmp_path / "comment.md"
    status, shown = run("--out", str(path), "--functional", functional, margin="0.2")
    said = path.read_text(encoding="utf-8").replace("\\<", "<")
    name = {"mean": "mean (of accuracy)", "PassHatK(1)": "pass^1 (of accuracy)"}[functional]
    means = table.groupby("model")["accuracy"].mean()
    assert status == 0
    for words in ("Gate: pass", shown.out.strip(), name, f"{len(table):,} scores on 600 prompts", "95% simult. CI"):
        assert words in said
    assert len({line.count("|") for line in said.splitlines() if line.startswith("|")}) == 1
    rows = [line for line in said.splitlines() if re.match(r"\| [12-]+ \| (candidate|baseline)", line)]
    assert [f"{means[row.split()[3]]:.3f}" == row.split()[5] for row in rows] == [True, True]
    assert run("--out", str(tmp_path / "comment.txt"))[0] == 1
    if functional == "mean":
        run("--out", str(path), "--set", "lower_is_better=yes", margin="0.2")
        assert f"| candidate | {means['candidate']:.3f} |" in re.sub(" +", " ", path.read_text(encoding="utf-8"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("lead", "old", "status", "posts"),
    [(0.2, "old", 0, True), (-0.3, "old", 3, True), (0.0, "old", 0, True), (0.2, "other", 1, False)],
)
def test_the_workflow_of_the_page_runs_and_its_exit_codes_are_the_decisions(lead, old, status, posts, tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "how_to" / "gate.md").read_text(encoding="utf-8")
    workflow = pytest.importorskip("yaml").safe_load(re.search(r"```yaml\n(.*?)```", text, flags=re.S)[1])
    assert workflow["permissions"] == {"contents": "read", "pull-requests": "write"}
    *_, step = workflow["jobs"]["gate"]["steps"]
    assert step["env"] == {"GH_TOKEN": "${{ github.token }}"}
    names = {"candidate": "new", "baseline": old}
    table = table_of_releases(400, lead, np.random.default_rng(0))
    table.assign(model=table["model"].map(names)).to_csv(tmp_path / "scores.csv", index=False)
    # The commands of the page, and one that stands for GitHub's, which a fork's token does not let write.
    programs = {"dmlrank": f'exec "{sys.executable}" -m dmlrank.cli "$@"', "gh": 'echo "$@" >> posted; exit 1'}
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    script = step["run"].replace("${{ github.event.number }}", "12")
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    assert done.returncode == status, done.stderr
    assert ("::warning::not decided" in done.stdout) == (lead == 0)
    assert (tmp_path / "posted").exists() == posts
    if posts:
        assert (tmp_path / "posted").read_text().split() == ["pr", "comment", "12", "--body-file", "comment.md"]
        assert (tmp_path / "comment.md").read_text().startswith("**Gate: ")
    # The command at the head of the page is that of the workflow without its file.
    head = re.search(r"```text\n(dmlrank gate .*)\n", text)[1]
    assert head.split() == re.search(r"dmlrank gate .*(?=--out)", script, flags=re.S)[0].replace("\\", "").split()
