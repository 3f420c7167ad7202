"""The command line says what the API says, and ends with 1 and a message where that raises."""

import errno
import functools
import gzip
import io
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import dmlrank as dr
from dmlrank.cli.commands import parse
from dmlrank.cli.main import main
from dmlrank.cli.read_files import ColumnRoles
from dmlrank.options import OPTIONS, in_objects

from ..support import FORMULA, needs, two_of

ARROW = ("parquet", "feather")


@pytest.fixture(scope="module")
def battles():
    return dr.datasets.simulate_arena(n=1500, rng=1)


@pytest.fixture
def csv(battles, tmp_path):
    path = tmp_path / "battles.csv"
    battles.to_csv(path, index=False)
    return str(path)


@pytest.mark.long
def test_the_package_runs_as_a_module():
    ran = subprocess.run([sys.executable, "-m", "dmlrank.cli", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout == f"dmlrank {dr.__version__}\n"


@pytest.mark.long
def test_demo_prints_a_summary(printed):
    shown = printed(["demo", "--functional", "borda"])
    assert "Nonparametric Ranking Results" in shown
    assert "gpt-4" in shown


def test_fit_agrees_with_the_api(battles, csv, capsys):
    words = ["--functional", "bt", "--context", "question_id", "--rng", "3", "--alpha", "0.1"]
    assert main(["fit", FORMULA, csv, *words]) == 0
    expected = dr.dml_rank(FORMULA, battles, functional="bt", context="question_id", rng=3, alpha=0.1)
    assert capsys.readouterr().out == f"{expected.summary()}\n"


def test_looks_at_growing_data_from_the_command_line(battles, csv, tmp_path, capsys, printed):
    about = ["fit", FORMULA, csv, "--functional", "bt", "--context", "question_id", "--rng", "3"]
    out = str(tmp_path / "result.json")
    assert main([*about, "--planned", "6000", "--start", "900", "--out", out]) == 0
    view = dr.dml_rank(FORMULA, battles, functional="bt", context="question_id", rng=3).sequential(6000, start=900)
    assert capsys.readouterr().out.rstrip("\n") == view.summary().as_text()
    assert dr.read_json(out).estimates.sequence == view.estimates.sequence
    wrong = {
        ("--start", "900"): "--planned",
        ("--planned", "6000", "--start", "1600"): "1,500 prompts",
        ("--planned", "6000", "--by", "category"): "--by",
        ("--planned", "6000", "--set", "bootstrap=webb"): "bootstrap() of a sequential view",
    }
    for words, message in wrong.items():
        assert message in printed([*about, *words], 1)


@needs("pyarrow")
@pytest.mark.parametrize("kind", ARROW)
def test_arrow_files_need_pyarrow(tmp_path, printed, monkeypatch, kind):
    path = tmp_path / f"battles.{kind}"
    path.write_bytes(b"no such thing")
    assert "cannot be read as" in printed(["fit", FORMULA, str(path)], 1)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "files needs pyarrow: pip install 'dmlrank[arrow]'" in printed(["fit", FORMULA, str(path)], 1)


def test_claims_about_order_are_written(battles, csv, tmp_path, capsys):
    out = {kind: tmp_path / f"{kind}.csv" for kind in ("pairs", "ranks")}
    words = ["--rng", "3", "--set", f"pairs={out['pairs']}", "--out", str(out["ranks"])]
    assert main(["fit", FORMULA, csv, *words]) == 0
    capsys.readouterr()
    result = dr.dml_rank(FORMULA, battles, rng=3)
    pd.testing.assert_frame_equal(pd.read_csv(out["pairs"]), result.t_test_pairwise().result_frame, rtol=1e-9)
    ranks = pd.read_csv(out["ranks"], index_col="model")
    expected = result.ranks().result_frame.rename(columns={"lower": "rank_low", "upper": "rank_high"})
    pd.testing.assert_frame_equal(ranks[expected.columns].loc[expected.index], expected, check_names=False)


@needs("jinja2")
def test_check_agrees_with_the_api(battles, csv, tmp_path, capsys, printed):
    paths = {ending: tmp_path / f"check.{ending}" for ending in ("txt", "html", "json")}
    words = ["--context", "question_id", "--set", "min_labels=40", "--groups", "question_id", "judge"]
    assert main(["check", FORMULA, csv, *words, *(w for path in paths.values() for w in ("--out", str(path)))]) == 0
    groups = {"groups": ["question_id", "judge"]}
    expected = dr.check(FORMULA, battles, context="question_id", pairs=dr.Pairs(min_labels=40), cov_kwds=groups)
    assert paths["txt"].read_text(encoding="utf-8") == capsys.readouterr().out == f"{expected}\n"
    assert "<!DOCTYPE html>" in paths["html"].read_text(encoding="utf-8")
    for name, rows in json.loads(paths["json"].read_text()).items():
        frame = pd.DataFrame(rows, columns=expected.frames()[name].columns).fillna(np.nan)
        pd.testing.assert_frame_equal(frame, expected.frames()[name], check_dtype=False)
    assert "promt" in printed(["check", FORMULA, csv, "--context", "promt"], 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["winner ~ 1 | model_a", "FILE"], "context="),
        ([FORMULA, "nowhere.csv"], "there is no file 'nowhere.csv'"),
        ([FORMULA, "battles.xls"], "unknown ending"),
        ([FORMULA, "FILE", "--functional", "brda"], "did you mean 'borda'?"),
        ([FORMULA, "FILE", "--categories", "skipped"], "LABEL=MEANING"),
    ],
)
def test_errors_are_messages_not_tracebacks(csv, capsys, arguments, words):
    assert main(["fit", *[csv if argument == "FILE" else argument for argument in arguments]]) == 1
    shown = capsys.readouterr()
    assert words in shown.err
    assert not shown.out


