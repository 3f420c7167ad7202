"""``text(column, k)`` against scikit-learn written out, and what it refuses."""

import sys

import numpy as np
import pandas as pd
import pytest

from dmlrank.data.formula.features import Text
from dmlrank.exceptions import DataError, MissingExtraError

from ....support import optional

WORDS = ["write", "poem", "sort", "the", "list", "of", "primes", "prove", "none", "is", "even", "into", "french"]


def prompts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=6)) for _ in range(n)]


def fitted(texts, k):
    transform = Text()
    transform.memorize_chunk(texts, k)
    transform.memorize_finish()
    return transform


def components(texts, k, new):
    vectorizer = optional("sklearn.feature_extraction.text").TfidfVectorizer()
    decomposition = (
        optional("sklearn.decomposition")
        .TruncatedSVD(n_components=k, random_state=0)
        .fit(vectorizer.fit_transform(sorted(texts)))
    )
    return decomposition.transform(vectorizer.transform(new))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_text_is_tfidf_and_truncated_svd(k):
    texts, new = prompts(40), [*prompts(10, seed=1), "no word of these"]
    transform = fitted(texts, k)
    np.testing.assert_array_equal(transform.transform(texts, k), components(texts, k, texts))
    np.testing.assert_array_equal(transform.transform(new, k), components(texts, k, new))


def test_chunks_add_up():
    texts = prompts(30)
    in_chunks = Text()
    for at in range(0, 30, 10):
        in_chunks.memorize_chunk(texts[at : at + 10], 3)
    in_chunks.memorize_finish()
    np.testing.assert_array_equal(in_chunks.transform(texts, 3), fitted(texts, 3).transform(texts, 3))


def test_the_order_of_the_texts_changes_no_bit():
    texts = prompts(60)
    turned = texts[::-1]
    np.testing.assert_array_equal(fitted(turned, 5).transform(texts, 5), fitted(texts, 5).transform(texts, 5))


def test_a_missing_text_is_missing_and_no_token():
    texts = prompts(30)
    holes = [text if i % 5 else None for i, text in enumerate(texts)]
    known = [text for text in holes if text is not None]
    transform = fitted(pd.Series(holes, dtype="string"), 3)
    features = transform.transform(pd.Series(holes, dtype="string"), 3)
    here = np.array([text is not None for text in holes])
    assert np.isnan(features[~here]).all()
    np.testing.assert_array_equal(features[here], components(known, 3, known))
    assert np.isnan(transform.transform([None, None], 3)).all()
    # A prompt that says "none" is a text like any other.
    assert not np.isnan(transform.transform(["none"], 3)).any()


def test_an_empty_text_is_known():
    transform = fitted(["", *prompts(20)], 2)
    np.testing.assert_array_equal(transform.transform([""], 2), [[0.0, 0.0]])


def test_texts_that_are_all_the_same():
    features = fitted(["sort the list"] * 5, 1).transform(["sort the list"], 1)
    np.testing.assert_allclose(features, [[1.0]])


@pytest.mark.parametrize(
    ("texts", "k"),
    [
        ([None, None], 2),
        (["", "a", "?"], 2),
        (["sort lists", "sort primes"], 3),
        (["sort lists"] * 9, 3),
        ([1.5, 2.5], 2),
        (["sort"], 0),
        (["sort"], 2.0),
    ],
)
def test_texts_that_cannot_be_used(texts, k):
    with pytest.raises(DataError):
        fitted(texts, k)


def test_without_scikit_learn_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.feature_extraction.text", None)
    with pytest.raises(MissingExtraError):
        fitted(["sort"], 1)
