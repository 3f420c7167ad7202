"""Published figures of data sets and of peers' test suites: the same data give the same figures.

Each has its source. Data and figures are typed in, or stand in the files that bradley_terry2.R wrote. The scores are
maximum likelihood where a source has that.
"""

import json
import pathlib

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t as student

import dmlrank as dr
from dmlrank.exceptions import GraphError
from dmlrank.options import in_objects

HERE = pathlib.Path(__file__).parent


def likelihood(formula, table, **options):
    return dr.dml_rank(formula, table, **in_objects({"functional": "bt", "estimator": "bt_mle", "rng": 0, **options}))


def against(res, reference):
    return (res.params - res.params[reference]).drop(reference)


# --- R's BradleyTerry2 1.1.3 (data of its help pages; Turner and Firth 2012, J. Stat. Software 48(9)) ---

# American League 1987 (Agresti 2002, Categorical Data Analysis, table 10.10): home wins and away wins.
TEAMS = ["Milwaukee", "Detroit", "Toronto", "New York", "Boston", "Cleveland", "Baltimore"]
HOME_AND_AWAY = {
    "Milwaukee": "4-3 4-2 4-3 6-1 4-2 6-0",
    "Detroit": "3-3 4-2 4-3 6-0 6-1 4-3",
    "Toronto": "2-5 4-3 2-4 4-3 4-2 6-0",
    "New York": "3-3 5-1 2-5 4-3 4-2 6-1",
    "Boston": "5-1 2-5 3-3 4-2 5-2 6-0",
    "Cleveland": "2-5 3-3 3-4 4-3 4-2 2-4",
    "Baltimore": "2-5 1-5 1-6 2-4 1-6 3-4",
}


@pytest.fixture(scope="module")
def baseball():
    rows = [
        (home, away, *map(int, wins.split("-")))
        for home in TEAMS
        for away, wins in zip((team for team in TEAMS if team != home), HOME_AND_AWAY[home].split(), strict=True)
    ]
    return pd.DataFrame(rows, columns=["home", "away", "home_wins", "away_wins"])


BASEBALL = "home_wins + away_wins ~ 1 | home + away"


def test_baseball_without_home_advantage(baseball):
    # tests/testthat/test-baseball.R of BradleyTerry2 (Agresti 2002, table 10.11, column 3).
    found = against(likelihood(BASEBALL, baseball), "Baltimore")
    assert sorted(found.round(2)) == [0.68, 1.11, 1.25, 1.29, 1.44, 1.58]


def test_baseball_with_home_advantage(baseball):
    # The same file: abilities of column 5, and the coefficient at.home; the vignette has its four digits.
    res = likelihood(BASEBALL, baseball, position_bias=True)
    worth = np.exp(res.params)
    assert sorted((worth / worth.sum()).round(3)) == [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220]
    assert round(res.diagnostics.order_effect, 4) == 0.3023
    assert "adds 0.302 to the log-odds" in " ".join(str(res.summary()).split())
    # Sandwich errors of the same generalised linear model in statsmodels.
    votes = [
        [wins, *((team == row.home) - (team == row.away) for team in TEAMS[:-1]), 1]
        for row in baseball.itertuples()
        for wins, number in ((1, row.home_wins), (0, row.away_wins))
        for _ in range(number)
    ]
    y, x = np.split(np.array(votes, dtype=float), [1], axis=1)
    glm = sm.GLM(y, x, family=sm.families.Binomial()).fit(cov_type="HC0")
    np.testing.assert_allclose(against(res, "Baltimore")[TEAMS[:-1]], glm.params[:-1], atol=1e-8)
    np.testing.assert_allclose(res.diagnostics.order_effect_error, glm.bse[-1], rtol=1e-6)
    boston = res.t_test("Boston - Baltimore")
    np.testing.assert_allclose(boston.sd[0], glm.bse[TEAMS.index("Boston")], rtol=1e-6)


