"""What a command reads: tables and logs, with the formula and the options of the fit that follow."""

from __future__ import annotations

import argparse
import ast
import builtins
import inspect
import re
import shlex
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from ..data.arrays import name_of
from ..data.columns import CodedColumn
from ..data.derived_pairs import DerivedPairs
from ..data.formula.features import FORMULA_NAMES
from ..data.formula.parse import NUMPY_FUNCTIONS, names_in, one_sided, parse_formula, terms_of
from ..data.frames import column_names, has_several_files, take_columns
from ..data.pairs_from_scores import pairs_from_scores, with_read_grades
from ..datasets.eval_logs import READERS, files_by_kind, read_log
from ..datasets.log_files import LOG_ENDINGS, ending
from ..exceptions import FormulaError, OptionError, listed
from ..options import EqualTasks, in_objects, one_by_one
from .arguments import LOG_KEYWORDS, LOG_OPTIONS, SCORE_OPTIONS, api_options
from .command_words import VOTES_FORMULA
from .read_files import (
    ColumnRoles,
    Frame,
    known_file,
    one_row_per_score,
    read_frames,
    read_propensities,
    refuse_lost_runs,
)

T = TypeVar("T")

# The formula of a file of scores, which names no columns of the file.
_FORMULA_OF_SCORES = "winner ~ 1 | model_a + model_b"
# What a formula of the command line may consist of, beside columns and numbers.
_NUMPY = frozenset([*NUMPY_FUNCTIONS.values(), "abs", "clip", "isnan", "maximum", "minimum", "where"])
_FUNCTIONS = frozenset(["abs", "max", "min", *FORMULA_NAMES]) - {"np"}
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd, ast.BitOr, ast.BitXor)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_SIGNS = (ast.UAdd, ast.USub, ast.Invert)
_PARTS = (*_ARITHMETIC, *_COMPARISONS, *_SIGNS, ast.UnaryOp, ast.Compare, ast.List, ast.Tuple, ast.Load, ast.Expression)


@dataclass(slots=True)
class Request:
    """What a command is asked for: a formula, its data and the options of the fit.

    options: Keyword arguments of the fit, in one flat list.
    own: Values of --set that are the command's own.
    models: Names of the models in the data; empty where they are not known before the fit.
    new: Prompts of a plan, None for those of the data.
    """

    formula: str
    frame: Frame | DerivedPairs
    options: dict[str, Any]
    own: dict[str, Any]
    models: Sequence[str] = ()
    new: Frame | None = None

    def call(self, function: Callable[..., T]) -> T:
        """Call ``dml_rank()`` or ``check()``: the one place where options of the command line become arguments."""
        known = inspect.signature(function).parameters
        options = in_objects(self.options)
        if _names(self.options.get("groups")) and "cov_type" in known:
            options.setdefault("cov_type", "cluster")
        if wrong := [name for name in options if name not in known]:
            raise OptionError(f"{function.__name__}() has no option {wrong[0]!r}; leave it out")
        return function(self.formula, self.frame, env={}, **options)


def read_request(
    given: argparse.Namespace, files: Sequence[str] | None = None, further: Collection[str] = ()
) -> Request:
    """Read what a command is given; ``files`` instead of all, and ``further`` names of --set are the command's own."""
    options, own = api_options(given, further)
    request = Request(given.formula or "", pd.DataFrame(), options, own)
    paths = given.files if files is None else files
    if not paths:
        raise OptionError(f"{given.command} was given a formula and no file; give a formula and files, or logs")
    is_of_logs = not given.scores and (not request.formula or _is_log(given, paths[0]))
    if is_of_logs:
        _read_log(request, given, paths)
    elif wrong := [name for name in LOG_KEYWORDS if name in own]:
        raise OptionError(f"{wrong[0]} is for logs of evaluation harnesses, and {paths[0]!r} is a table; leave it out")
    propensity = request.options.get("propensity")
    if isinstance(propensity, str) and "~" not in propensity and known_file(propensity):
        request.options["propensity"] = propensity = read_propensities(propensity)
    further_columns = getattr(given, "by", None) or ()
    of_formula = propensity if isinstance(propensity, str) else None
    roles, scores = _roles(request, given.scores or (), of_formula, further_columns)
    to_read = {} if is_of_logs else {"file": paths}
    # Prompts of a plan and a judge's verdicts are about the same prompts and models.
    of_all = {"file": roles, "new": roles}
    of_all["judge"] = ColumnRoles(roles.names, roles.labels[:1], roles.models, is_of_verdicts=True)
    if new := own.pop("newdata", None):
        to_read["new"] = _names(new)
    judge = _names(request.options.get("judge"))
    if any(map(known_file, judge)):
        if len(judge) > 1:
            raise OptionError(f"--judge has {' '.join(judge)}; give one file of verdicts, or columns of the data")
        to_read["judge"] = judge
    frames = read_frames(to_read, of_all)
    request.frame, request.new = frames.get("file", request.frame), frames.get("new")
    if "judge" in frames:
        request.options["judge"] = frames["judge"]
    if scores:
        table, *columns = request.frame, *scores
        named = own.pop("models", [])
        if len(scores) == 1:
            named = named.split(",") if isinstance(named, str) else named
            table, *columns = one_row_per_score(table, scores[0], roles.features, [name.strip() for name in named])
        elif named:
            raise OptionError("models= names the columns of the models where each has one; leave it out")
        *prompt, model, score = columns
        keywords = {name: own.pop(name) for name in SCORE_OPTIONS if name in own}
        request.frame = pairs_from_scores(table, prompt=prompt, model=model, score=score, **keywords)
    else:
        if wrong := [name for name in SCORE_OPTIONS if name in own]:
            raise OptionError(f"{wrong[0]} is for scores that are compared, and runs (--run) are not; leave it out")
        _read_runs(request)
    used = [frame for frame in (request.frame, request.new) if frame is not None]
    _check_plain(request.formula, propensity if isinstance(propensity, str) else None, used)
    _say_what_was_read(request, paths)
    return request


