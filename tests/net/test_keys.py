"""Key files: who can read them, what may stand in them, and that no message tells a secret."""

import os
from pathlib import Path

import pytest

from covey.cli.main import main
from covey.kernel.errors import MisuseError, WorldError
from covey.net.keys import FILE_BYTES_MAX, KEYS_MAX, Key, Keys, load_keys, new_key_file

SECRET = bytes(range(32))
LINE = Key(SECRET).line()


def written(directory: Path, content: str | bytes, mode: int = 0o600) -> Path:
    path = directory / "group.key"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)
    return path


def test_a_new_key_is_read_back_and_only_its_owner_can(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "group.key"
    umask = os.umask(0)
    try:
        assert main(["key", "new", str(path)]) == 0
    finally:
        os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o600
    (key,) = load_keys(path)
    assert capsys.readouterr().out == f"{path}: key {key.id.hex()}\n"


def test_no_two_keys_are_the_same(tmp_path: Path) -> None:
    assert new_key_file(tmp_path / "a").line() != new_key_file(tmp_path / "b").line()


def test_a_key_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, LINE)
    assert main(["key", "new", str(path)]) == 2
    assert path.read_text() == LINE
    assert capsys.readouterr().err.startswith(f"covey: {path}: is there already")


def test_a_key_that_cannot_be_written_is_an_error_that_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["key", "new", str(tmp_path / "none" / "group.key")]) == 2
    assert capsys.readouterr().err == f"covey: {tmp_path}/none/group.key: No such file or directory\n"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o777])
def test_a_key_that_others_can_reach_is_refused_with_what_to_run(mode: int, tmp_path: Path) -> None:
    path = written(tmp_path, LINE, mode)
    with pytest.raises(WorldError, match=f"other users.*; run: chmod 600 {path}"):
        load_keys(path)


def test_a_key_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, LINE)
    found = os.stat_result((0o100600, 0, 0, 1, 12345, 0, len(LINE), 0, 0, 0))
    monkeypatch.setattr(os, "fstat", lambda _: found)
    with pytest.raises(WorldError, match=r"belongs to another user.*; run: chown"):
        load_keys(path)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "none"):
        with pytest.raises(WorldError, match=str(path)):
            load_keys(path)


def test_the_first_of_several_keys_comes_first(tmp_path: Path) -> None:
    other = Key(bytes(32))
    assert [key.id for key in load_keys(written(tmp_path, f"{LINE}\n  {other.line()}"))] == [Key(SECRET).id, other.id]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "1 to 8 keys, not 0"),
        ("\n \n", "1 to 8 keys, not 0"),
        (LINE + LINE, "twice"),
        ("".join(Key(bytes([n]) * 32).line() for n in range(KEYS_MAX + 1)), "1 to 8 keys, not 9"),
        (LINE[:-2], "line 1: this key is not 64 hexadecimal digits"),
        (LINE.replace("0001", "000g"), "line 1: this key is not 64 hexadecimal digits"),
        (LINE[:-2] + "0", "line 1: the key and its id do not belong together"),
        (LINE + "ssh-rsa AAAA me", "line 2: not a key"),
        (LINE.strip() + " more", "line 1: not a key"),
        (bytes(range(128, 256)), "line 1: not a key"),
        ("x" * (FILE_BYTES_MAX + 1), "larger than 4096 bytes"),
    ],
    ids=["empty", "blank", "twice", "many", "short", "digit", "other", "foreign", "more", "bytes", "large"],
)
def test_what_is_no_key_file_is_refused_without_showing_it(
    content: str | bytes, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(WorldError, match=complaint) as error:
        load_keys(written(tmp_path, content))
    assert SECRET.hex()[8:24] not in str(error.value)


def test_a_key_does_not_show_itself() -> None:
    assert repr(Keys((Key(SECRET),))) == f"(<Key {Key(SECRET).id.hex()}>,)"


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(MisuseError, match="32 bytes, not 31"):
        Key(bytes(31))
