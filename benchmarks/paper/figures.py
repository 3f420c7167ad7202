"""Figures in the paper's arrangement, drawn with the package's style."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dmlrank.plotting.charts import SERIES, axes_points, hide_spines, horizontal_rows, new_figure, write_title

from . import arena, judges, misspecification, mt_bench
from .report import NAMES, judges_figures, rows_of
from .ways import DEFAULT, DESCRIBED, FUNCTIONALS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FOLDER = pathlib.Path(__file__).parents[2] / "docs" / "figures"
UP, DOWN = "#009E73", "#D55E00"


def draw_all(folder: pathlib.Path = FOLDER) -> list[pathlib.Path]:
    """Draw all figures whose rows exist, and return their files."""
    files = [folder / name for name in ("paper_synthetic.png", "paper_arena.png", "paper_mt_bench.png")]
    draw_synthetic(files[0])
    draw_models(rows_of(arena.EXPERIMENT), arena.PAPERS, files[1], list(arena.elo_order().index))
    order = rows_of(mt_bench.EXPERIMENT).query("functional == 'borda' and estimator == 'debiased'")
    draw_models(
        rows_of(mt_bench.EXPERIMENT),
        "no judge",
        files[2],
        list(order.query("setting == 'no judge'").sort_values("score", ascending=False)["model"]),
    )
    return files


def draw_synthetic(file: pathlib.Path) -> None:
    """Draw the errors with judges and under misspecification, as described above and by default below."""
    figure = new_figure(6.4, 9.0)
    axes = figure.subplots(2, 2)
    for row, way in zip(axes, (DESCRIBED, DEFAULT), strict=True):
        _draw_judges(row[0], way)
        _draw_misspecification(row[1], way)
    figure.savefig(file, dpi=150)


def _draw_judges(axes: Axes, way: str) -> None:
    """Draw the error relative to no judge against the judge's noise, a line per functional."""
    how = judges.FEATURES if way == DESCRIBED else judges.TWO_STAGE
    table = judges_figures()
    table = table[(table["way"] == way) & (table["judge"] == how)].sort_values("noise")
    for place, (style, functional) in enumerate(zip(SERIES[:3], FUNCTIONALS, strict=True)):
        part = table[table["functional"] == functional]
        noise = part["noise"] + 0.015 * (place - 1)  # beside each other, so that intervals do not cover one another
        _line(axes, noise, part["ratio"], part["error"], style=style, label=NAMES[functional])
    axes.axhline(1.0, color="0.45", linewidth=1, linestyle="--")
    kind = {judges.FEATURES: "Judge features", judges.TWO_STAGE: "Two-stage judge"}[how]
    write_title(axes, f"{kind}, {way} ({_counted(table['seeds'].min() if len(table) else 0)})")
    axes.set(xlabel="noise of the judge (log-odds)", ylabel="squared error, no judge = 1")
    _finish(axes)


def _draw_misspecification(axes: Axes, way: str) -> None:
    """Draw the root mean squared error against gamma, a line per estimator."""
    rows = rows_of(misspecification.EXPERIMENT)
    rows = rows[(rows["way"] == way) & (rows["draw"] == 0)]
    for style, estimator in zip(SERIES[:4], misspecification.ESTIMATORS, strict=True):
        squares = rows[rows["estimator"] == estimator].groupby("gamma")["mse"]
        root = np.sqrt(squares.mean())
        label = "plug-in" if estimator == "plugin" else estimator.replace("the paper's", "the paper's factor")
        _line(axes, root.index.to_series(), root, squares.sem() / (2 * root), style=style, label=label)
    n_samples = rows.groupby("gamma")["seed"].nunique().min() if len(rows) else 0
    write_title(axes, f"Misspecified BT, {way} ({_counted(n_samples)})")
    axes.set(xlabel="gamma", ylabel="root mean squared error")
    _finish(axes)


def _counted(n_samples: float) -> str:
    """Return the number of samples in words."""
    return f"{n_samples:.0f} sample{'' if n_samples == 1 else 's'}"


def _line(axes: Axes, x: pd.Series, y: pd.Series, error: pd.Series, *, style: object, label: str) -> None:
    """Draw a line with 95 % intervals; nothing where there are no numbers."""
    if not len(x):
        return
    reach = 1.96 * error.fillna(0.0)
    axes.errorbar(
        x,
        y,
        reach,
        label=label,
        capsize=2,
        color=style.colour,  # type: ignore[attr-defined]
        marker=style.marker,  # type: ignore[attr-defined]
        linestyle=style.linestyle,  # type: ignore[attr-defined]
        markersize=4,
    )


def _finish(axes: Axes) -> None:
    """Add grid and legend."""
    axes.grid(axis="y", color="0.9")
    axes.set_axisbelow(True)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8)
    else:
        axes.text(0.5, 0.5, "not computed yet", transform=axes.transAxes, ha="center")
    hide_spines(axes)


def draw_models(rows: pd.DataFrame, setting: str, file: pathlib.Path, order: list[str]) -> None:
    """Draw scores with intervals, debiased and plug-in, a panel per functional, and how many places models move.

    rows: Rows of Chatbot Arena or of MT-Bench.
    setting: The setting that is drawn.
    file: Where the figure is written.
    order: The models in the order with which ranks are compared, the best first.
    """
    own = rows[rows["setting"] == setting]
    names = [model for model in order if model in set(own["model"])]
    figure = new_figure(1.3 + 0.3 * len(names), 11.0)
    panels = figure.subplots(1, len(FUNCTIONALS), sharey=True)
    for axes, functional in zip(panels, FUNCTIONALS, strict=True):
        for style, (estimator, shift) in zip(SERIES[:2], (("debiased", 0.13), ("plugin", -0.13)), strict=True):
            part = own[(own["functional"] == functional) & (own["estimator"] == estimator)]
            part = part.set_index("model").loc[names]
            place = np.arange(len(names))[::-1] + shift
            axes.errorbar(
                part["score"],
                place,
                xerr=part["half_width"],
                fmt=style.marker,
                color=style.colour,
                capsize=2,
                markersize=4,
                label="debiased" if estimator == "debiased" else "plug-in",
            )
            _write_moves(axes, part["score"], names, estimator)
        horizontal_rows(axes, names, NAMES[functional], axes_points(axes)[1] / (len(names) + 0.4))
    panels[0].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(file, dpi=150)


def _write_moves(axes: Axes, scores: pd.Series, names: list[str], estimator: str) -> None:
    """Write beside each model by how many places it is above (+) or below the order of the rows."""
    ranks = scores.rank(ascending=False)
    column = 1.02 if estimator == "debiased" else 1.1
    for place, model in enumerate(names):
        move = place + 1 - int(ranks[model])
        if move:
            axes.text(
                column,
                len(names) - 1 - place,
                f"{move:+d}",
                transform=axes.get_yaxis_transform(),
                color=UP if move > 0 else DOWN,
                fontsize=8,
                va="center",
            )
