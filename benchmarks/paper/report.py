"""Tables of the results, which docs/paper.md links to."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pandas as pd

from . import arena, collection, debiasing, judges, misspecification, mt_bench
from .tables import Experiment
from .ways import DEFAULT, DESCRIBED, FUNCTIONALS, WAYS

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "results"
NAMES = {"borda": "Borda", "bt": "BT", "rank_centrality": "rank centrality"}
# Powers of ten by which the errors of the paper's tables are multiplied; tab:debiasing does not state its own.
SCALES = {"borda": 1e3, "bt": 1e2, "rank_centrality": 1e4}

# [P tab:debiasing]: error and its +-, coverage and its +-, by functional, estimator and n.
PAPER_DEBIASING = {
    ("borda", "plugin"): {1000: (0.38, 0.08, 0.17), 2000: (0.16, 0.04, 0.20), 3000: (0.10, 0.02, 0.15)},
    ("borda", "debiased"): {1000: (0.15, 0.03, 0.94), 2000: (0.08, 0.02, 0.95), 3000: (0.05, 0.01, 0.97)},
    ("bt", "plugin"): {1000: (0.62, 0.13, 0.09), 2000: (0.30, 0.07, 0.07), 3000: (0.22, 0.04, 0.05)},
    ("bt", "debiased"): {1000: (0.25, 0.05, 0.90), 2000: (0.12, 0.02, 0.85), 3000: (0.08, 0.01, 0.90)},
    ("rank_centrality", "plugin"): {1000: (0.52, 0.12, 0.12), 2000: (0.26, 0.06, 0.06), 3000: (0.18, 0.04, 0.05)},
    ("rank_centrality", "debiased"): {1000: (0.27, 0.06, 0.91), 2000: (0.13, 0.02, 0.95), 3000: (0.09, 0.02, 0.95)},
}
# [P tab:collection], times 100 according to the paper.
PAPER_COLLECTION = {"borda": (0.130, 0.141), "bt": (2.861, 2.974), "rank_centrality": (0.017, 0.020)}
# The coverage study, which has the experiment on debiasing with the default learner and 300 seeds.
# The study of judges, which has the experiment on judges with the default learner.
JUDGE_STUDY = judges.EXPERIMENT.path().with_name("judge_noise.csv")


def mean_and_error(values: pd.Series, scale: float = 1.0) -> str:
    """Return a mean with its standard error in brackets."""
    mean, error = scale * values.mean(), scale * values.sem()
    return f"{mean:.2g}" if len(values) < 2 else f"{_rounded(mean)} ({_rounded(error)})"


def _rounded(value: float) -> str:
    """Return a number with two digits, without an exponent."""
    if value == 0 or not np.isfinite(value):
        return f"{value:.0f}"
    return f"{value:.{max(0, 1 - int(np.floor(np.log10(abs(value)))))}f}"


def ratio_and_error(numerator: pd.Series, denominator: pd.Series) -> str:
    """Return the ratio of the means of paired values, with its standard error in brackets."""
    ratio = numerator.mean() / denominator.mean()
    error = (numerator - ratio * denominator).sem() / denominator.mean()
    return f"{ratio:.2f}" if len(numerator) < 2 else f"{ratio:.2f} ({error:.2f})"


def rows_of(experiment: Experiment) -> pd.DataFrame:
    """Return the rows of an experiment; an empty frame where nothing was computed."""
    if not experiment.path().exists():
        return pd.DataFrame(columns=[*experiment.key, *experiment.columns])
    return experiment.rows()


def _where(table: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows in which columns have these values."""
    is_kept = np.ones(len(table), dtype=bool)
    for name, value in values.items():
        is_kept &= (table[name] == value).to_numpy()
    return table[is_kept]


def _in_order(rows: pd.DataFrame, settings: Iterable[str]) -> pd.DataFrame:
    """Return rows in an order of their settings; files have them in the order in which they were computed."""
    place = {setting: place for place, setting in enumerate(settings)}
    return rows.sort_values("setting", key=lambda column: column.map(place), kind="stable")


def debiasing_rows() -> pd.DataFrame:
    """Return all rows of the experiment as in the paper.

    Rows whose seed begins with "study" are from the coverage study by the default learner, the same experiment.
    """
    own = rows_of(debiasing.EXPERIMENT)
    return own[own["draw"].isin(debiasing.DRAWS)]


