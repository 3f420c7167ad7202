"""A file is written whole or not at all, with the permissions that it had."""

import os
import pathlib
import stat

import pytest

from dmlrank._utils.atomic_write import check_writable, replacement_file, write_errors, write_file
from dmlrank.exceptions import FileWriteError


def test_text_is_written_as_it_is(tmp_path):
    for path in (tmp_path / "a.txt", str(tmp_path / "b.txt")):
        write_file(path, "ü\r\n")
        assert pathlib.Path(path).read_bytes() == "ü\r\n".encode()


def test_what_is_raised_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")

    def write_half(raised):
        with replacement_file(path) as beside:
            assert beside.suffix == ".csv"
            beside.write_text("half")
            raise raised

    for raised in (ValueError, KeyboardInterrupt):
        with pytest.raises(raised):
            write_half(raised)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are Unix's")
def test_permissions_and_links_stay(tmp_path):
    path, link = tmp_path / "a.txt", tmp_path / "link.txt"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_file(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    usual = tmp_path / "usual"
    usual.touch()
    write_file(tmp_path / "new.txt", "new")
    assert (tmp_path / "new.txt").stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(os.name != "posix", reason="devices are Unix's")
def test_devices_are_written_to_as_they_are():
    write_file("/dev/null", "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    read, write = os.pipe()
    path = f"/dev/fd/{write}"
    if os.path.exists(path):
        check_writable(path)
        write_file(path, "through")
        assert os.read(read, 99) == b"through"
    os.close(read)
    os.close(write)


def test_a_try_changes_nothing(tmp_path):
    path = tmp_path / "a.txt"
    check_writable(path)
    assert not path.exists()
    path.write_text("old")
    check_writable(path)
    assert path.read_text() == "old"
    for wrong in (tmp_path, tmp_path / "none" / "a.txt", "a\0b"):
        with pytest.raises(FileWriteError):
            check_writable(wrong)


def test_errors_name_the_file_and_are_the_systems_too():
    with pytest.raises(OSError, match=r"a\.txt"), write_errors("a.txt"):
        raise OSError(28, "No space left on device")
