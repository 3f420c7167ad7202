"""Write results of this version, which later versions have to read.

Run once for each release, from the top of the repository; the folder has the name of the version and is never changed
after the release:

    python tests/stored_results/write.py 0.1.0

Beside the files, ``expected.json`` has the numbers that a reader has to return.
"""

import json
import pathlib
import sys
import warnings

import numpy as np

import dmlrank as dr
from dmlrank.options import in_objects

HERE = pathlib.Path(__file__).parent


def results() -> dict[str, dr.RankResults]:
    """Return one result of each kind that is stored in its own way."""
    battles = dr.datasets.simulate_arena(n=700, rng=0)
    battles["user"] = np.random.default_rng(0).integers(0, 150, len(battles))
    models = sorted({*battles["model_a"].dropna()})[:5]
    battles = battles[battles["model_a"].isin(models) & battles["model_b"].isin(models)]
    options = {"context": "question_id", "rng": 0}
    formula = "winner ~ length | model_a + model_b"
    bt = dr.dml_rank(formula, battles, **in_objects({"functional": "bt", **options}))
    clusters = {"cov_type": "cluster", "cov_kwds": {"groups": "user"}}
    styled = battles.assign(log_length=np.random.default_rng(1).normal(size=len(battles)))
    return {
        "bt": bt,
        "elo": bt.rescale("elo", mean=1000),
        "sequential": bt.sequential(planned=1000, start=100),
        "preferences": bt.update(average="preferences"),
        "clusters": bt.update(functional="borda", **clusters),
        "rank_centrality": bt.update(functional="rank_centrality"),
        "maximum_likelihood": dr.dml_rank(
            "winner ~ 1 | model_a + model_b", battles, **in_objects({"estimator": "bt_mle", **options})
        ),
        "style": dr.dml_rank("winner ~ 1 | model_a + model_b", styled, adjust="~ log_length", rng=0),
    }


def main() -> None:
    """Write the files into the folder of a version."""
    folder = HERE / sys.argv[1]
    folder.mkdir(exist_ok=True)
    expected = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dr.DmlrankWarning)
        for name, result in results().items():
            result.to_json(folder / f"{name}.json")
            intervals = result.conf_int()
            expected[name] = {
                "models": list(result.params.index),
                "params": result.params.tolist(),
                "bse": result.bse.tolist(),
                "lower": intervals["lower"].tolist(),
                "upper": intervals["upper"].tolist(),
                "rank_sets": result.ranks().result_frame[["lower", "upper"]].to_numpy().tolist(),
            }
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