def _names(value: object) -> list[str]:
    """Return the names in the value of an option: one name, or several."""
    if isinstance(value, str):
        return [value]
    return [str(name) for name in value] if isinstance(value, list | tuple) else []


def is_stored(path: str) -> bool:
    """Return whether a path is to be read as a stored result."""
    from ..fit.json_format import FORMAT

    place = Path(path)
    return place.suffix == ".json" and not (place.is_file() and FORMAT not in place.read_text(errors="replace")[:99])


# --- logs -------------------------------------------------------------------------------------------------------------


def _is_log(given: argparse.Namespace, path: str) -> bool:
    """Return whether a path is to be read as logs of a harness even if there is a formula."""
    place = Path(path)
    is_place = place.suffix in (".eval", ".zst") or (not place.exists() and has_magic(path))
    is_place |= place.is_dir() and any(ending(file) in LOG_ENDINGS for file in place.rglob("*"))
    return any(getattr(given, name) for name in LOG_OPTIONS) or (is_place and not has_several_files(path))


def _read_log(request: Request, given: argparse.Namespace, paths: Sequence[str]) -> None:
    """Read the table of logs; the formula and the options that they suggest are taken where none is given."""
    if len(paths) > 1:
        raise OptionError(
            f"{len(paths)} files and no formula were given; logs are one folder, or a pattern such as 'logs/*.eval'; a "
            f"table needs a formula first, such as {VOTES_FORMULA}"
        )
    path, chosen = paths[0], {name: getattr(given, name) for name in LOG_OPTIONS}
    chosen |= {name: request.own[name] for name in LOG_KEYWORDS if name in request.own}
    found = [chosen["kind"]] if chosen["kind"] else [kind for kind in files_by_kind(path) if kind]
    if not found:
        if is_stored(path):
            raise OptionError(
                f"{path!r} is a stored result, which compare, report and gate read; {given.command} needs a formula "
                f"and the file of the data"
            )
        raise OptionError(
            f"{path!r} holds no log of a known kind; a table needs a formula before it, such as {VOTES_FORMULA}, and "
            f"--kind names the kind of a log that is not recognised: {' '.join(READERS)}"
        )
    if len(found) > 1:
        commands = "; ".join(f"dmlrank {given.command} {shlex.quote(path)} --kind {kind}" for kind in found)
        raise OptionError(f"{path!r} holds logs of {len(found)} kinds, {listed(found)}; read one at a time: {commands}")
    table = read_log(path, **chosen)
    fit = one_by_one(table.attrs["report"]["fit"])
    names = ("context", "run", "groups", *(() if request.formula else ("functional",)))
    suggested = {name: fit[name] for name in names if fit.get(name)}
    request.formula, request.frame = request.formula or str(fit["formula"]), table
    request.options = suggested | request.options
    said = {name: _names(request.options.get(name)) for name in ("context", "run", "groups", "functional")}
    words = "".join(f" --{name} {shlex.join(values)}" for name, values in said.items() if values)
    print(f"{table.attrs['report']}\nread as: {request.formula!r}{words}\n", file=sys.stderr)


# --- tables -----------------------------------------------------------------------------------------------------------


def _roles(
    request: Request, scores: Sequence[str], propensity: str | None, further: Sequence[str]
) -> tuple[ColumnRoles, Sequence[str]]:
    """Return the roles of the columns, and those of prompt, model and score of a file whose scores are compared."""
    options = request.options
    groups = _names(options.get("groups"))
    if scores:
        request.formula = request.formula or _FORMULA_OF_SCORES
        features = parse_formula(request.formula).features
        if len(scores) == 2:
            raise OptionError(
                f"--scores has {' '.join(scores)}; give those of prompt, model and score, or of the prompt alone"
            )
        if len(scores) == 1 or "run" not in options:
            used = [name for terms in (features, one_sided(propensity) or "1") for name in names_in(terms).values]
            weights = options.get("weights")
            of_prompts = _names(weights.column if isinstance(weights, EqualTasks) else weights)
            others = tuple(dict.fromkeys([*used, *groups, *of_prompts, *further]))
            return ColumnRoles(tuple(scores[:-1] or scores), features=others), scores
        # Runs are rows of a table of scores, whose formula has one item column.
        request.formula = f"{scores[-1]} ~ {features} | {scores[-2]}"
        request.options = {"functional": "borda", **options, "context": list(scores[:-2])}
    judge = [name for name in _names(options.get("judge")) if not known_file(name)]
    context = _names(request.options.get("context"))
    return ColumnRoles.of_fit(request.formula, context, groups, judge, propensity), ()


