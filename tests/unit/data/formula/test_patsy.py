"""What the package uses of patsy's inner parts, and the same columns from another reader of formulas."""

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import patsy
import pytest
from patsy.infix_parser import ParseNode
from patsy.parse_formula import parse_formula as patsy_tree
from patsy.tokens import python_tokenize

import dmlrank
from dmlrank.data.formula.features import caller_environment, fit_features


def test_the_inner_parts_of_patsy_that_the_package_uses():
    """patsy is pinned below 2; where a release changes these, this test says which one."""
    tokens = [(text, origin.start, origin.end) for _, text, origin in python_tokenize("a + f(b)")]
    assert tokens == [("a", 0, 1), ("+", 2, 3), ("f", 4, 5), ("(", 5, 6), ("b", 6, 7), (")", 7, 8)]
    tree = patsy_tree("~ a ** 2")
    assert isinstance(tree, ParseNode)
    assert tree.type == "~"
    power = tree.args[0]
    assert power.type == "**"
    assert power.args[1].token.extra == "2"
    info = patsy.dmatrix("C(a):b + b", {"a": ["u", "v", "w"], "b": [1.0, 2.0, 4.0]}).design_info
    assert [term.name() for term in info.term_slices] == ["Intercept", "b", "C(a):b"]
    assert [info.factor_infos[factor].type for factor in info.factor_infos] == ["categorical", "numerical"]
    assert list(info.term_name_slices) == ["Intercept", "b", "C(a):b"]
    with pytest.raises(patsy.PatsyError) as found:
        patsy.dmatrix("~ a +", {"a": [1.0]})
    assert found.value.message


def test_patsy_stands_behind_one_door():
    folder = Path(dmlrank.__file__).parent
    users = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if any(name.partition(".")[0] == "patsy" for name in names):
                users.add(file.relative_to(folder).parent.as_posix())
    assert users == {"data/formula"}


@pytest.mark.parametrize(
    "features",
    ["a + b", "C(t)", "t + a", "C(t) * a", "t:a + b", "C(t, Treatment('y')) + C(s):a", "I(a**2) + np.log(b)"],
)
def test_the_columns_are_those_of_formulaic(features):
    """Both read R's formulas; formulaic names and orders columns in its own way."""
    formulaic = pytest.importorskip("formulaic")
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=50),
            "b": rng.uniform(1, 2, size=50),
            "t": rng.choice(["x", "y", "z"], 50),
            "s": rng.choice(["u", "v"], 50),
        }
    )
    columns = dict(frame.items())
    x, _ = fit_features(features, columns, len(frame), caller_environment({"np": np}, depth=0))
    written = features.replace("Treatment('y')", "contr.treatment(base='y')")
    other = formulaic.model_matrix(written, frame, context={"np": np}).to_numpy(dtype=float)
    both = np.column_stack([np.ones(len(x)), x])
    assert both.shape == other.shape
    assert sorted(map(tuple, both.T.round(12).tolist())) == sorted(map(tuple, other.T.round(12).tolist()))