def test_citations():
    # Stigler (1994), citations between statistics journals; the summary of BTm in the package's vignette.
    table = pd.DataFrame(
        [
            ("Biometrika", "Comm Statist", 730, 33),
            ("Biometrika", "JASA", 498, 320),
            ("Biometrika", "JRSS-B", 221, 284),
            ("Comm Statist", "JASA", 68, 813),
            ("Comm Statist", "JRSS-B", 17, 276),
            ("JASA", "JRSS-B", 142, 325),
        ],
        columns=["journal1", "journal2", "win1", "win2"],
    )
    res = likelihood("win1 + win2 ~ 1 | journal1 + journal2", table, position_bias=False)
    found = against(res, "Biometrika").round(5)
    assert found.to_dict() == {"Comm Statist": -2.94907, "JASA": -0.47957, "JRSS-B": 0.26895}


def test_flutes_of_sound_fields(ignore_warnings):
    # Kousgaard (1984), Scand. J. Statist. 11, table 3, in the help page of sound.fields: Davidson's model of ties, with
    # which ties as half a win agree "after re-scaling quite closely".
    fields = ["000", "001", "010", "011", "100", "101", "110", "111"]
    pairs = [(a, b) for a in fields[::-1] for b in fields[::-1] if a > b]
    wins = [1, 0, 0, 2, 3, 5, 5, 3, 1, 2, 2, 4, 3, 3, 2, 3, 3, 3, 1, 1, 5, 4, 2, 4, 1, 5, 4, 2]
    ties = [1, 1, 1, 2, 1, 0, 0, 0, 2, 1, 1, 1, 1, 0, 0, 0, 2, 1, 0, 1, 0, 0, 0, 1, 2, 0, 1, 2]
    losses = [3, 4, 4, 1, 1, 0, 0, 2, 2, 2, 2, 0, 1, 2, 3, 2, 0, 1, 4, 3, 0, 1, 3, 0, 2, 0, 0, 1]
    table = pd.DataFrame(pairs, columns=["field1", "field2"]).assign(win1=wins, win2=losses, tie=ties)
    res = likelihood("win1 + win2 + tie ~ 1 | field1 + field2", table, position_bias=False)
    published = [-0.581, -1.039, 0.347, 0.205, 0.276, 0.347, 0.311, 0.135]
    assert np.corrcoef(res.params[fields], published)[0, 1] > 0.995


# 303 students, first and second school, votes for each and ties (Dittrich et al. 1998, Applied Statistics 47, 511):
# the summary in tests/Examples/psychotree-Ex.Rout.save of R's psychotree 0.16.
CEMS = """
London Paris 186 91 26, London Milano 221 56 26, Paris Milano 121 59 32, London St.Gallen 208 73 22,
Paris St.Gallen 165 119 19, Milano St.Gallen 135 140 28, London Barcelona 217 67 19, Paris Barcelona 157 109 37,
Milano Barcelona 104 132 67, St.Gallen Barcelona 144 134 25, London Stockholm 250 34 19, Paris Stockholm 203 70 30,
Milano Stockholm 157 100 46, St.Gallen Stockholm 155 98 50, Barcelona Stockholm 172 90 41
"""


def games(name):
    table = pd.read_csv(HERE / "games.csv")
    return table[table["set"] == name]


@pytest.mark.parametrize("name", ["CEMS", "football", "icehockey"])
def test_scores_of_bradley_terry2(name, ignore_warnings):
    # bradley_terry2.R has the models. The help page turns its scores of ice hockey into the KRACH ratings below, those
    # of Schlobotnik's "Build your own rankings".
    if name == "CEMS":
        rows = [row.split() for row in CEMS.split(",")]
        table = pd.DataFrame(rows, columns=["one", "two", "win1", "win2", "tie"])
        table = table.astype(dict.fromkeys(["win1", "win2", "tie"], int))
        res = likelihood("win1 + win2 + tie ~ 1 | one + two", table, position_bias=False)
    else:  # matches with 1, 0.5 and 0, and with 1, 0 and -1
        is_football = name == "football"
        meanings = {-1.0: "second", 0.0: "tie", 1.0: "first"} if is_football else None
        res = likelihood("result ~ 1 | first + second", games(name), position_bias=is_football, categories=meanings)
    expected = pd.read_csv(HERE / "bradley_terry2.csv", index_col=["set", "item"])["score"][name]
    if name == "football":
        assert res.diagnostics.order_effect == pytest.approx(expected.pop("at.home"), abs=1e-6)
    np.testing.assert_allclose(res.params[expected.index], expected, atol=1e-6)
    if name == "icehockey":
        worth = np.exp(res.params)
        for team, rating in {"Dnvr": 543.0, "Miam": 488.2, "Wscn": 481.3, "NrtD": 434.3}.items():
            middling = worth[team] / rating * 100  # wins half of the matches against all teams, itself among them
            assert (middling / (middling + worth)).mean() == pytest.approx(0.5, abs=2e-4)


