"""Random choices, odd values and odd names."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

Generator = np.random.Generator

# Names that a table, a file or a formula could mistake for something else.
ODD_NAMES: tuple[str, ...] = (
    "gpt-4", "gpt-4-0314", "claude v1", "a", "A", "B", "b ", " b", "tie", "model_a", "model_b", "1", "2.0", "1e3", "0",
    "nan", "None", "NA", "", "left", "x" * 300, "Q('x')", "a - b", "a=b", "a, b", "a: b", "'", '"', "`", "`a`",
    "\\", "\\n",
    "\n", "\r\n", "\t", "\0", "a\0b", "\x1b[31m", "é", "e\u0301", "\ufeffbom", "\u200b", "\u202eabc", "عربي", "名前",
    "🤖", "👩‍🔬", "\ud800", "=1+1", "@SUM(A1)", "+1", "-1", "<b>&amp;</b>", "<script>alert(1)</script>", "</script>",
    "{{7*7}}",
    "%s", "%(x)s", "{0}", "{", "}", "$x^2$", "\\textbf{x}", "#", "//", "/etc/passwd", "..", "*", "(", ")", "C(x)",
    "|", "~",
    "Intercept", "first", "second", "context", "estimate", "rank", "index", "0.1 + 0.2", "−", "a−b", "1 2", "ſ", "ß",
    "SS",
    "İ", "i̇", "\u2028", "\u0085", "𝟏", "１", "²", "true", "True", "inf", "NaN", "NULL", "null", "2020-01-01",
)  # fmt: skip


def choice(rng: Generator, options: Sequence[Any]) -> Any:
    """Return one of the options, each as likely as the others, without turning it into an array."""
    return options[int(rng.integers(len(options)))]


def subset(rng: Generator, options: Sequence[Any], share: float = 0.5) -> list[Any]:
    """Return some of the options in a random order."""
    return [options[place] for place in rng.permutation(len(options)) if rng.random() < share]


def names(rng: Generator, n: int) -> list[Any]:
    """Return n different names of models: plain ones, odd texts, or integers."""
    kind = rng.random()
    if kind < 0.5:
        return [f"m{place}" for place in range(n)]
    if kind < 0.6:
        return [int(code) for code in rng.permutation(10 * n)[:n]]
    drawn = [ODD_NAMES[place] for place in rng.permutation(len(ODD_NAMES))[: min(n, len(ODD_NAMES))]]
    return drawn + [f"m{place}" for place in range(n - len(drawn))]


class _Unfriendly:
    """An object whose text, comparison, length and truth all raise."""

    def __repr__(self) -> str:
        return "<unfriendly>"

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")

    def __len__(self) -> int:
        raise RuntimeError("no length")


def _generator() -> Any:
    return (value for value in (1, 2))


def junk(rng: Generator) -> Any:
    """Return a value that is seldom allowed: of another type, not finite, too large, empty, nested or unfriendly."""
    values: tuple[Any, ...] = (
        None, True, False, 0, 1, -1, 2, 3, 7, 10**30, 10**400, -(10**400), 10**5000, 0.0, 1.0, 0.5, -0.5, 1.5, 1e-320,
        1e308, math.nan,
        math.inf, -math.inf, 1j, "", " ", "a", "none", "\0", "x" * 5000, "é", "nan", "1", "auto", "equal", b"",
        b"bytes",
        (), [], {}, set(), frozenset({1}), range(3), [None], [1, 2], [1, "a"], [[1], [1, 2]], [[]], (1, 2), ("a", "b"),
        {"a": 1}, {1: "a"}, {None: None}, {"groups": "q"}, {"groups": ["q", "q"]}, {"groups": None},
        {"n_estimators": -1},
        np.nan, np.float32(0.5), np.int64(3), np.bool_(True), np.str_("a"), np.datetime64("NaT"), np.array([]),
        np.array(0.5),
        np.array([1.0, 2.0]), np.eye(3), np.full((2, 2), np.nan), np.zeros((3, 3, 3)), np.array(["a", None],
        dtype=object),
        np.zeros((2, 0)), np.array([1 + 1j]), pd.NA, pd.NaT, pd.Timestamp("2020"), pd.Series(dtype=float),
        pd.Series(["a", None]),
        pd.DataFrame(), pd.DataFrame({"a": [1]}), pd.Categorical(["a"]), pd.Interval(0, 1), decimal.Decimal("0.5"),
        decimal.Decimal("NaN"), decimal.Decimal("1e999"), Fraction(1, 3), Fraction(10**400, 3), datetime.date(2020, 1,
        1),
        object, object(), len, print, lambda: None, lambda *a, **k: None, lambda x: x, int, ValueError("x"), ...,
        NotImplemented,
        _Unfriendly(), _generator(), np.random.default_rng(0), np, type, slice(None), memoryview(b"ab"), float("-0.0"),
    )  # fmt: skip
    value = choice(rng, values)
    return _generator() if isinstance(value, type(_generator())) else value
