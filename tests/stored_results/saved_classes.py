"""The classes in files of fits that are saved with their data, with the fields of each.

A file of another version can be read only if these classes are the same. Whoever changes one of them raises the number
of the format in ``dmlrank/storage/pickled_fit.py`` and runs, from the top of the repository:

    python tests/stored_results/saved_classes.py
"""

from __future__ import annotations

import dataclasses
import io
import json
import pathlib
import pickle
import tempfile
import warnings
import zlib

import numpy as np

import dmlrank as dr

PATH = pathlib.Path(__file__).with_suffix(".json")


class _Recorder(pickle.Unpickler):
    """Reads a saved fit and records the classes of dmlrank in it, also in the steps, which are stored as bytes."""

    def __init__(self, stored: bytes, classes: dict[str, list[str]], formats: set[int]) -> None:
        super().__init__(io.BytesIO(stored))
        self.classes, self.formats = classes, formats

    def find_class(self, module: str, name: str) -> object:
        if (module, name) == ("dmlrank.storage.pickled_fit", "revive"):
            return self._revive
        found = super().find_class(module, name)
        if module.startswith("dmlrank") and dataclasses.is_dataclass(found):
            self.classes[f"{module}.{name}"] = [field.name for field in dataclasses.fields(found)]
        return found

    def persistent_load(self, name: object) -> object:
        return np.zeros(1)

    def _revive(self, number: int, reading: bytes, steps: bytes) -> None:
        self.formats.add(number)
        without_arrays, _ = pickle.loads(zlib.decompress(steps))
        _Recorder(without_arrays, self.classes, self.formats).load()


def saved_classes() -> dict[str, object]:
    """Return the number of the format, and the fields of each class by its name."""
    battles = dr.datasets.simulate_arena(n=130, rng=0)
    options = {"context": "question_id", "rng": 0, "min_labels": 1}
    classes: dict[str, list[str]] = {}
    formats: set[int] = set()
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore", dr.exceptions.DmlrankWarning)
        fit = dr.dml_rank("winner ~ length + C(category) | model_a + model_b", battles[:120], **options)
        groups = {"cov_type": "cluster", "cov_kwds": {"groups": "judge"}}
        without_features = dr.dml_rank("winner ~ 1 | model_a + model_b", battles, **options, **groups)
        for result in (fit.extend(battles[120:], refit="never"), without_features.sequential(planned=200, start=2)):
            path = pathlib.Path(folder) / "fit"
            result.save(path, with_data=True)
            _Recorder(path.read_bytes(), classes, formats).load()
    (number,) = formats
    return {"format": number, "classes": dict(sorted(classes.items()))}


if __name__ == "__main__":
    PATH.write_text(json.dumps(saved_classes(), indent=1) + "\n", encoding="utf-8")