def test_chameleons(ignore_warnings):
    # Stuart-Fox et al. (2006), Animal Behaviour 71, 1263: 106 contests of 35 males, two of which never lost and
    # ten never won. The largest group without such males has six.
    fights = games("chameleons").rename(columns={"first": "winner", "second": "loser"})
    with pytest.raises(GraphError, match=r"'C21' never lost to the others; 'C31' never lost .* and 7 more"):
        likelihood("~ 1 | winner + loser", fights)
    expected = pd.read_csv(HERE / "bradley_terry2.csv", index_col=["set", "item"])["score"]["chameleons"]
    inside = fights[fights[["winner", "loser"]].isin(expected.index).all(axis=1)]
    found = likelihood("~ 1 | winner + loser", inside).params
    np.testing.assert_allclose(found[expected.index], expected, atol=1e-6)


# --- other data sets ---


def test_chocolate_puddings():
    # Davidson (1970), J. Am. Statist. Assoc. 65, example 2, as in R's PlackettLuce: worths of his model of ties, which
    # are close to scores with ties as half a win after scaling.
    rows = [
        (1, 2, 19, 22, 16), (1, 3, 16, 19, 12), (2, 3, 19, 19, 10), (1, 4, 18, 23, 13), (2, 4, 23, 19, 9),
        (3, 4, 19, 20, 15), (1, 5, 13, 19, 18), (2, 5, 16, 20, 12), (3, 5, 16, 15, 17), (4, 5, 17, 14, 16),
        (1, 6, 18, 21, 12), (2, 6, 22, 20, 12), (3, 6, 13, 18, 10), (4, 6, 14, 19, 18), (5, 6, 11, 21, 12),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["i", "j", "wins_i", "wins_j", "ties"]).astype({"i": str, "j": str})
    res = likelihood("wins_i + wins_j + ties ~ 1 | i + j", table, position_bias=False)
    worths = pd.Series([0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855], list("123456"))
    assert np.corrcoef(res.params, np.log(worths))[0, 1] > 0.999
    assert res.params.rank().equals(worths.rank().rename("params"))


def test_german_parties():
    # tests/Examples/psychotools-Ex.Rout.save of R's psychotools 0.7 (GPL-2 | GPL-3): votes of 192 students for the
    # first and the second party, and worth(btmodel(GermanParties2009$preference)).
    parties = ["none", "Linke", "Gruene", "SPD", "CDU/CSU", "FDP"]
    pairs = [(parties[j], parties[k]) for k in range(6) for j in range(k)]
    wins = [119, 25, 23, 38, 34, 124, 69, 76, 128, 125, 83, 70, 137, 134, 106]
    table = pd.DataFrame(pairs, columns=["one", "two"]).assign(first=wins, second=192 - np.array(wins))
    worth = np.exp(likelihood("first + second ~ 1 | one + two", table, position_bias=False).params)[parties]
    assert (worth / worth.sum()).round(4).tolist() == [0.0768, 0.0604, 0.3658, 0.2520, 0.1332, 0.1118]


def test_toy_data_of_bradley_terry_scalable(ignore_warnings):
    # README.md of EllaKaye/BradleyTerryScalable (GPL-3): Eve has won all games, and the others fall into two groups.
    # The published iteration stops at a change of 1e-3 (epsilon of btfit).
    said = "CA> AB= BE< CD< BD= DE< FE< FG< FH< EG> FG= HG> HG< AD> CA> BD= DA<"
    rows = [(a, b, {"<": "W2", ">": "W1", "=": "D"}[c]) for a, b, c in said.split()]
    table = pd.DataFrame(rows, columns=["player1", "player2", "outcome"])
    options = {"categories": {"W1": "first", "W2": "second", "D": "tie"}, "position_bias": False}
    with pytest.raises(GraphError, match="'E' never lost"):
        likelihood("outcome ~ 1 | player1 + player2", table, **options)
    for published in ({"H": 0.696, "G": 0.413, "F": -1.11}, {"C": 0.592, "A": 0.0325, "B": -0.243, "D": -0.382}):
        group = table[table[["player1", "player2"]].isin(list(published)).all(axis=1)]
        found = likelihood("outcome ~ 1 | player1 + player2", group, **options).params
        np.testing.assert_allclose(found[list(published)], list(published.values()), atol=3e-3)


