"""Groupings are told apart: of contexts, and of votes within contexts."""

from dataclasses import replace

import numpy as np
import pytest

from dmlrank.data.columns import Columns
from dmlrank.data.preferences import read_clusters
from dmlrank.exceptions import OptionError


@pytest.fixture
def data(make_data):
    """Five contexts, two of them with two votes, the last without one."""
    columns = {
        "topic": ["b", "b", "a", "a", "a", "b", "b"],
        "user": [9, 9, 10, 10, 10, 9, 10],
        "judge": ["y", "x", "x", "y", "x", "x", "nobody"],
        "site": ["s", "t", "s", "t", "s", "s", "s"],
    }
    return make_data(
        [0, 0, 1, 1, 2, 3],
        [0, 1, 0, 1, 0, 1],
        [1, 0, 1, 0, 1, 0],
        [0, 1, 0, 1, 0, 1],
        n_items=2,
        n_categories=2,
        n_contexts=5,
        columns=columns,
    )


def test_without_groups_contexts_are_independent(data):
    assert read_clusters(data, (), ()) is None


def test_groups_of_contexts(data):
    clusters = read_clusters(data, ("topic",), ("question_id",))
    assert clusters.names == ("topic",)
    assert clusters.of_context.tolist() == [1, 0, 0, 1, 1]
    assert clusters.second_of_context is None
    assert clusters.of_vote is None


def test_two_groupings_of_contexts(data):
    clusters = read_clusters(data, ("topic", "user"), ())
    assert clusters.of_context.tolist() == [1, 0, 0, 1, 1]
    assert clusters.second_of_context.tolist() == [1, 0, 0, 1, 0]


@pytest.mark.parametrize("groups", [("topic", "judge"), ("judge", "topic")])
def test_annotators_come_second_whatever_the_order(data, groups):
    clusters = read_clusters(data, groups, ())
    assert clusters.names == ("topic", "judge")
    assert clusters.of_context.tolist() == [1, 0, 0, 1, 1]
    assert clusters.of_vote.tolist() == [2, 1, 1, 2, 1, 1]


def test_the_contexts_themselves(data):
    clusters = read_clusters(data, ("context", "judge"), ())
    assert clusters.of_context.tolist() == [0, 1, 2, 3, 4]
    assert clusters.of_vote.tolist() == [2, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("groups", [("judge",), ("judge", "site")])
def test_annotators_without_their_prompts_are_refused_with_the_column_to_add(data, groups):
    with pytest.raises(OptionError, match="groups"):
        read_clusters(data, groups, ("question_id",))
    with pytest.raises(OptionError, match=r"only 5 contexts.*leave context= out.*'groups': 'judge'"):
        read_clusters(data, groups, ())


def test_codes_do_not_depend_on_the_order_of_the_rows(data):
    codes = read_clusters(data, ("topic",), ()).of_context
    back = np.arange(len(data.columns))[::-1]
    place = {context: at for at, context in enumerate(dict.fromkeys(data.row_context[back].tolist()))}
    row_context = np.array([place[context] for context in data.row_context[back].tolist()])
    turned = replace(
        data,
        columns=Columns(data.columns.available, data.columns.table(rows=back).reset_index(drop=True)),
        row_context=row_context,
        first_row=np.unique(row_context, return_index=True)[1],
    )
    assert read_clusters(turned, ("topic",), ()).of_context[[place[i] for i in range(5)]].tolist() == codes.tolist()
    assert codes[data.by_context("topic") == "a"].tolist() == [0, 0]
