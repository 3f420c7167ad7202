"""A keyed hash of 64-bit numbers that is the same on all machines: SipHash-2-4."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_State = tuple[Words, Words, Words, Words]

# Numbers that are hashed at a time: few enough for a processor's cache.
_BLOCK = 8192
# The initial state of SipHash, "somepseudorandomlygeneratedbytes".
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
# The last block of a message holds the message's length in bytes, here 8, in its highest byte.
_LENGTH_BLOCK = 8 << 56


def keyed_hash(numbers: Words, key: bytes) -> Words:
    """Return SipHash-2-4 of each number, taken as a message of 8 bytes with the lowest byte first.

    SipHash is a pseudo-random function: without the key, hashes cannot be told from independent uniform draws. It
    consists of additions, rotations and exclusive or of 64-bit words, so that all machines compute the same hashes.

    Shapes: numbers (n,), returns (n,).
    """
    hashes = np.empty(len(numbers), np.uint64)
    for start in range(0, len(numbers), _BLOCK):
        hashes[start : start + _BLOCK] = _hash_block(numbers[start : start + _BLOCK].astype(np.uint64), key)
    return hashes


def _hash_block(message: Words, key: bytes) -> Words:
    """Return the hashes of a few numbers, (b,)."""
    words = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    a, b, c, d = (np.full_like(message, constant ^ words[i % 2]) for i, constant in enumerate(_INITIAL))
    for block in (message, np.full_like(message, _LENGTH_BLOCK)):
        a, b, c, d = _round(_round((a, b, c, d ^ block)))
        a = a ^ block
    a, b, c, d = _round(_round(_round(_round((a, b, c ^ np.uint64(0xFF), d)))))
    return a ^ b ^ c ^ d


def _round(state: _State) -> _State:
    """Return the four words of the state after one round of SipHash; sums are modulo 2^64."""
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _rotated(b, 13) ^ a, _rotated(d, 16) ^ c
    a = _rotated(a, 32)
    c, a = c + b, a + d
    b, d = _rotated(b, 17) ^ c, _rotated(d, 21) ^ a
    return a, b, _rotated(c, 32), d


def _rotated(words: Words, bits: int) -> Words:
    """Return the words with their bits rotated to the left: bits that leave on the left come in on the right."""
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