def test_compare_fits_once_and_agrees_with_the_api(battles, csv, tmp_path, capsys):
    out = {name: tmp_path / f"out.{name}" for name in ("csv", "html", "tex", "md", "pairs")}
    words = ["compare", FORMULA, csv, "--functional", "borda", "bt", "--rng", "3", "--top", "3"]
    options = dict.fromkeys(out, "--out") | {"pairs": "--reversals"}
    for name, option in options.items():
        words += [option, str(out[name])]
    assert main(words) == 0
    first = dr.dml_rank(FORMULA, battles, functional="borda", rng=3)
    expected = dr.compare(borda=first, bt=first.update(functional="bt"))
    summary = expected.summary(top=3)
    assert capsys.readouterr().out.rstrip("\n") == summary.as_text()
    pd.testing.assert_frame_equal(pd.read_csv(out["csv"]), expected.tidy().astype({"rank": "int64"}))
    assert out["html"].read_text() == summary.as_html()
    assert out["tex"].read_text() == summary.as_latex()
    assert out["md"].read_text() == summary.as_markdown()
    assert len(pd.read_csv(out["pairs"])) == len(expected.reversals())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["one.json"], "two or more stored results"),
        (["one.json", "two.json", "--position_bias", "no"], "--position-bias is an option of a fit"),
        (["one.json", "two.json"], "there is no file 'one.json'"),
        ([FORMULA], "a formula and files"),
        ([FORMULA, "x.csv", "y.csv", "--functional", "bt", "borda"], "give one functional"),
        ([FORMULA, "x.csv", "--functional", "bt"], "two or more different functionals"),
        ([FORMULA, "x.csv", "--functional", "bt", "bt"], "two or more different functionals"),
    ],
)
def test_compare_says_what_it_needs(words, message, printed):
    assert message in printed(["compare", *words], 1)


def test_an_arena_is_one_word_on_the_command_line(csv, capsys, printed):
    """The options that it stands for, and a plan for the leader."""
    call = ["design", FORMULA, csv, "--functional", "bt", "--budget", "60", "--set", "pairs=arena"]
    assert main(call) == 0
    plan = dr.dml_rank(FORMULA, pd.read_csv(csv), functional="bt", pairs="arena").design(60)
    assert " ".join(capsys.readouterr().out.split()) == " ".join(str(plan.summary()).split())
    assert "as in an arena" in " ".join(str(plan).split())
    assert "pairs=arena and 'min_labels' are both about pairs" in printed([*call, "--set", "min_labels=2"], 1)
    assert "allowed: 'arena'" in printed([*call[:-1], "pairs=all"], 1)


def test_a_stored_result_is_no_file_of_votes(csv, tmp_path, printed):
    stored = tmp_path / "fit.json"
    printed(["fit", FORMULA, csv, "--functional", "bt", "--out", stored])
    assert "is a stored result, which compare, report and gate read" in printed(["fit", stored, "--by", "category"], 1)


# --- text is read as text ---------------------------------------------------------------------------------------------