def test_the_worked_example_of_wikipedia(ignore_warnings):
    # "Bradley-Terry model", section on the solution procedure; also tests/test_bradley_terry.py of lmarena/arena-rank.
    rows = [("A", "B", 2, 3), ("A", "D", 1, 4), ("B", "C", 5, 3), ("C", "D", 1, 3)]
    table = pd.DataFrame(rows, columns=["one", "two", "one_wins", "two_wins"])
    res = likelihood("one_wins + two_wins ~ 1 | one + two", table, position_bias=False)
    assert np.exp(res.params).round(3).to_dict() == {"A": 0.640, "B": 1.043, "C": 0.660, "D": 2.270}


# --- test suites of peers ---


@pytest.mark.parametrize(
    ("winners", "expected"),
    [
        ([(0, 1), (1, 2), (2, 0)], [0.0, 0.0, 0.0]),
        ([(0, 1), (0, 1), (1, 2), (2, 0)], [0.419617624, -0.419617624, 0.0]),
    ],
)
def test_cases_of_choix(winners, expected, ignore_warnings):
    # tests/data/testcase-pairwise-1.json and -2.json of lucasmaystre/choix (MIT): winner before loser.
    table = pd.DataFrame(winners, columns=["winner", "loser"])
    np.testing.assert_allclose(likelihood("~ 1 | winner + loser", table).params, expected, atol=1e-8)


