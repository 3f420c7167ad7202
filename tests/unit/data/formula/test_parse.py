"""Formulas: where they are split, which names they use, and what is refused."""

import pytest
from patsy import ModelDesc

from dmlrank.data.formula.parse import Formula, names_in, parse_formula, terms_of
from dmlrank.exceptions import DmlrankError, FormulaError


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("winner~C(g)+x|a+b", ("winner", "C(g)+x", "a", "b")),
        ("  winner ~ x +\n  y | a\n + b\n", ("winner", "x +\n  y", "a", "b")),
        ("w ~ I(x | y) + z | a + b", ("w", "I(x | y) + z", "a", "b")),
        ("w ~ f([x | y]) + g[x | y] | a + b", ("w", "f([x | y]) + g[x | y]", "a", "b")),
        ("w ~ I(x > '|') | a + b", ("w", "I(x > '|')", "a", "b")),
        ("Q('the winner') ~ Q('a | b ~ c') | Q(\"model a\") + b", ("the winner", "Q('a | b ~ c')", "model a", "b")),
        ("größe ~ länge | modèle + 模型", ("größe", "länge", "modèle", "模型")),
        ("class ~ 1 | from + import_", ("class", "1", "from", "import_")),
    ],
)
def test_a_formula_is_split_at_the_outer_tilde_and_bar(text, parts):
    assert parse_formula(text) == Formula(*parts)


def test_several_columns_left_of_the_tilde_hold_probabilities():
    formula = parse_formula("p_a + Q('p b') +p_tie ~ x | a + b")
    assert formula.outcomes == formula.probabilities == ("p_a", "p b", "p_tie")
    assert formula.outcome == "p_a + Q('p b') +p_tie"
    assert parse_formula("winner ~ x | a + b").outcomes == ("winner",)
    assert parse_formula("p_a + p_b ~ x | a + b") == Formula("p_a + p_b", "x", "a", "b", ("p_a", "p_b"))


@pytest.mark.parametrize(
    "text",
    [
        3,
        "",
        "~ 1 | a",
        "winner ~ x",
        "winner ~ (x | a + b)",
        "winner ~ x ~ y | a + b",
        "winner ~ x | a + b | c",
        "winner ~ x | | a + b",
        "winner | a + b ~ x",
        "winner ~ | a + b",
        "p_a + p_b ~ x | a",
        "a ~ x | a",
        "winner ~ x | a + b + c",
        "winner ~ x |",
        "winner ~ x | a - b",
        "winner ~ x | C(a) + b",
        "winner ~ x | model a + b",
        "C(winner) ~ x | a + b",
        "p_a + C(p_b) ~ x | a + b",
        "p_a + p_a ~ x | a + b",
        "Q(winner) ~ x | a + b",
        "winner ~ x | a + a",
        "a ~ x | a + b",
        "winner ~ x # all | a + b",
        "winner ~ 'x | a + b",
    ],
)
def test_anything_else_is_refused_with_what_was_read(text):
    with pytest.raises(FormulaError) as caught:
        parse_formula(text)
    assert isinstance(caught.value, DmlrankError | ValueError)
    # Only a winner that is a column of models, too, may be meant as a winner.
    assert ("winners and losers are '~ 1 | a + b'" in str(caught.value)) == (text == "a ~ x | a + b")


@pytest.mark.parametrize(
    ("features", "values", "calls", "single"),
    [
        ("1", (), (), ()),
        ("x + y:x", ("x", "y"), (), ("x", "y")),
        ("C(g) + np.log(x)", ("g", "np", "x"), ("C",), ()),
        ("text(text, 3)", ("text",), ("text",), ()),
        ("Q('a b') + f(Q('c'))", ("a b", "c"), ("Q", "f"), ("a b",)),
        ("f(lambda v: v + w)(x)", ("w", "x"), ("f",), ()),
        ("I(sum([v for v in x]))", ("x",), ("I", "sum"), ()),
        ("emb[:, 0] + g.str.len()", ("emb", "g"), (), ()),
        ("bs(x, df=k)", ("x", "k"), ("bs",), ()),
    ],
)
def test_names_are_values_or_calls(features, values, calls, single):
    names = names_in(features)
    assert set(names.values) == set(values)
    assert names.calls == calls
    assert names.features == single


@pytest.mark.parametrize("features", ["x +", "I(x y)", "class + x", "x + Intercept"])
def test_features_that_no_engine_can_read(features):
    with pytest.raises(FormulaError, match="features"):
        names_in(features)


@pytest.mark.long
def test_a_sum_of_very_many_features_is_patsy_s():
    """Brackets keep patsy from descending once for every plus; what takes terms away has none."""
    kinds = ["x{}", "C(x{})", "x{}:y", "x{}*z", "(x{} + w)", "np.log(x{}) ** 2", "1"]
    features = " + ".join(kinds[i % 7].format(i % 30) for i in range(90))
    for text in (features, f"{features} - 1", f"0 + {features}", f"{features} + 0"):
        assert terms_of(text) == tuple(ModelDesc.from_formula("~ " + text).rhs_termlist)
    assert len(terms_of(" + ".join(f"x{i}" for i in range(3000)))) == 3001


@pytest.mark.parametrize(
    "features",
    ["*".join(f"x{i}" for i in range(40)), f"({' + '.join(f'x{i}' for i in range(40))}) ** 99999", "(a*b*c*d*e) ** 31"],
)
def test_products_that_stand_for_too_many_terms_are_refused_at_once(features):
    with pytest.raises(FormulaError):
        terms_of(features)


def test_products_of_a_dozen_columns_are_read():
    assert len(terms_of("*".join("abcdefgh"))) == 2**8
    assert len(terms_of("(a + b + c) ** 99")) == 2**3


def test_one_item_means_scores():
    formula = parse_formula("accuracy ~ x | model")
    assert (formula.of_scores, formula.items, formula.features) == (True, ("model",), "x")
    assert not parse_formula("winner ~ x | a + b").of_scores