NAMES = {
    "versions": ["4.1", "4.10", "4.100"],
    "zeros": ["001", "01", "1"],
    "long": ["12345678901234567890", "12345678901234567891", "12345678901234567892"],
    "exponents": ["1e10", "10e9", "100e8"],
    "words": ["None", "null", "NA"],
    "truth": ["True", "TRUE", "true"],
    "dates": ["2024-01-01", "2024-01-02", "inf"],
}
ENDS = ("", "0", ".0", "00", "1", "01", "x")


def battles_of(models, prompts, n=360):
    rng = np.random.default_rng(0)
    a, b = two_of(rng, 3, n)
    won = rng.random(n) < 0.6
    names, prompt = np.array(models, dtype=object), np.arange(n) // 3 % len(prompts)
    votes = pd.DataFrame({"winner": np.where(won, "model_a", "model_b"), "model_a": names[a], "model_b": names[b]})
    return votes.assign(q=np.array(prompts, dtype=object)[prompt], length=rng.normal(size=n)[prompt] * 1e3 / 3)


def written_as(frame, kind, folder):
    path = folder / f"battles.{kind}"
    if "csv" in kind or "tsv" in kind:
        frame.to_csv(path, index=False, sep="\t" if "tsv" in kind else ",")
    elif kind in ("parquet", "feather", "arrow"):
        (frame.to_parquet if kind == "parquet" else frame.to_feather)(path)
    elif kind == "json":
        path.write_text(json.dumps(frame.to_dict(orient="records")))
    else:
        path.write_text("\n".join(json.dumps(row) for row in frame.to_dict(orient="records")))
    return str(path)


def fitted(path, folder, *words):
    out = folder / "fit.json"
    formula = "winner ~ length | model_a + model_b"
    options = [word for value in ("min_labels=1", "tune=none", "n_folds=2") for word in ("--set", value)]
    options += ["--rng", "0", "--propensity", "marginal", "--out", str(out)]
    assert main(["fit", formula, path, *options, *words]) == 0
    return dr.read_json(out)


def from_frame(frame, **options):
    fixed = {"rng": 0, "min_labels": 1, "propensity": "marginal", "tune": None, "n_folds": 2}
    return dr.dml_rank("winner ~ length | model_a + model_b", frame, **in_objects({**fixed, **options}))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        *((names, "csv") for names in NAMES),
        *(("versions", kind) for kind in ("tsv", "csv.gz", "json", "jsonl")),
        *(pytest.param("versions", kind, marks=needs("pyarrow")) for kind in ("parquet", "feather", "arrow")),
    ],
)
def test_text_gives_the_same_bits_as_from_the_frame(names, kind, tmp_path, capsys, ignore_warnings):
    names = NAMES[names]
    frame = battles_of(names, list(dict.fromkeys(f"{name}{end}" for name in names for end in ENDS)))
    read = fitted(written_as(frame, kind, tmp_path), tmp_path, "--context", "q", "--groups", "q")
    expected = from_frame(frame, context="q", cov_type="cluster", cov_kwds={"groups": "q"})
    assert read.to_json() == expected.to_json()


def test_features_are_numbers_where_every_cell_is_one():
    read = ColumnRoles(names=("q",)).typed(
        pd.DataFrame(
            {
                "q": ["1", "01", None],
                "whole": ["1", "-2", "30"],
                "holes": ["1", "NA", None],
                "floats": ["0.1", "1e-3", "inf"],
                "zeros": ["001", "2", "3"],
                "long": ["1", "2", "12345678901234567890"],
                "truth": ["True", "False", "True"],
                "text": ["NA", "1", "x"],
                "empty": [None, None, None],
            },
            dtype=object,
        )
    )
    assert [column.dtype.kind for _, column in read.items()] == list("OiffOObOf")
    assert read["q"].tolist() == ["1", "01", None]
    assert read["floats"].tolist() == [0.1, 1e-3, np.inf]
    assert read["text"].tolist() == ["NA", "1", "x"]