def _read_runs(request: Request) -> None:
    """Read grades of a table of scores, and count scores of drawn runs that are missing as --missing says."""
    parts, options = parse_formula(request.formula), request.options
    propensity = options.get("propensity")
    if parts.of_scores:
        if isinstance(request.frame, pd.DataFrame):
            request.frame = with_read_grades(request.frame, parts.outcome)
        is_word = isinstance(propensity, str) and propensity in ("estimate", "marginal")
        if propensity is not None and not is_word and isinstance(options.get("missing"), float):
            table = take_columns(request.frame, column_names(request.frame))
            is_lost = table[parts.outcome].isna() & table[parts.first].notna()
            scores = table[parts.outcome].mask(is_lost, options.pop("missing"))
            request.frame = table.assign(**{parts.outcome: scores})
    refuse_lost_runs(propensity, request.frame, _names(options.get("context")), request.formula)


def _say_what_was_read(request: Request, paths: Sequence[str]) -> None:
    """Print on standard error how many rows and which models were read, where this is known before the fit."""
    frame, parts = request.frame, parse_formula(request.formula)
    if isinstance(frame, DerivedPairs):
        request.models, rows = frame.models, len(frame.table)
    else:
        sides = [name for name in (parts.first, parts.second) if name]
        if isinstance(frame, str) or not set(sides) <= set(column_names(frame)):
            return
        columns = take_columns(frame, sides)
        names = {name_of(cell) for _, column in columns.items() for cell in CodedColumn.of(column).levels}
        request.models, rows = sorted(names), len(columns)
    of_files = f"{len(paths)} files" if len(paths) > 1 else paths[0]
    said = f"read {rows:,} rows of {of_files} with {len(request.models)} models: {listed(request.models)}"
    print(" ".join(said.split()), file=sys.stderr)


def _check_plain(formula: str, propensity: str | None, frames: Sequence[Frame]) -> None:
    """Check that a formula consists of columns of the frames, arithmetic, and known functions only."""
    further = one_sided(propensity)
    columns = {str(name) for frame in frames for name in column_names(frame)}
    for features in [parse_formula(formula).features, *([further] if further else [])]:
        for code in dict.fromkeys(factor.code for term in terms_of(features) for factor in term.factors):
            try:
                # A column by itself may have any name.
                tree = None if code.isidentifier() else ast.parse(code, mode="eval")
                refused = tree and next((node for node in ast.walk(tree) if not _is_plain(node, columns)), None)
                found = refused and repr(ast.unparse(refused))
            except RecursionError:
                found = "brackets or signs that are nested too deeply"
            if found:
                raise FormulaError(
                    f"the features {features!r} use {found}; on the command line a formula consists of columns, "
                    f"comparisons, arithmetic (exponents below 100), patsy's functions, text(), np.log() and similar"
                )


def _is_plain(node: ast.AST, columns: Collection[str]) -> bool:
    """Return whether a part of an expression is allowed; its own parts are asked for one by one."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float | str | None)
        case ast.Name(id=name):
            # A name that no one knows is refused where the formula is read.
            is_of_python = name.startswith("__") or hasattr(builtins, name)
            return name in columns or name in _FUNCTIONS or name == "np" or not is_of_python
        case ast.Attribute(value=ast.Name(id="np"), attr=name):
            return name in _NUMPY
        case ast.Call(func=ast.Name(id=name), args=args):
            is_no_column = name == "Q" and not (len(args) == 1 and getattr(args[0], "value", None) in columns)
            return not is_no_column and (name in _FUNCTIONS or not (name in columns or hasattr(builtins, name)))
        case ast.Call(func=ast.Attribute(value=ast.Name(id="np"))):
            return True
        case ast.keyword(arg=name):
            return name is not None
        case ast.BinOp(op=ast.Pow(), left=base, right=exponent):
            is_small = re.fullmatch(r"-?\d{0,2}\.?\d*", ast.unparse(exponent)) is not None
            return is_small and not any(isinstance(part, ast.Pow) for part in ast.walk(base))
        case ast.BinOp(op=op, left=left, right=right):
            # A short text times a large number fills the memory.
            has_text = any(isinstance(getattr(part, "value", 0), str) for part in (left, right))
            return isinstance(op, _ARITHMETIC) and not has_text
    return isinstance(node, _PARTS)
