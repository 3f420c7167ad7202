"""The experiments of Frauen et al. (arXiv 2601.21816), each as described there and as the package does it by default.

    python -m benchmarks.paper all --seeds 100 --processes 2
    python -m benchmarks.paper debiasing judges --ways default --seeds 10
    python -m benchmarks.paper tables
    python -m benchmarks.paper figures

Every experiment is a module with its tasks (``tasks``), the computation of one task (``run``) and its table
(``summary``). Rows go to ``benchmarks/results/paper_*.csv``. A row that the file holds is not computed again, so that a
run may stop at any time and be continued. docs/paper.md puts the numbers beside the paper's.
"""