@pytest.mark.parametrize(
    "kind", ["csv", "tsv", "csv.gz", "json", "jsonl", *(pytest.param(k, marks=needs("pyarrow")) for k in ARROW)]
)
def test_standard_input_is_read_by_its_beginning(kind, tmp_path, printed, monkeypatch, ignore_warnings):
    frame = battles_of(["a", "b", "c"], range(120)).astype({"q": "str"})
    content = pathlib.Path(written_as(frame, kind, tmp_path)).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert fitted("-", tmp_path, "--context", "q").to_json() == from_frame(frame, context="q").to_json()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert "standard input is empty" in printed(["fit", FORMULA, "-"], 1)
    assert "stands for one file" in printed(["fit", FORMULA, "-", "--judge", "-"], 1)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.json", b"{}\n[1]", "it must hold objects"),
        ("a.json", b"[]", "it holds nothing"),
        ("a.json", b'{"winner": {"0": "x"}, "model_a": {"0": "y"}}', "orient='records'"),
        ("a.jsonl", b'{"a": 1}\nnonsense', "line 2"),
        ("a.json", b"[" * 100_000, "cannot be read as JSON"),
        ("a.jsonl", b'{"winner": "a", "model_a": ["a"], "model_b": "b"}', "'model_a' holds ['a'], a list, in row 0"),
        ("a.csv", b"a,b\n1,2,3\n", "cannot be read as csv"),
        ("a.csv", b"\xff\xfe\x00", "cannot be read as csv"),
        ("a.csv", b"", "cannot be read as csv"),
        ("a.csv.gz", b"winner,model_a", "cannot be read as csv"),
        ("a.csv.gz", gzip.compress(b"winner,model_a,model_b" * 99, mtime=0)[:-9], "cannot be read as csv"),
        ("a.csv", b"winner,model_a,model_b,model_a\nx,y,z,y\n", "several columns named 'model_a'"),
    ],
)
def test_files_that_are_not_what_their_names_say(name, content, words, tmp_path, capsys, printed):
    (tmp_path / name).write_bytes(content)
    assert words in printed(["fit", FORMULA, str(tmp_path / name)], 1)
    (tmp_path / "empty").mkdir()
    assert "is a folder without parquet files" in printed(["fit", FORMULA, tmp_path / "empty"], 1)


# --- files that are written, and how a command ends -------------------------------------------------------------------