def runs_table() -> Iterator[str]:
    """Yield the numbers of runs: the paper's, and the smallest and largest number behind the numbers of a table."""
    yield "| experiment | paper | described | default |"
    yield "|---|---|---|---|"
    plans, gammas = rows_of(collection.EXPERIMENT), rows_of(misspecification.EXPERIMENT)
    for name, experiment, runs in (
        ("debiasing", debiasing.EXPERIMENT, debiasing_rows().groupby(["way", "draw", "n"])["seed"].nunique()),
        ("judges", judges.EXPERIMENT, judges_figures().groupby(["way", "judge", "noise"])["seeds"].min()),
        ("data collection", collection.EXPERIMENT, plans.groupby(["way", "draw"])["seed"].nunique()),
        ("misspecification", misspecification.EXPERIMENT, gammas.groupby(["way", "draw", "gamma"])["seed"].nunique()),
    ):
        cells = [_range(runs[way]) if way in runs.index else "-" for way in (DESCRIBED, DEFAULT)]
        yield f"| {name} | {experiment.seeds} | {' | '.join(cells)} |"


def _range(runs: pd.Series) -> str:
    """Return the smallest and the largest of some numbers, or the number if they are the same."""
    return f"{runs.min()}" if runs.min() == runs.max() else f"{runs.min()} to {runs.max()}"


def debiasing_table() -> Iterator[str]:
    """Yield the table on debiasing: the paper's numbers, then both ways for each draw of coefficients."""
    rows = debiasing_rows()
    ways = [(way, draw) for way in WAYS for draw in debiasing.DRAWS]
    yield f"| functional | estimator | n | paper | {' | '.join(f'{way}, draw {draw}' for way, draw in ways)} |"
    yield "|---|---|---|---|---|---|---|---|"
    for (functional, estimator), by_size in PAPER_DEBIASING.items():
        for n, (error, arm, covers) in by_size.items():
            cells = [f"{error:.2f} (± {arm:.2f}), {covers:.2f}"]
            for way, draw in ways:
                part = _where(rows, functional=functional, estimator=estimator, n=n, way=way, draw=draw)
                cells.append(
                    f"{mean_and_error(part['mse'], SCALES[functional])}, {part['covers'].mean():.2f} [{len(part)}]"
                    if len(part)
                    else "-"
                )
            yield f"| {NAMES[functional]} | {estimator} | {n} | {' | '.join(cells)} |"


def gain_table() -> Iterator[str]:
    """Yield the debiased estimator's mean squared error relative to the plug-in's, paired by sample."""
    rows = debiasing_rows()
    ways = [(way, draw) for way in WAYS for draw in debiasing.DRAWS]
    yield f"| functional | n | paper | {' | '.join(f'{way}, draw {draw}' for way, draw in ways)} |"
    yield "|---|---|---|---|---|---|---|"
    for functional in FUNCTIONALS:
        for n in debiasing.SIZES:
            paper = PAPER_DEBIASING[functional, "debiased"][n][0] / PAPER_DEBIASING[functional, "plugin"][n][0]
            cells = [f"{paper:.2f}"]
            for way, draw in ways:
                part = _where(rows, functional=functional, n=n, way=way, draw=draw)
                wide = part.pivot_table(index="seed", columns="estimator", values="mse")
                cells.append(f"{ratio_and_error(wide['debiased'], wide['plugin'])} [{len(wide)}]" if len(wide) else "-")
            yield f"| {NAMES[functional]} | {n} | {' | '.join(cells)} |"


def ways_table() -> Iterator[str]:
    """Yield the described estimator's mean squared error relative to the default's on the same samples."""
    rows = debiasing_rows()
    yield f"| functional | estimator | n | {' | '.join(f'draw {draw}' for draw in debiasing.DRAWS)} |"
    yield f"|---|---|---|{'---|' * len(debiasing.DRAWS)}"
    for functional, estimator in PAPER_DEBIASING:
        for n in debiasing.SIZES:
            cells = []
            for draw in debiasing.DRAWS:
                part = _where(rows, functional=functional, estimator=estimator, n=n, draw=draw)
                both = part.pivot_table(index="seed", columns="way", values="mse").reindex(columns=list(WAYS)).dropna()
                ratio = ratio_and_error(both[DESCRIBED], both[DEFAULT]) if len(both) else "-"
                cells.append(f"{ratio} [{len(both)}]")
            yield f"| {NAMES[functional]} | {estimator} | {n} | {' | '.join(cells)} |"


