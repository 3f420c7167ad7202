"""SipHash against the authors' test value and against a second implementation in Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from dmlrank.estimation.cross_fitting import keyed_hash

MASK = 2**64 - 1
INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(message, key):
    """SipHash-2-4 of bytes of any length, written from the paper with Python's integers."""
    k = [int.from_bytes(key[i : i + 8], "little") for i in (0, 8)]
    v = [constant ^ k[i % 2] for i, constant in enumerate(INITIAL)]

    def rounds(count):
        for _ in range(count):
            for p, q, r, s, b, d in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
                for target, other, bits in ((p, q, b), (r, s, d)):
                    v[target] = (v[target] + v[other]) & MASK
                    v[other] = ((v[other] << bits) & MASK | v[other] >> (64 - bits)) ^ v[target]
                v[p] = (v[p] << 32) & MASK | v[p] >> 32

    padded = message + bytes(-(len(message) + 1) % 8) + bytes([len(message) & 255])
    for start in range(0, len(padded), 8):
        block = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= block
        rounds(2)
        v[0] ^= block
    v[2] ^= 255
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def test_the_second_implementation_gives_the_example_of_the_paper():
    assert siphash(bytes(range(15)), bytes(range(16))) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("n", [0, 1, 8192, 8200])
def test_hashes_are_those_of_siphash(n):
    rng = np.random.default_rng(n)
    numbers, key = rng.integers(2**64, size=n, dtype=np.uint64), rng.bytes(16)
    hashes = keyed_hash(numbers, key)
    assert hashes.dtype == np.uint64
    assert len(hashes) == n
    for place in [*range(min(n, 20)), *range(max(n - 10, 0), n)]:
        assert int(hashes[place]) == siphash(int(numbers[place]).to_bytes(8, "little"), key)


def test_the_callers_numbers_are_not_changed():
    numbers = np.arange(10, dtype=np.uint64)
    keyed_hash(numbers, bytes(16))
    assert (numbers == np.arange(10)).all()
