"""Files of spreadsheets: separators, decimal commas, encodings; wide tables with columns that are no models."""

import numpy as np
import pandas as pd
import pytest

from dmlrank.cli.main import main
from dmlrank.cli.read_files import ColumnRoles, read_frames

NAMES = ["Modèle Ü", "b,c", "d;e", "plain"]


def read(path, *names):
    return read_frames({"file": [str(path)]}, {"file": ColumnRoles(names=names)})["file"]


# The family of csv files: separator, decimal comma, encoding with or without its mark, a first line sep=, line ends,
# quoted names that hold a separator, and names that look like numbers with a comma. What is read is the table that was
# written, and a line says how.
@pytest.mark.parametrize("seed", range(30))
def test_a_file_of_a_spreadsheet_is_read_as_it_was_written(seed, tmp_path, capsys):
    rng = np.random.default_rng(seed)
    separator, encoding = (
        str(rng.choice([",", ";", "\t", "|"])),
        str(rng.choice(["utf-8", "utf-8-sig", "utf-16", "cp1252"])),
    )
    decimal = "," if separator != "," and rng.random() < 0.5 else "."
    table = pd.DataFrame(
        {
            "model": rng.choice(NAMES if seed % 3 else ["1,5", "2,5"], 12),
            "score": rng.random(12).round(2),
            "n": rng.integers(9, size=12),
        }
    )
    text = table.to_csv(index=False, sep=separator, decimal=decimal, lineterminator=str(rng.choice(["\n", "\r\n"])))
    text = f"sep={separator}\n{text}" if rng.random() < 0.3 else text
    path = tmp_path / "t.csv"
    path.write_bytes(text.encode(encoding))
    pd.testing.assert_frame_equal(read(path, "model"), table.astype({"model": object}), check_dtype=False)
    is_cp1252 = encoding == "cp1252" and any(not name.isascii() for name in table["model"])
    said = capsys.readouterr().err
    assert ("separator" in said) == (separator != ",")
    assert ("decimal commas in 'score'" in said) == (decimal == ",")
    assert ("cp1252" in said) == is_cp1252


def test_a_separator_that_is_open_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b;c\n1,2;3\n4,5;6\n")
    with pytest.raises(ValueError, match=r"separator may be ',' \(2 columns\) or ';' \(2 columns\)"):
        read(path)
    path.write_bytes("a,b\n1,2\n".encode("utf-16-le"))
    with pytest.raises(ValueError, match="save it as csv UTF-8"):
        read(path)


def wide(tmp_path, **columns):
    rng = np.random.default_rng(0)
    scores = {"alpha": rng.random(40).round(2), "beta": rng.random(40).round(2)}
    path = tmp_path / "wide.csv"
    pd.DataFrame({"prompt": [f"q{k}" for k in range(40)]} | scores | columns).to_csv(path, index=False)
    return ["fit", str(path), "--scores", "prompt"]


# The family of wide tables: models beside columns that are none. These are left out by name; what was read is listed.
@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"": range(40)}, "'Unnamed: 3' (it has no name)"),
        ({"id": range(100, 140)}, "'id' (it counts the rows)"),
        ({"size": [7.5] * 40}, "'size' (it is the same in every row)"),
        ({"topic": ["maths", "law"] * 20}, "'topic' (it holds 'maths')"),
        ({"hard": [True, False] * 20}, "'hard' (it holds true and false)"),
    ],
)
def test_what_is_no_model_is_left_out_by_name(columns, why, tmp_path, capsys):
    assert main(wide(tmp_path, **columns)) == 0
    said = capsys.readouterr().err
    assert f"columns that are no models are left out: {why}" in said
    assert "2 models were read: 'alpha', 'beta'" in said


def test_a_model_that_solves_all_stays_and_one_odd_cell_is_named(tmp_path, capsys, ignore_warnings):
    assert main(wide(tmp_path, best=[1] * 40)) in (0, 3)
    assert "3 models were read: 'alpha', 'beta', 'best'" in capsys.readouterr().err
    assert main(wide(tmp_path, odd=["12 %", *[0.5, 0.25, 0.75] * 13])) != 0
    assert "'12 %' (model 'odd') in row 80" in capsys.readouterr().err


def test_a_square_table_of_wins_is_no_table_of_scores(tmp_path, printed):
    path = tmp_path / "wins.csv"
    wins = pd.DataFrame(np.random.default_rng(0).integers(3, 30, (4, 4)), list("abcd"), list("abcd"))
    wins.rename_axis("model").to_csv(path)
    assert "as in a table of wins; give a row per pair" in printed(["fit", str(path), "--scores", "model"], 1)


def test_the_models_of_a_wide_table_can_be_named(tmp_path, capsys, ignore_warnings, printed):
    command = wide(tmp_path, size=range(40), other=[0.5, 0.25] * 20)
    assert main([*command, "--set", "models=alpha, beta,size"]) == 0
    assert "3 models were read: 'alpha', 'beta', 'size'" in capsys.readouterr().err
    assert "no column 'gone'" in printed([*command, "--set", "models=alpha,gone"], 1)