def choices_table() -> Iterator[str]:
    """Yield error and coverage under other choices of what the paper leaves open, at 1,000 contexts."""
    rows = rows_of(debiasing.OPEN_CHOICES)
    # Rows stand in the order in which they were computed. Variants come first, further draws of the coefficients last.
    order = {variant: place for place, variant in enumerate(debiasing.VARIANTS[1:])}
    rows = rows.assign(place=rows["variant"].map(order).fillna(len(order)))
    rows = rows.sort_values(["way", "place", "draw"], kind="stable")
    rows = rows.assign(variant=rows["variant"].fillna("two features, given propensities").astype(str))
    yield "| way, draw | choice | functional | runs | debiased | plug-in | debiased / plug-in |"
    yield "|---|---|---|---|---|---|---|"
    keys = ["way", "draw", "variant", "functional"]
    for (way, draw, variant, functional), part in rows.groupby(keys, sort=False):
        debiased = _where(part, estimator="debiased").set_index("seed")
        plugin = _where(part, estimator="plugin").set_index("seed").loc[debiased.index]
        cells = (
            f"{mean_and_error(own['mse'], SCALES[functional])}, {own['covers'].mean():.2f}"
            for own in (debiased, plugin)
        )
        ratio = ratio_and_error(debiased["mse"], plugin["mse"])
        yield f"| {way}, {draw} | {variant} | {NAMES[functional]} | {len(debiased)} | {' | '.join(cells)} | {ratio} |"


def judges_rows() -> pd.DataFrame:
    """Return all rows on judges, those of the study of judges with the default learner included.

    That study has the same experiment under other seeds, and the way "true mu" beside it.
    """
    own = rows_of(judges.EXPERIMENT)
    study = pd.read_csv(JUDGE_STUDY)
    study = study[study["how"] != "true mu"].rename(columns={"how": "judge", "joint": "covers"})
    study["judge"] = study["judge"].replace({"no judge, LightGBM": judges.NO_JUDGE_LIGHTGBM})
    study = study.assign(way=DEFAULT, seed="study " + study["seed"].astype(str))
    columns = ["way", "judge", "noise", "seed", "functional", "mse", "covers"]
    return pd.concat([own[columns], study[columns]], ignore_index=True)


def judges_figures() -> pd.DataFrame:
    """Return the errors with a judge relative to the same learner without one, with their standard errors."""
    rows, figures = judges_rows(), []
    for (way, how, functional, noise), part in rows.groupby(["way", "judge", "functional", "noise"], sort=False):
        without = _where(rows, way=way, functional=functional, judge=_without_judge(way, how))
        judged, without = part.set_index("seed")["mse"], without.set_index("seed")["mse"]
        common = judged.index.intersection(without.index)
        if len(common):
            ratio = judged[common].mean() / without[common].mean()
            error = (judged[common] - ratio * without[common]).sem() / without[common].mean()
            covers = part.set_index("seed")["covers"].astype(float)[common].mean()
            figures.append((way, how, functional, noise, len(common), ratio, error, covers))
    names = ["way", "judge", "functional", "noise", "seeds", "ratio", "error", "covers"]
    return pd.DataFrame(figures, columns=names)


def judges_table() -> Iterator[str]:
    """Yield the errors with a judge, relative to the same learner without one, and what better judges gain."""
    rows, figures = judges_rows(), judges_figures()
    yield "| way, judge | noise | Borda | BT | rank centrality |"
    yield "|---|---|---|---|---|"
    for way, how in ((DESCRIBED, judges.FEATURES), (DEFAULT, judges.FEATURES), (DEFAULT, judges.TWO_STAGE)):
        baseline = _without_judge(way, how)
        parts = [_where(rows, way=way, judge=baseline, functional=functional)["covers"] for functional in FUNCTIONALS]
        cells = [f"1, {covers.astype(float).mean():.2f} [{len(covers)}]" if len(covers) else "-" for covers in parts]
        yield f"| {way}, {baseline} |  | {' | '.join(cells)} |"
        for noise in judges.NOISE:
            cells = []
            for functional in FUNCTIONALS:
                part = _where(figures, way=way, judge=how, noise=noise, functional=functional)
                row = part.iloc[0] if len(part) else None
                error = "" if row is None or np.isnan(row["error"]) else f" ({row['error']:.2f})"
                cells.append("-" if row is None else f"{row['ratio']:.2f}{error}, {row['covers']:.2f} [{row['seeds']}]")
            yield f"| {way}, {how} | {noise:g} | {' | '.join(cells)} |"
        gains = [_exact_minus_noisiest(rows, way, how, functional) for functional in FUNCTIONALS]
        yield f"| {way}, {how} | 0 minus 1 | {' | '.join(gains)} |"


