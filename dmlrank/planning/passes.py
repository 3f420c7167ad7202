"""Passes over the probabilities of all contexts of a plan, chunk by chunk, on threads or on the user's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from .._utils.executor import in_workers
from .._utils.progress import report
from ..data.preferences import FloatArray
from ..estimation.outcome_floor import clip_and_renormalise
from ..functionals import Functional
from .propensities import Rows

T = TypeVar("T")

# Takes the problem, a range of rows, their probabilities, (b, K, K, C), and further arguments.
ChunkWork: TypeAlias = Callable[..., T]
# A pass over fewer chunks than this takes so little time that a log file gets no line of progress for it.
_FEW_CHUNKS = 20


class Tables(Protocol):
    """Tables of n contexts, (n, K, K, C): an array, or an object that predicts tables when they are indexed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, (n, K, K, C)."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, part: Rows) -> FloatArray: ...


class ProblemInChunks(Protocol):
    """A design problem whose rows are processed chunk by chunk, see :class:`.problem.DesignProblem`."""

    @property
    def mu(self) -> Tables:
        """Probabilities of each row, not yet clipped at the floor."""
        ...

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        ...

    @property
    def functional(self) -> Functional:
        """The scores that the plan is for."""
        ...

    @property
    def floor(self) -> float:
        """Smallest probability of a category for functionals with a logit or a division."""
        ...

    @property
    def chunk_size(self) -> int:
        """Number of probabilities in a chunk of rows."""
        ...

    @property
    def n_jobs(self) -> int:
        """Number of threads."""
        ...


def pass_over(
    problem: ProblemInChunks,
    work: ChunkWork[T],
    arguments_of: Callable[[slice], tuple[object, ...]] = lambda part: (),
) -> Iterator[tuple[slice, T]]:
    """Yield the ranges of rows of all chunks, in order, with the results of a function.

    Chunks depend on the size of the problem alone, so that results do not depend on the number of threads or workers.
    """
    size = max(1, problem.chunk_size // int(np.prod(problem.mu.shape[1:])))
    parts = [slice(start, min(start + size, problem.n_rows)) for start in range(0, problem.n_rows, size)]
    results = in_workers(
        _work_on,
        problem,
        _Tasks(work, parts, arguments_of),
        name="prompts of a plan",
        n_jobs=problem.n_jobs,
        is_kept=True,
    )
    for number, result in enumerate(results):
        yield parts[number], result
        report(number + 1, len(parts), "plan, prompts", minor=len(parts) < _FEW_CHUNKS)


@dataclass(frozen=True, slots=True, eq=False)
class _Tasks(Sequence[Any]):
    """The tasks of a pass. The arguments of a task are computed when the task is handed to a worker.

    work: See :func:`pass_over`.
    parts: Range of rows of each task.
    arguments_of: See :func:`pass_over`.
    """

    work: ChunkWork[Any]
    parts: list[slice]
    arguments_of: Callable[[slice], tuple[object, ...]]

    def __len__(self) -> int:
        return len(self.parts)

    def __getitem__(self, number: Any) -> Any:
        part = self.parts[number]
        return self.work, part, self.arguments_of(part)


def _work_on(problem: ProblemInChunks, task: tuple[ChunkWork[T], slice, tuple[object, ...]]) -> T:
    """Return the result of a task of :class:`_Tasks`."""
    work, part, arguments = task
    return work(problem, part, _clipped(problem, part), *arguments)


def _clipped(problem: ProblemInChunks, part: slice) -> FloatArray:
    """Return the probabilities of a range of rows, clipped at the floor and renormalised."""
    table = np.asarray(problem.mu[part], dtype=np.float64)
    # The diagonal is zero and below the floor in any case. Where no other probability is below the floor, clipping
    # would change nothing. To count these probabilities takes less time than to clip the table.
    n_diagonal = table[:, :, 0].size
    n_below_floor = np.count_nonzero(table < problem.floor) if problem.functional.interior else 0
    return clip_and_renormalise(table, problem.floor) if n_below_floor > n_diagonal else table