@pytest.mark.parametrize("option", ["out", "pairs", pytest.param("report", marks=needs("jinja2"))])
def test_files_that_cannot_be_written_are_found_before_the_fit(csv, tmp_path, capsys, option):
    # A fit with this formula has an error of its own: there is no column of this name.
    formula = "winner ~ nowhere | model_a + model_b"
    (tmp_path / "folder.csv").mkdir()
    for path, words in (
        (tmp_path / "none" / "out.csv", "there is no folder"),
        (tmp_path / "folder.csv", "is a folder; give the name of a file"),
    ):
        words_of_option = ["--set", f"pairs={path}"] if option == "pairs" else [f"--{option}", str(path)]
        assert main(["fit", formula, csv, *words_of_option]) == 1
        shown = capsys.readouterr().err
        assert shown.startswith(f"dmlrank: --{option}: '{path}'")
        assert words in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "FILE"], "is a file that is read; it would be overwritten"),
        (["--out", "out.csv", "--set", "pairs=./out.csv"], "name the same file"),
        (["--out", "-"], "--out '-' is not the name of a file"),
        (["--out", "out.pgn"], "a result is written as .txt or .md"),
    ],
)
def test_outputs_that_cannot_be_meant(csv, tmp_path, capsys, monkeypatch, words, message, printed):
    monkeypatch.chdir(tmp_path)
    before = pathlib.Path(csv).read_bytes()
    assert message in printed(["fit", FORMULA, csv, *[csv if word == "FILE" else word for word in words]], 1)
    assert pathlib.Path(csv).read_bytes() == before
    call = ["design", FORMULA, csv, "--budget", "9", "--out", "plan.txt"]
    assert "a plan is written as .csv or .json or .png or .svg or .pdf" in printed(call, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["battles.csv"]


@needs("matplotlib")
def test_a_disk_that_fills_during_the_fit_leaves_the_summary_and_the_other_files(csv, tmp_path, capsys, monkeypatch):
    def fails(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", fails)
    out = tmp_path / "out.png"
    assert main(["fit", FORMULA, csv, "--rng", "0", "--out", str(tmp_path / "out.csv"), "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert "Nonparametric Ranking Results" in shown.out
    assert "out.csv' cannot be written: No space left on device" in shown.err
    assert f"; not written: {tmp_path / 'out.csv'}; written: {out}\n" in shown.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["battles.csv", "out.png"]


@pytest.mark.parametrize(
    "stage", ["cli.commands.parse", "cli.commands.read_request", "dml_rank", "cli.write_files.write_all"]
)
def test_ctrl_c_ends_with_130(stage, csv, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"dmlrank.{stage}", functools.wraps(dr.dml_rank)(interrupted))
    assert main(["fit", FORMULA, csv, "--functional", "borda", "--set", "n_folds=2", "--set", "tune=none"]) == 130
    shown = capsys.readouterr()
    assert "interrupted" in shown.err
    assert len([line for line in shown.err.splitlines() if line.startswith("dmlrank")]) == 1
    assert not shown.out


def test_memory_that_does_not_suffice_is_one_line(csv, capsys, monkeypatch):
    def fails(*_, **__):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr("dmlrank.dml_rank", functools.wraps(dr.dml_rank)(fails))
    assert main(["fit", FORMULA, csv]) == 1
    assert "\ndmlrank: there is not enough memory (Unable to allocate 8 TiB); fewer" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="pipes and devices are Unix's")
def test_a_reader_that_leaves_and_a_full_device(csv, tmp_path):
    call = [sys.executable, "-W", "ignore", "-m", "dmlrank.cli", "check", FORMULA, csv]
    read, write = os.pipe()
    os.close(read)
    gone = subprocess.run(call, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (gone.returncode, gone.stderr.count("\n")) == (141, 1)
    if os.path.exists("/dev/full"):
        with open("/dev/full", "w") as full:
            ended = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert ended.returncode == 1
        message = "dmlrank: the output cannot be printed: [Errno 28] No space left on device"
        assert ended.stderr.splitlines()[1:] == [message]


# --- no other code ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("features", "found"),
    [
        ("I(__import__('os').system('touch ran') + length)", "__import__('os').system('touch ran')"),
        ("I(open('ran', 'w').write('x') + length)", "open('ran', 'w').write('x')"),
        ("I(max(['1'], key=eval) + length)", "eval"),
        ("length.to_csv('ran')", "length.to_csv('ran')"),
        ("I(text.__globals__ == length)", "text.__globals__"),
        ("I([abs][0](length))", "[abs][0](length)"),
        ("I(__builtins__['open']('ran'))", "__builtins__['open']('ran')"),
        ("I(max(['1'], key=Q('__built' + 'ins__')['eval']) + length)", "Q('__built' + 'ins__')['eval']"),
        ("I(Q('__builtins__') == None)", "Q('__builtins__')"),
        ("I((lambda: 1)() + length)", "(lambda: 1)()"),
        ("I([x for x in category][0])", "[x for x in category][0]"),
        ("I(f'{length!r}')", "f'{length!r}'"),
        ("I('{:>999999999}'.format(length))", "'{:>999999999}'.format(length)"),
        ("I(length + 9**9**9)", "9 ** 9 ** 9"),
        ("I(pow(9, 999999999))", "pow(9, 999999999)"),
        ("I(round(1, -999999999) + length)", "round(1, -999999999)"),
        ("I(length ** length)", "length ** length"),
        ("I(1 << length)", "1 << length"),
        ("I('x' * 999999999)", "'x' * 999999999"),
        ("I(str(length) * 999999999)", "str(length)"),
        ("I(('%99999' + '99999d') % 1 == category)", "'%99999' + '99999d'"),
        ("I(length + len(('a' + 'b') * 9999999999))", "len(('a' + 'b') * 9999999999)"),
        ("C(category, **{})", "**{}"),
        ("category.str.contains('(a+)' + '+b')", "category.str.contains('(a+)' + '+b')"),
        ("category.str.count(pat=min('(a+)+b', 'z'))", "category.str.count(pat=min('(a+)+b', 'z'))"),
        ("I(length.T)", "length.T"),
        ("np.load('ran')", "np.load"),
    ],
)
def test_a_formula_runs_no_other_code(csv, tmp_path, printed, monkeypatch, features, found):
    monkeypatch.chdir(tmp_path)
    assert f"use {found!r}; on the command line" in printed(["fit", f"winner ~ {features} | model_a + model_b", csv], 1)
    assert not (tmp_path / "ran").exists()
    assert f"use {found!r}; on the command line" in printed(["fit", FORMULA, csv, "--propensity", f"~ {features}"], 1)


def test_a_column_named_as_a_builtin_lets_no_formula_call_the_builtin(battles, tmp_path, printed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    battles.rename(columns={"length": "open"}).to_csv("b.csv", index=False)
    assert "open" in printed(["check", "winner ~ I(open('ran', 'w') is None) | model_a + model_b", "b.csv"], 1)
    assert not (tmp_path / "ran").exists()
    assert main(["check", "winner ~ I(open + 1) | model_a + model_b", "b.csv"]) == 0


def test_a_formula_calls_functions_of_columns(battles, tmp_path):
    battles.rename(columns={"length": "type"}).to_csv(tmp_path / "b.csv", index=False)
    features = (
        "C(category) + I(abs(type) ** 2) + center(type) + np.clip(type, 0, 1) + np.log1p(abs(type))"
        " + I(-center(type) ** 3) + C(category, Treatment('coding')) + bs(type, df=4, degree=2) + I(category == 'math')"
        " + Q('type'):C(category) + I(np.where(category == 'math', type, 2 * Q('type')))"
        " + cr(type, knots=[100, 300]) + I((type > 0) & ~(type > 1))"
    )
    assert main(["check", f"winner ~ {features} | model_a + model_b", str(tmp_path / "b.csv")]) == 0


@needs("matplotlib")
@pytest.mark.parametrize(
    ("words", "options"),
    [
        ((), {}),
        (("--top", "3"), {"top": 3}),
        (("--models", "claude-v1", "gpt-4"), {"models": ["claude-v1", "gpt-4"]}),
        (("--slim", "--top", "2"), {"slim": True, "top": 2}),
    ],
)
def test_out_is_written_in_the_format_of_its_ending(battles, csv, tmp_path, capsys, words, options):
    paths = {ending: tmp_path / f"out.{ending}" for ending in ("txt", "md", "html", "tex", "csv", "json", "png")}
    files = [word for path in paths.values() for word in ("--out", str(path))]
    call = ["fit", FORMULA, "--context", "question_id", "--rng", "0", *files, *words, "--set", "n_folds=2", csv]
    assert main(call) == 0
    res = dr.dml_rank(FORMULA, battles, context="question_id", learning=dr.Learning(n_folds=2), rng=0)
    summary = res.summary(**options)
    assert (summary.as_text() != res.summary().as_text()) == bool(options)
    assert capsys.readouterr().out == f"{summary}\n" == paths["txt"].read_text(encoding="utf-8")
    forms = {"md": summary.as_markdown, "html": summary.as_html, "tex": summary.as_latex}
    for ending, form in forms.items():
        assert paths[ending].read_text(encoding="utf-8").strip() == form().strip()
    # Whatever rows are shown, files of data have all models.
    pd.testing.assert_series_equal(pd.read_csv(paths["csv"])["estimate"], res.tidy()["estimate"], check_dtype=False)
    np.testing.assert_array_equal(dr.read_json(str(paths["json"])).params, res.params)
    assert paths["png"].read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--top", "0"), "top"),
        (("--models", "gpt-4", "gpt-4"), "each once"),
        (("--models", "gpt-5"), "no model 'gpt-5'"),
    ],
)
def test_wrong_rows_are_refused_before_the_fit(csv, printed, monkeypatch, words, message):
    monkeypatch.setattr("dmlrank.dml_rank", lambda *_, **__: pytest.fail("the fit has begun"))
    assert message in printed(["fit", FORMULA, csv, *words], 1)


@pytest.fixture(scope="module")
def months(tmp_path_factory):
    """Stored results of two months."""
    folder = tmp_path_factory.mktemp("months")
    for name, seed in (("february", 1), ("march", 2)):
        month = dr.datasets.simulate_arena(n=1500, rng=seed)
        dr.dml_rank(FORMULA, month, functional="borda", rng=0).to_json(str(folder / f"{name}.json"))
    return [str(folder / f"{name}.json") for name in ("february", "march")]


def test_a_page_of_months_has_the_changes(months, tmp_path, printed):
    pytest.importorskip("jinja2")
    page = tmp_path / "months.html"
    words = ["--set", "unit=%", "--set", "source=Volunteers", "--set", 'group={"gpt-4": "A & Co"}']
    assert main(["report", *months, "--independent", "--out", str(page), *words]) == 0
    text = page.read_text(encoding="utf-8")
    for said in ("Changes of scores from february", "Share of wins in %", "Source: Volunteers", "A &amp; Co</bdi>"):
        assert said.lower() in text.lower()
    for wrong, why in (("group={", "allowed: a mapping"), ("n_rep=2", "allowed: 'source', 'unit', 'links', 'group'")):
        assert why in printed(["report", months[0], "--out", str(page), "--set", wrong], 1)
    call = ["compare", *months, "--independent", "--set", "unit=%"]
    assert "unit is a word of the page of --report" in printed(call, 1)
    call = ["report", months[0], "--independent", "--out", page]
    assert "--independent is about several results" in printed(call, 1)


@pytest.mark.parametrize("command", ["demo", "check", "fit", "design", "compare", "report"])
def test_help_teaches_by_examples_that_can_be_parsed(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    examples = shown[shown.index("examples:\n") : shown.index("exit codes:")].replace("\\\n", " ")
    commands = [line.split(" | ", 1)[-1] if line.strip().startswith("zcat") else line for line in examples.splitlines()]
    commands = [shlex.split(line[line.index("dmlrank") :])[1:] for line in commands if "dmlrank" in line]
    assert commands
    for words in commands:
        parsed = parse(words)
        assert words[0] == command
        assert callable(parsed.carry_out)


def test_a_command_that_cannot_be_parsed_ends_with_2(capsys):
    fit = ["fit", FORMULA, "battles.csv"]
    for words in (["nothing"], ["fit"], [*fit, "--no-such-option"], [*fit, "--top", "2", "--models", "gpt-4"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("words", "usage", "hint"),
    [
        (["fit", FORMULA, "x.csv", "--functionl", "bt"], "usage: dmlrank fit FORMULA FILE ...", "mean '--functional'?"),
        (["fit", "--functionl", "bt", "logs"], "usage: dmlrank fit FORMULA FILE", "mean '--functional'?"),
        (["fit", FORMULA, "x.csv", "--min-labels", "5"], "usage: dmlrank fit", "; write --set min_labels=..."),
        (["report", "a.json", "--titel=x", "--out", "b.html"], "usage: dmlrank report JSON", "mean '--title'?"),
        (["gate", "--candidat_e", "a"], "usage: dmlrank gate FORMULA FILE", "mean '--candidate'?"),
    ],
)
def test_an_unknown_option_gives_the_usage_of_its_command_and_the_nearest_option(words, usage, hint, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith(usage)
    assert "there is no option --" in lines[1]
    assert lines[1].endswith(hint)


def test_an_error_is_one_line(tmp_path, capsys):
    path = tmp_path / "odd.csv"
    path.write_text('model_a,model_b,winner\n"a\nb",c,model_a\n"a\nb",c,wrong\n', encoding="utf-8")
    assert main(["fit", FORMULA, str(path)]) == 1
    message = capsys.readouterr().err
    assert message.splitlines()[-1].startswith("dmlrank: ")
    assert message.count("\n") == 2


def test_the_verdict_in_place_of_the_table(battles, csv, capsys, tmp_path):
    text, table = tmp_path / "said.txt", tmp_path / "table.md"
    assert main(["fit", FORMULA, csv, "--verdict", "--out", str(text), "--out", str(table)]) == 0
    said = capsys.readouterr().out
    assert said == dr.dml_rank(FORMULA, battles, rng=0).verdict() + "\n"
    assert text.read_text() == said
    assert main(["fit", FORMULA, csv, "--verdict", "--top", "3"]) == 0
    assert "Shown to be in the top 3 (95 % joint confidence): " in capsys.readouterr().out
    assert "|" in table.read_text()


def test_the_options_are_few_and_set_knows_all_others(csv, capsys):
    options = set()
    for command in ("demo", "check", "fit", "design", "compare", "report", "gate"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options |= set(re.findall(r"^  (?:-h, )?(--[a-z-]+)", capsys.readouterr().out, flags=re.M))
    assert {"--set", "--context", "--candidate"} <= options
    assert len(options) <= 45
    for name, option in OPTIONS.items():
        main(["fit", "winner ~ nowhere | model_a + model_b", csv, "--set", f"{name}=1"])
        assert f"knows no option {name!r}" not in capsys.readouterr().err, option


def test_options_that_set_gives(battles, csv, tmp_path, capsys, ignore_warnings, printed):
    out = tmp_path / "fit.json"
    options = {"n_rep": 2, "second_order": False, "category_weights": "paper", "tune": None, "floor": 0.2, "n_folds": 2}
    options |= {"functional": "bt", "position_bias": False, "weights": "length", "context": "question_id"}
    options |= {"propensity": "marginal"}
    words = "--set n_rep=2 --set second-order=no --set category_weights=paper --set tune=none --set floor=0.2"
    words += " --functional bt --position-bias no --weights length --context question_id --set prompts=fixed --progress"
    words += " --propensity marginal --set n_folds=2"
    formula = "winner ~ length | model_a + model_b"
    assert main(["fit", formula, csv, *words.split(), "--out", str(out)]) == 0
    assert "scores, contexts: 1500/1500" in capsys.readouterr().err
    expected = dr.dml_rank(formula, battles, cov_kwds={"prompts": "fixed"}, **in_objects({"rng": 0, **options}))
    stored = dr.read_json(str(out))
    np.testing.assert_array_equal(stored.params, expected.params)
    np.testing.assert_array_equal(stored.bse, expected.bse)
    for value, message in (
        ("min_lables=2", "'; did you mean 'min_labels'?"),
        ("min_labels", "give NAME=VALUE"),
        ("min_labels=0", "min_labels=0 is not allowed"),
        ("n_folds=many", "n_folds='many' is not allowed"),
        ("floor=half", "half"),
        ("rng=2", "rng was given twice"),
    ):
        assert message in printed(["fit", FORMULA, csv, "--rng", "1", "--set", value], 1)
    assert "check() has no option 'learner'" in printed(["check", FORMULA, csv, "--set", "learner=auto"], 1)


def test_lists_add_up_and_single_options_are_given_once(capsys):
    given = parse(
        ["fit", FORMULA, "b.csv", "--context", "q", "--rng=3", "--context", "r", "s", "--position_bias", "no"]
    )
    assert (given.context, given.rng, given.position_bias) == (["q", "r", "s"], 3, False)
    assert (given.formula, given.files) == (FORMULA, ["b.csv"])
    with pytest.raises(SystemExit):
        parse(["fit", FORMULA, "b.csv", "--rng", "3", "--rng", "4"])
    assert "--rng was given twice" in capsys.readouterr().err


def test_values_may_begin_with_a_dash(battles, tmp_path, capsys):
    path, numbers = tmp_path / "b.csv", battles["winner"].map({"model_a": 1, "model_b": -1, "tie": 0})
    battles.replace({"gpt-4": "-x"}).assign(winner=numbers).to_csv(path)
    words = [FORMULA, str(path), "--functional", "borda", "--baseline", "koala-13b", "--margin", "0"]
    words += ["--categories", "-1=second", "0=tie", "--categories", "1=first"]
    for candidate in (["--candidate", "-x"], ["--candidate=-x"]):
        assert main(["gate", *words, *candidate]) == 0
        assert capsys.readouterr().out.startswith("pass: -x is at least koala-13b")


def test_several_files_are_one_table(battles, csv, tmp_path, capsys, printed):
    paths = [str(tmp_path / f"{part}.csv") for part in "ab"]
    battles[:900].to_csv(paths[0], index=False)
    battles[900:].to_csv(paths[1], index=False)
    shown = []
    for files in ([csv], paths):
        assert main(["fit", FORMULA, *files, "--context", "question_id", "--functional", "bt"]) == 0
        shown.append(capsys.readouterr())
    assert shown[0].out == shown[1].out
    assert shown[1].err.startswith("read 1,500 rows of 2 files with 8 models: 'alpaca-13b', ")
    battles[900:].drop(columns="length").to_csv(paths[1], index=False)
    assert "differ in 'length'" in printed(["fit", FORMULA, *paths], 1)


@pytest.mark.long
@pytest.mark.skipif(os.name != "posix", reason="the locale and signals are Unix's")
def test_names_that_the_encoding_lacks(battles, tmp_path):
    path = tmp_path / "b.csv"
    battles.replace({"gpt-4": "caf\u00e9"}).to_csv(path, index=False)
    call = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "dmlrank.cli",
        "gate",
        FORMULA,
        str(path),
        "--functional",
        "borda",
    ]
    call += ["--candidate", "caf\u00e9", "--baseline", "koala-13b", "--margin", "0"]
    for further in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}):
        done = subprocess.run(call, capture_output=True, env={**os.environ, **further}, check=False)
        assert (done.returncode, done.stdout[:14]) == (0, b"pass: caf\\xe9 ")


@pytest.mark.skipif(os.name != "posix", reason="signals are Unix's")
def test_ctrl_c_while_modules_are_loaded(tmp_path):
    program = (
        "import sys, signal, importlib.abc\n"
        "class Interrupts(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'pandas': signal.raise_signal(signal.SIGINT)\n"
        # A job in the background of a shell ignores the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from dmlrank.cli.main import main\n"
        "sys.meta_path.insert(0, Interrupts())\n"
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (130, "", 1)


def test_a_feature_that_names_something_is_not_read_as_fewer_numbers(tmp_path, printed):
    frame = battles_of(["a", "b", "c"], ["1", "1.0", "2"])
    call = ["fit", "winner ~ q | model_a + model_b", written_as(frame, "csv", tmp_path), "--context", "q"]
    assert "1.0" in printed(call, 1)


def test_signs_that_are_nested_too_deeply_for_the_interpreter_are_refused(csv, capsys):
    # Newer interpreters read them.
    status = main(["check", f"winner ~ I({'-' * 5000}length) | model_a + model_b", csv])
    assert (status, "deeply" in capsys.readouterr().err) in [(0, False), (1, True)]
