"""Group keys, and the files that hold them.

A key file has a line for each key: the word `covey-key`, the key's id and its 32 bytes, both in
hexadecimal. The first key seals; all of them open, which is how a group changes its key. The id
goes with every packet in the clear, and in the file it guards against a line that was cut or mistyped.
"""

import os
import shlex
import stat
from functools import cached_property
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from covey.kernel.errors import MisuseError, WorldError

KEY_BYTES = 32
KEYS_MAX = 8
FILE_BYTES_MAX = 4096
WORD = "covey-key"


class Key:
    """The secret that makes processes members of one group."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != KEY_BYTES:
            raise MisuseError(f"a key has {KEY_BYTES} bytes, not {len(secret)}; make one with: covey key new FILE")
        self._secret = secret
        self.id = self.derive(b"id")[:4]

    def __repr__(self) -> str:
        return f"<Key {self.id.hex()}>"

    @cached_property
    def control(self) -> bytes:
        """The key under which challenges and answers are authenticated."""
        return self.derive(b"control")

    def derive(self, purpose: bytes) -> bytes:
        """Return 32 bytes that are good for one purpose, and tell nothing about those of another."""
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"covey " + purpose).derive(self._secret)

    def line(self) -> str:
        """Return the line of a key file."""
        return f"{WORD} {self.id.hex()} {self._secret.hex()}\n"


class Keys(tuple[Key, ...]):
    """The keys of a group: the first seals, all of them open."""

    def __new__(cls, keys: tuple[Key, ...]) -> "Keys":
        if not 0 < len(keys) <= KEYS_MAX:
            raise MisuseError(f"a group has 1 to {KEYS_MAX} keys, not {len(keys)}")
        if len({key.id for key in keys}) < len(keys):
            raise MisuseError("the same key is there twice; leave one of them out")
        return super().__new__(cls, keys)


def new_key_file(path: Path) -> Key:
    """Write a new key into a new file that only its owner can read."""
    key = Key(os.urandom(KEY_BYTES))
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(key.line())
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        raise WorldError(f"{path}: is there already, and a lost key cannot be had again; choose another name") from None
    except OSError as error:
        raise WorldError(f"{path}: {error.strerror}") from error
    return key


def load_keys(path: Path) -> Keys:
    """Read a key file; refuse it where other users can."""
    try:
        # Without O_NONBLOCK a pipe by that name would have us wait for whoever writes to it.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            _check_access(path, os.fstat(file.fileno()))
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise WorldError(f"{path}: {error.strerror}") from error
    return _parse(path, content)


def _check_access(path: Path, found: os.stat_result) -> None:
    """The file is looked at, not its name, so that it cannot be another one by the time it is read."""
    if not stat.S_ISREG(found.st_mode):
        raise WorldError(f"{path}: not a file; make a key with: covey key new FILE")
    if found.st_uid not in (0, os.geteuid()):
        raise WorldError(f"{path}: belongs to another user, who can read it; run: chown {os.geteuid()} {_quoted(path)}")
    if found.st_mode & 0o077:
        raise WorldError(f"{path}: other users can read or change this key; run: chmod 600 {_quoted(path)}")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _parse(path: Path, content: bytes) -> Keys:
    if len(content) > FILE_BYTES_MAX:
        raise WorldError(f"{path}: larger than {FILE_BYTES_MAX} bytes, so it is no key file")
    lines = enumerate(content.decode("ascii", "replace").splitlines(), start=1)
    keys = tuple(_parse_line(f"{path}, line {number}", line) for number, line in lines if line.strip())
    try:
        return Keys(keys)
    except MisuseError as error:
        raise WorldError(f"{path}: {error}") from None


def _parse_line(place: str, line: str) -> Key:
    """The line itself is in no message: it may be a secret."""
    word, *rest = line.split()
    if word != WORD or len(rest) != 2:
        raise WorldError(f"{place}: not a key; such a line is made by: covey key new FILE")
    try:
        key = Key(bytes.fromhex(rest[1]))
    except ValueError:
        raise WorldError(f"{place}: this key is not {2 * KEY_BYTES} hexadecimal digits; copy it again") from None
    if key.id.hex() != rest[0]:
        raise WorldError(f"{place}: the key and its id do not belong together; copy the line again")
    return key