def _exact_minus_noisiest(rows: pd.DataFrame, way: str, how: str, functional: str) -> str:
    """Return the error with an exact judge minus that with the noisiest, relative to the error without a judge."""
    part = _where(rows, way=way, functional=functional)
    part = part[part["judge"].isin((how, _without_judge(way, how)))]
    # A fit without a judge has no noise. As infinity it is a column of its own.
    wide = part.pivot_table(index="seed", columns=part["noise"].fillna(np.inf), values="mse").dropna()
    if not len(wide):
        return "-"
    change = (wide[min(judges.NOISE)] - wide[max(judges.NOISE)]) / wide[np.inf].mean()
    return f"{change.mean():+.2f} ({change.sem():.2f}) [{len(change)}]"


def _without_judge(way: str, how: str) -> str:
    """Return the fits that those with a judge are compared with.

    By default a judge among the features makes LightGBM alone the learner, so that LightGBM alone is the comparison.
    """
    return judges.NO_JUDGE_LIGHTGBM if way == DEFAULT and how == judges.FEATURES else judges.NO_JUDGE


def collection_table() -> Iterator[str]:
    """Yield the errors by plan and at random, and their ratios."""
    rows = rows_of(collection.EXPERIMENT)
    yield "| functional | way, draw | plan from | seeds | plan | random | ratio |"
    yield "|---|---|---|---|---|---|---|"
    for functional, (planned, at_random) in PAPER_COLLECTION.items():
        ratio = f"{planned / at_random:.2f}"
        yield f"| {NAMES[functional]} | paper | not stated | 50 | {planned:g} | {at_random:g} | {ratio} |"
        for way in WAYS:
            for draw in collection.DRAWS:
                for kind in collection.PLANS:
                    part = _where(rows, functional=functional, way=way, draw=draw)
                    plan = _where(part, plan=kind).set_index("seed")["mse"]
                    uniform = _where(part, plan=collection.RANDOM).set_index("seed")["mse"]
                    both = plan.index.intersection(uniform.index)
                    if len(both):
                        yield (
                            f"| {NAMES[functional]} | {way}, {draw} | {kind} | {len(both)} "
                            f"| {mean_and_error(plan[both], 1e3)} | {mean_and_error(uniform[both], 1e3)} "
                            f"| {ratio_and_error(plan[both], uniform[both])} |"
                        )


def formula_table() -> Iterator[str]:
    """Yield what a plan can gain at the true mu: medians and ranges over draws of coefficients."""
    figures = collection.formula_ratios()
    yield "| functional | variance, plan | variance, random | ratio: median | ratio: range over draws |"
    yield "|---|---|---|---|---|"
    for functional in FUNCTIONALS:
        part = _where(figures, functional=functional)
        variances = " | ".join(f"{1e3 * part[name].median():.3f}" for name in ("plan", "random"))
        ratio = part["ratio"]
        yield f"| {NAMES[functional]} | {variances} | {ratio.median():.2f} | {ratio.min():.2f} to {ratio.max():.2f} |"


def misspecification_table() -> Iterator[str]:
    """Yield the root mean squared errors of all estimators by gamma."""
    rows = rows_of(misspecification.EXPERIMENT)
    yield "| way, draw | gamma | seeds | plug-in | projection | restricted | restricted, the paper's factor |"
    yield "|---|---|---|---|---|---|---|"
    for (way, draw, gamma), part in rows.groupby(["way", "draw", "gamma"]):
        wide = part.pivot_table(index="seed", columns="estimator", values="mse")
        cells = " | ".join(_root(wide[name]) for name in misspecification.ESTIMATORS)
        yield f"| {way}, {draw} | {gamma:g} | {len(wide)} | {cells} |"


def restriction_table() -> Iterator[str]:
    """Yield how often single intervals cover, and how often the test of the restriction rejects, by gamma."""
    rows = rows_of(misspecification.EXPERIMENT)
    yield "| way, draw | gamma | seeds | coverage, projection | coverage, the package's restricted | test rejects |"
    yield "|---|---|---|---|---|---|"
    for (way, draw, gamma), part in rows.groupby(["way", "draw", "gamma"]):
        projection, restricted = (_where(part, estimator=name) for name in ("projection", "restricted"))
        cells = " | ".join(f"{own['covers_share'].mean():.2f}" for own in (projection, restricted))
        rejected = f"{restricted['rejected'].sum():.0f} of {len(restricted)}"
        yield f"| {way}, {draw} | {gamma:g} | {len(restricted)} | {cells} | {rejected} |"


