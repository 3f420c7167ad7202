"""Widths, padding and wrapping of texts with wide characters, and names that cannot disturb the text around them."""

import textwrap
import unicodedata

import numpy as np
import pytest

from dmlrank.tables.summary_table import display_width, inert, isolated, p_value_clause, p_value_text, padded, wrapped

ASTRONAUT, FLAG = "\U0001f469\u200d\U0001f680", "\U0001f1e9\U0001f1ea"
HEBREW = "\u05d2\u05d9\u05df"


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("gpt-4", 5),
        ("通义千问-72B", 12),
        ("e\u0301", 1),
        ("ｆｕｌｌ", 8),
        (ASTRONAUT, 4),
        (FLAG, 2),
        ("\u2764", 1),
        ("a\u200bb", 2),
        ("한국어", 6),
        (HEBREW, 3),
    ],
)
def test_widths(text, width):
    assert display_width(text) == width
    assert display_width(padded(text, 20)) == 20
    assert display_width(padded(text, 20, ">")) == display_width(padded(text, 20, "^")) == 20
    assert padded(text, 20).strip() == padded(text, 20, ">").strip() == text


def test_wrapping_of_plain_text_is_that_of_the_standard_library():
    rng = np.random.default_rng(0)
    words = ["a", "model", "well-known", "x" * 30, "[1]", "0.5", "naive"]
    for _ in range(50):
        text = " ".join(rng.choice(words, size=30))
        expected = textwrap.wrap(text, 40, subsequent_indent="    ", break_on_hyphens=False)
        assert wrapped(text, 40) == expected


def test_wrapped_lines_are_no_wider_than_asked_and_lose_nothing():
    rng = np.random.default_rng(1)
    words = ["通义千问", ASTRONAUT, "e\u0301te\u0301", FLAG * 2, "plain", "한국어" * 9, HEBREW]
    for _ in range(50):
        text = " ".join(rng.choice(words, size=25))
        lines = wrapped(text, 24, indent="  ")
        assert max(map(display_width, lines)) <= 24
        assert "".join("".join(lines).split()) == "".join(text.split())
    # Blanks that align a text behind its label stay.
    assert wrapped("标签:    通义", 20) == ["标签:    通义"]
    assert wrapped("通 千问千问", 10, indent="  ") == ["通", "  千问千问"]


def test_control_characters_and_marks_of_direction_are_not_shown():
    text = "a\x1b[31mred\u202egnp.exe\u2066\x00\tb\nc\u2028d"
    shown = inert(text)
    assert shown == "a\ufffd[31mredgnp.exe\ufffd b c d"
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Zl", "Zp") for character in shown)
    assert inert("gpt-4 (May)") == "gpt-4 (May)"


def test_letters_from_right_to_left_are_isolated_with_the_words_between_them():
    assert isolated("gpt-4 leads") == "gpt-4 leads"
    assert isolated(f"{HEBREW} leads x") == f"\u2068{HEBREW}\u2069 leads x"
    # Numbers and blanks between two such words belong to the same part.
    assert isolated(f"{HEBREW} 7 {HEBREW} 0.5") == f"\u2068{HEBREW} 7 {HEBREW}\u2069 0.5"
    assert display_width(isolated(HEBREW)) == 3


@pytest.mark.parametrize(
    ("p", "text", "clause"),
    [
        (1.0, "1.000", "= 1.000"),
        (0.1, "0.100", "= 0.100"),
        (0.01234, "0.012", "= 0.012"),
        (0.0005, "0.001", "= 0.001"),
        (0.00049, "<0.001", "< 0.001"),
        (0.0, "<0.001", "< 0.001"),
    ],
)
def test_p_values(p, text, clause):
    assert p_value_text(p) == text
    assert p_value_clause(p) == clause
