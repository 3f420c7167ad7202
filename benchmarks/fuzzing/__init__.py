"""Generated inputs for every public function, and independent references for the answers; run by benchmarks/fuzz.py."""