def shrinkage_table() -> Iterator[str]:
    """Yield slopes from true to estimated scores and errors where the Bradley-Terry model holds."""
    rows = rows_of(misspecification.SHRINKAGE)
    names = (*misspecification.ESTIMATORS, misspecification.HALF)
    yield (
        "| way, draw | runs | plug-in | projection | restricted | restricted, the paper's factor "
        "| restricted, half of the paper's correction |"
    )
    yield "|---|---|---|---|---|---|---|"
    for (way, draw), part in rows.groupby(["way", "draw"]):
        slope, mse = (part.pivot_table(index="seed", columns="estimator", values=value) for value in ("slope", "mse"))
        cells = (f"{slope[name].mean():.2f} ({slope[name].sem():.3f}), {_root(mse[name])}" for name in names)
        yield f"| {way}, {draw} | {len(slope)} | {' | '.join(cells)} |"


def _root(squares: pd.Series) -> str:
    """Return the root of a mean with its standard error by the delta method."""
    root = float(np.sqrt(squares.mean()))
    return f"{root:.2g}" if len(squares) < 2 else f"{root:.3f} ({squares.sem() / (2 * root):.3f})"


def arena_table() -> Iterator[str]:
    """Yield the agreement with the Elo order, and the widths of the intervals."""
    rows, elo = _in_order(rows_of(arena.EXPERIMENT), ("default", *arena.SETTINGS)), arena.elo_order()
    yield (
        "| setting | functional | Spearman, debiased | models that move, debiased (largest move) "
        "| models that move, plug-in (largest move) | mean half width, debiased | mean half width, plug-in |"
    )
    yield "|---|---|---|---|---|---|---|"
    for (setting, functional), part in rows.groupby(["setting", "functional"], sort=False):
        moves = {}
        for estimator, own in part.groupby("estimator"):
            scores = own.set_index("model")["score"]
            published = elo[scores.index].rank(ascending=False)
            moves[estimator] = (scores.rank(ascending=False) - published).abs()
        debiased = part[part["estimator"] == "debiased"].set_index("model")["score"]
        widths = part.groupby("estimator")["half_width"].mean()
        spearman = debiased.corr(elo[debiased.index], method="spearman")
        cells = " | ".join(f"{(moves[name] > 0).sum()} ({moves[name].max():.0f})" for name in ("debiased", "plugin"))
        yield (
            f"| {setting} | {NAMES[functional]} | {spearman:.3f} | {cells} | {widths['debiased']:.3g} "
            f"| {widths['plugin']:.3g} |"
        )


def mt_bench_table() -> Iterator[str]:
    """Yield the order of the models and the widths of the intervals."""
    rows = _in_order(rows_of(mt_bench.EXPERIMENT), ("no judge", *mt_bench.JUDGES, *reversed(mt_bench.DRAWS)))
    yield "| setting | functional | order, debiased | order, plug-in | half width, debiased | half width, plug-in |"
    yield "|---|---|---|---|---|---|"
    for (way, setting, functional), part in rows.groupby(["way", "setting", "functional"], sort=False):
        orders = {
            estimator: " > ".join(own.sort_values("score", ascending=False)["model"])
            for estimator, own in part.groupby("estimator")
        }
        plugin = "the same" if orders["plugin"] == orders["debiased"] else orders["plugin"]
        widths = part.groupby("estimator")["half_width"].mean()
        # The draws of a search are configurations; on the page, a draw is one of coefficients.
        setting = setting.replace("draws", "configurations")
        yield (
            f"| {way}, {setting} | {NAMES[functional]} | {orders['debiased']} | {plugin} | {widths['debiased']:.3g} "
            f"| {widths['plugin']:.3g} |"
        )


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "runs": runs_table,
    "debiasing": debiasing_table,
    "gain": gain_table,
    "ways": ways_table,
    "choices": choices_table,
    "judges": judges_table,
    "collection": collection_table,
    "formula": formula_table,
    "misspecification": misspecification_table,
    "restriction": restriction_table,
    "shrinkage": shrinkage_table,
    "arena": arena_table,
    "mt_bench": mt_bench_table,
}


def lines_of(name: str) -> list[list[str]]:
    """Return the cells of a table line by line, the head first."""
    lines = [line.strip("| ").split(" | ") for line in TABLES[name]() if not line.startswith("|---")]
    return [[cell.strip() for cell in line] for line in lines]


def write_tables() -> None:
    """Write the current tables into docs/results; the one that compares with Elo scores needs the real data."""
    for name in TABLES:
        if name == "arena" and arena.data_folder() is None:
            print("paper_arena.csv is left as it is: DMLRANK_DATA names no folder with the real data")
            continue
        with (FOLDER / f"paper_{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines_of(name))
