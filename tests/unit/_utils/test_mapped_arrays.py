"""Arrays in files: the numbers of arrays in memory, files that disappear, and a full disk."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

from dmlrank._utils.mapped_arrays import (
    column_sums,
    concatenate,
    empty,
    in_memory,
    is_mapped,
    mapped,
    row_blocks,
    stored,
    take,
    with_constant,
    zeros,
)
from dmlrank.exceptions import StorageError


@pytest.fixture(scope="module")
def pair():
    """An array in memory and the same numbers in a file, in three blocks."""
    numbers = np.random.default_rng(0).normal(size=(700_000, 6))
    numbers[::7, 2] = 1e12
    in_file = mapped(numbers.shape)
    in_file[:] = numbers
    return numbers, in_file


def test_what_is_made_of_a_mapped_array_is_mapped(pair):
    numbers, in_file = pair
    assert [is_mapped(array) for array in (in_file, in_file[5:, ::2], numbers)] == [True, True, False]
    assert [is_mapped(empty(2000, like=array)) for array in (in_file, numbers)] == [True, False]
    assert not is_mapped(empty(10, like=in_file)), "few numbers stay in memory"
    assert not zeros((2000, 3), like=in_file).any()
    copy = in_memory(in_file)
    assert not is_mapped(copy)
    np.testing.assert_array_equal(copy, numbers)
    assert in_memory(numbers) is numbers


def test_blocks_divide_the_rows(pair):
    numbers, in_file = pair
    assert list(row_blocks(numbers)) == [slice(0, len(numbers))]
    blocks = list(row_blocks(in_file, multiple_of=1000))
    assert len(blocks) > 2
    assert [b.start for b in blocks] == [0, *(b.stop for b in blocks[:-1])]
    assert blocks[-1].stop == len(in_file)
    assert all(b.start % 1000 == 0 for b in blocks)
    assert list(row_blocks(in_file, multiple_of=10**9)) == [slice(0, len(in_file))]


def test_rows_sums_and_joins_have_the_bits_of_numpys(pair):
    numbers, in_file = pair
    rows = np.random.default_rng(1).integers(len(numbers), size=500_000)
    mask = numbers[:, 0] > 0
    for chosen in (rows, mask):
        np.testing.assert_array_equal(take(in_file, chosen), numbers[chosen])
    assert is_mapped(take(in_file, rows))
    assert column_sums(in_file).tobytes() == numbers.sum(axis=0).tobytes()
    assert column_sums(in_file, np.square).tobytes() == np.square(numbers).sum(axis=0).tobytes()
    assert column_sums(in_file[:, :1]).tobytes() == numbers[:, :1].sum(axis=0).tobytes()
    np.testing.assert_array_equal(with_constant(in_file), np.hstack([np.ones((len(numbers), 1)), numbers]))
    joined = concatenate([numbers[:10], in_file])
    assert is_mapped(joined)
    np.testing.assert_array_equal(joined, np.concatenate([numbers[:10], numbers]))


def test_rows_far_from_each_other_are_taken():
    # 73 MB, of which only the first, the middle and the last rows are ever written or read.
    array = mapped((140_000, 65))
    rows = np.array([0, 139_999, 70_000, 1] * 300)
    array[[0, 1, 70_000, 139_999]] = np.arange(4.0)[:, None]
    taken = take(array, rows)
    assert is_mapped(taken)
    np.testing.assert_array_equal(taken, np.broadcast_to(np.array([0.0, 3, 2, 1] * 300)[:, None], (1200, 65)))


def test_arrays_of_mapped_data_are_stored_in_files(pair):
    in_memory_like, mapped_like = pair
    array = np.arange(10_000).reshape(-1, 2)[::-1]
    copy = stored(array, like=mapped_like)
    assert is_mapped(copy)
    np.testing.assert_array_equal(copy, array)
    assert stored(copy, like=mapped_like) is copy
    assert stored(array, like=in_memory_like) is array
    assert stored(array[:5], like=mapped_like).tolist() == array[:5].tolist()


def test_no_file_is_left_in_the_folder(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    array = mapped((1000, 1000))
    array[:] = 1
    assert list(tmp_path.iterdir()) == []
    assert array.sum() == 1e6


def test_the_space_is_given_back_when_the_array_is_no_longer_used():
    if not sys.platform.startswith("linux"):
        pytest.skip("open files are listed in /proc")
    array = mapped(10_000_000)

    def n_maps():
        with open("/proc/self/maps") as maps:
            return sum("dmlrank-" in line or "(deleted)" in line for line in maps)

    before = n_maps()
    del array
    assert n_maps() == before - 1


def test_an_unknown_folder_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "no folder"))
    with pytest.raises(StorageError, match=r"cannot be written to .*no folder"):
        mapped(10_000)


def test_resident_pages_are_released_and_a_full_disk_is_said():
    """A process that writes and reads 0.6 GB keeps part of it in memory; a limit on files stands for a full disk."""
    if not sys.platform.startswith("linux"):
        pytest.skip("other systems release pages themselves, and limit files in other ways")
    code = """
    import resource, time
    import numpy as np
    from dmlrank._utils.mapped_arrays import mapped, row_blocks
    from dmlrank.exceptions import StorageError
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    array = mapped((75_000, 1000))
    for block in row_blocks(array):
        array[block] = 1.0
        time.sleep(0.02)
    total = sum(float(array[block].sum()) for block in row_blocks(array))
    assert total == 75e6, total
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6))
    try:
        mapped(10**6)
    except StorageError as error:
        print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, timeout=300
    )
    resident, message = done.stdout.splitlines()
    assert float(resident) < 450
    assert "a temporary file of 0.008 GB cannot be written to" in message
    assert "TMPDIR" in message


def test_too_many_files_are_said():
    """In a process of its own, which may open few files."""
    pytest.importorskip("resource", reason="only Unix limits the number of open files")
    code = """
        import resource
        from dmlrank._utils.mapped_arrays import mapped
        from dmlrank.exceptions import StorageError
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        try:
            arrays = [mapped(10) for _ in range(50)]
        except StorageError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert "one column of vectors" in done.stdout
    assert "ulimit -n" in done.stdout
