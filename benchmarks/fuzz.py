"""Generated inputs for every public function of dmlrank: python benchmarks/fuzz.py --minutes 60.

Each case is made from the name of a target and a seed. A call must answer, or raise one of dmlrank's errors; answers
are compared with independent references (closed forms, statsmodels, formulas written out). A finding is an exception
or a warning of another library, a wrong answer, a hang or a printed line. Each finding is printed with its target and
seed, and ``python benchmarks/fuzz.py --target NAME --seed SEED`` repeats it.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter

# Fits of a few hundred votes gain nothing from threads. The libraries read this when they are imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from benchmarks.fuzzing.targets import LIMIT, TARGETS, run_case  # noqa: E402
from benchmarks.fuzzing.watch import Finding, Watch  # noqa: E402


def main() -> int:
    """Run cases until the time is over; return 1 where there was a finding."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="how long cases are run (default 1)")
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=list(TARGETS), help="targets (default all)")
    parser.add_argument("--seed", type=int, help="run this case alone, and show the traceback of its finding")
    parser.add_argument("--start", type=int, default=0, help="first seed (default 0)")
    given = parser.parse_args()
    if given.seed is not None:
        for name in given.target:
            run_case(name, given.seed, Watch(), LIMIT)
        return 0
    return run_until(time.monotonic() + 60 * given.minutes, given.target, given.start)


def run_until(end: float, targets: list[str], start: int) -> int:
    """Run the targets in turn until the clock reads ``end``; print findings and totals."""
    watch, findings, seed = Watch(), Counter[str](), start
    spent, cases, seen = Counter[str](), Counter[str](), Counter[str]()
    while time.monotonic() < end:
        for name in targets:
            began = time.monotonic()
            try:
                run_case(name, seed, watch)
            except Finding as finding:
                findings[finding.kind] += 1
                # The same line of the package is shown once.
                place = finding.detail.rpartition(" at ")[2] if " at " in finding.detail else finding.call[:20]
                seen[f"{name} {finding.kind} {place}"] += 1
                if seen[f"{name} {finding.kind} {place}"] <= 1:
                    print(f"{name} {seed}: {str(finding)[:1500]}", flush=True)
            except Exception:
                findings["failure of this script"] += 1
                print(f"{name} {seed}: {traceback.format_exc()[-2500:]}", flush=True)
            spent[name] += time.monotonic() - began
            cases[name] += 1
            if time.monotonic() > end:
                break
        seed += 1
    print(f"{sum(cases.values()):,} cases, {watch.inputs:,} calls, {watch.comparisons:,} comparisons with references")
    print("outcomes:", dict(watch.outcomes.most_common()))
    print("seconds a case:", {name: round(spent[name] / cases[name], 3) for name in cases})
    print("findings:", dict(findings) or "none")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