EVALICA = {
    # simple.csv and simple-golden.csv of dustalov/evalica (Apache 2.0).
    "simple": (
        "01= 02> 02= 04= 10< 12= 12= 13= 24= 30< 31< 32< 34= 34= 40< 43<",
        {"4": 0.34947527489923, "3": 0.33688868041573855, "2": 0.13168568070110523, "1": 0.1311506914535368,
         "0": 0.050799672530389396},
    ),
    # food.csv and food-golden.csv: burger, pasta (A), pizza (I), sushi, tacos.
    "food": (
        "IS< BA> TI< ST> BI< AS> TB< IA= SB> AT< BS> TI< SA= BT< IB> AT> BS> TA< IT> SB< AI> BS> TA< IS< SB> AT> TI< "
        "BA> ST< IB>",
        {"T": 0.43428982771223773, "S": 0.19060028489839073, "B": 0.14797665121689418, "A": 0.1281534106031957,
         "I": 0.09897982556928168},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EVALICA)
def test_golden_files_of_evalica(name, ignore_warnings):
    votes, golden = EVALICA[name]
    rows = [(a, b, {"<": "left", ">": "right", "=": "tie"}[said]) for a, b, said in votes.split()]
    res = likelihood(
        "winner ~ 1 | left_item + right_item", pd.DataFrame(rows, columns=["left_item", "right_item", "winner"])
    )
    worth = np.exp(res.params)
    np.testing.assert_allclose((worth / worth.sum())[list(golden)], list(golden.values()), rtol=2e-4)


@pytest.mark.parametrize(("k", "expected"), [(1, 0.7), (2, 0.95)])
def test_pass_at_k(k, expected, ignore_warnings):
    # julia/Scorio.jl/test/eval/test_eval_apis.jl of mohsenhariri/scorio (MIT); the README has pass@2, too.
    runs = pd.DataFrame({"task": list("aaaaabbbbb"), "model": "m", "solved": [0, 1, 1, 0, 1, 1, 1, 0, 1, 1]})
    res = dr.dml_rank("solved ~ 1 | model", runs, context="task", functional=dr.functionals.PassAtK(k), rng=0)
    assert res.params["m"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("values", "is_clustered", "mean", "error"),
    [
        ("CI", False, 0.5, 0.5),
        ("CCCCCCCCII", False, 0.8, 0.13333333333333333),
        ("CIPN", False, 0.375, None),
        (range(10), False, 4.5, 0.957),
        (range(20), True, 9.5, 0.645),
    ],
    ids=["GPQA", "popularity", "letters", "numbers", "clusters"],
)
def test_accuracy_and_stderr_of_inspect(values, is_clustered, mean, error, tmp_path, ignore_warnings):
    # UKGovernmentBEIS/inspect_ai (MIT): the log of GPQA in pull request 245, the results of the log
    # tests/scorer/logs/2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval, and the tests
    # label_vocabulary, stderr and clustered_stderr in tests/scorer/test_metric.py.
    samples = [{"id": i, "epoch": 1, "scores": {"choice": {"value": value}}} for i, value in enumerate(values)]
    header = {"version": 2, "status": "success", "eval": {"task": "gpqa", "model": "m", "config": {}}}
    (tmp_path / "log.json").write_text(json.dumps(header | {"samples": samples}), encoding="utf-8")
    table = dr.datasets.read_log(tmp_path).assign(cluster=lambda rows: np.arange(len(rows)) % 4)
    options = {"cov_type": "cluster", "cov_kwds": {"groups": "cluster"}} if is_clustered else {}
    res = dr.dml_rank("score ~ 1 | model", table, context="prompt", rng=0, **options)
    assert res.params["m"] == pytest.approx(mean, abs=1e-12)
    if error:  # inspect divides by n - 1, the package by n; with clusters both take G / (G - 1)
        correction = 1 if is_clustered else np.sqrt(len(values) / (len(values) - 1))
        assert res.bse["m"] * correction == pytest.approx(error, abs=5e-4)


# Correct answers to 200 questions on 40 passages, hexadecimal: examples/data/reading_comprehension.csv of
# antonsoo/errorbars (MIT), synthetic.
ANSWERS = {
    "baseline-7b": "e795ad1442923e1723fadf70a144aa5a782e426e4025809f7a",
    "tuned-7b": "f691cf014080bf5623bf8fcffa049d12fa196fbc8023c4ffff",
    "baseline-70b": "afddab11e0b57f1f9bfe6c18f114aebf7eb69dd9eaff147bed",
    "tuned-70b": "c7fd3ffde89f3fe71dffff5492ef74d4f2c1f95f69ff54dfff",
}


def test_the_worked_example_of_errorbars():
    # examples/README.md and README.md of the same repository.
    rows = [
        (i, i // 5, model, float(answer))
        for model, answers in ANSWERS.items()
        for i, answer in enumerate(f"{int(answers, 16):0200b}")
    ]
    table = pd.DataFrame(rows, columns=["question", "passage", "model", "score"])
    res = dr.dml_rank("score ~ 1 | model", table, context="question", rng=0)
    assert res.params.round(3).to_dict() == {
        "tuned-70b": 0.69,
        "baseline-70b": 0.62,
        "tuned-7b": 0.535,
        "baseline-7b": 0.47,
    }
    correction = np.sqrt(200 / 199)
    assert round(res.bse["tuned-70b"] * correction, 4) == 0.0328
    pair = res.t_test("tuned-70b - baseline-70b")
    error = pair.sd[0] * correction
    assert (round(pair.effect[0], 4), round(error, 4)) == (0.07, 0.0440)
    assert 2 * student.sf(pair.effect[0] / error, 199) == pytest.approx(0.1131, abs=5e-5)
    clustered = res.update(cov_type="cluster", cov_kwds={"groups": "passage"})
    assert round(clustered.bse["tuned-70b"], 4) == 0.0372
    # Their letters are a, ab, bc and c, and Holm's p-value, with Student's distribution for 40 passages, is 0.3223.
    tests = clustered.t_test_pairwise(method="holm")
    frame = tests.result_frame.set_index(["first", "second"])
    # Tests here count one unseen passage besides, so that the first of their three pairs has a p-value of 0.057.
    assert frame.index[tests.rejected].tolist() == [("tuned-70b", "baseline-7b"), ("baseline-70b", "baseline-7b")]
    assert frame.loc[("tuned-70b", "tuned-7b"), "p_adjusted"] == pytest.approx(0.057, abs=0.001)
    p = np.sort(2 * student.sf((frame["estimate"] / frame["std_error"]).abs(), 39))
    assert np.maximum.accumulate(p * np.arange(6, 0, -1))[4] == pytest.approx(0.3223, abs=5e-5)
