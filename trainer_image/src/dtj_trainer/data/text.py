"""Sequences of tokens: English that ships with Python, the user's text as bytes, the user's token files."""

import codecs
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
from dtj_api.exit_codes import ExitCode
from dtj_api.training import Data

from dtj_trainer.data.dataset import Array, Dataset, Indices
from dtj_trainer.errors import CHECK_VOLUME, TrainerError

BYTES = 256
CHUNK = 1 << 24
TEXT = "spec.training.data.text"
TOKENS = "spec.training.data.tokens"


class Parts:
    """Arrays of tokens read as one, without copying: a folder of memory-mapped files."""

    def __init__(self, arrays: Iterable[Array]) -> None:
        self.arrays = [array for array in arrays if len(array)]
        self.ends = np.cumsum([len(array) for array in self.arrays], dtype=np.int64)

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def read(self, start: int, stop: int) -> Array:
        """Tokens `start` to `stop`, int64."""
        pieces = []
        at = int(np.searchsorted(self.ends, start, side="right"))
        while start < stop:
            offset = int(self.ends[at]) - len(self.arrays[at])
            piece = self.arrays[at][start - offset : stop - offset]
            pieces.append(piece.astype(np.int64))
            start, at = start + len(piece), at + 1
        return np.concatenate(pieces) if pieces else np.zeros(0, np.int64)


@dataclass(frozen=True)
class Sequences:
    """Windows of `length` tokens side by side in `tokens[start:stop]`; what is too short for one more is left out.

    Sample i predicts tokens start + i x length + 1 to start + (i + 1) x length, each from those before in its window.
    """

    tokens: Parts
    start: int
    stop: int
    length: int

    def __len__(self) -> int:
        return max(0, (self.stop - self.start - 1) // self.length)

    def batch(self, indices: Indices) -> tuple[Array, Array]:
        firsts = self.start + indices * self.length
        windows = np.stack([self.tokens.read(first, first + self.length + 1) for first in map(int, firsts)])
        return windows[:, :-1], windows[:, 1:]


def from_text(data: Data) -> Dataset:
    """Text as UTF-8 bytes, 256 tokens; several files are read in the order of their paths, a newline between them.

    Raises:
        TrainerError: DATA_NOT_FOUND.
    """
    assert data.text is not None
    contents = tinydocs() if data.text == "tinydocs" else _read_texts(Path(data.text))
    return _split(Parts([np.frombuffer(contents, np.uint8)]), data, BYTES, TEXT, data.text)


def tinydocs() -> bytes:
    """The language reference's topics as Python itself ships them: about 465,000 characters of English."""
    from pydoc_data.topics import topics

    return "\n".join(topics[name] for name in sorted(topics)).encode()


def from_tokens(data: Data) -> Dataset:
    """Token files made by the user's tokenizer: .bin (raw little-endian uint16), .npy (one dimension, integers).

    Raises:
        TrainerError: DATA_NOT_FOUND; INVALID_CONFIG for a token that vocabularySize does not allow.
    """
    assert data.tokens is not None
    assert data.vocabulary_size is not None
    files = _files(Path(data.tokens), TOKENS, (".bin", ".npy"))
    if not files:
        _fail(TOKENS, f"{data.tokens} has no .bin or .npy file", "put token files there, or name another folder")
    arrays = [_map_tokens(file) for file in files]
    for file, array in zip(files, arrays, strict=True):
        _check_range(file, array, data.vocabulary_size)
    return _split(Parts(arrays), data, data.vocabulary_size, TOKENS, data.tokens)


def _split(tokens: Parts, data: Data, vocabulary: int, field: str, source: str) -> Dataset:
    """The last `validationFraction` of the tokens is for validation."""
    length = data.sequence_length
    cut = round(len(tokens) * (1 - data.validation_fraction))
    train, validation = Sequences(tokens, 0, cut, length), Sequences(tokens, cut, len(tokens), length)
    if not len(train) or not len(validation):
        problem = (
            f"{source} is too short: {cut} tokens for training and {len(tokens) - cut} for validation, "
            f"and each needs {length + 1} (sequenceLength + 1)"
        )
        _fail(field, problem, "use more data, or lower spec.training.data.sequenceLength")
    return Dataset(train, validation, inputs=length, outputs=vocabulary, tokens_per_sample=length)


def _files(path: Path, field: str, suffixes: tuple[str, ...] = ()) -> list[Path]:
    """The file `path`, or the files below the folder `path`, sorted.

    Hidden ones are not data: a mounted ConfigMap keeps its copies in `..data`. Nor is an ext4 volume's `lost+found`,
    which only root may read.
    """
    try:
        if not path.exists():
            remedy = "check that the volume with the data is mounted there, or write another path"
            _fail(field, f"{path} does not exist", remedy)
        if path.is_file():
            return [path] if not suffixes or path.suffix in suffixes else []
        found = [file for file in path.rglob("*") if _is_data(file.relative_to(path)) and file.is_file()]
        return sorted(file for file in found if not suffixes or file.suffix in suffixes)
    except OSError as error:
        _unreadable(field, path, error)


def _is_data(relative: Path) -> bool:
    return not any(part.startswith(".") or part == "lost+found" for part in relative.parts)


def _read_texts(path: Path) -> bytes:
    files = _files(path, TEXT)
    contents = []
    for file in files:
        try:
            contents.append(file.read_bytes())
        except OSError as error:
            _unreadable(TEXT, file, error)
        _check_utf8(file, contents[-1])
    if not any(contents):
        _fail(TEXT, f"{path} holds no text", "put UTF-8 text files there, or name another path")
    return b"\n".join(content for content in contents if content)


def _check_utf8(file: Path, content: bytes) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), CHUNK):
            decoder.decode(content[start : start + CHUNK])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        _fail(TEXT, f"{file} is not UTF-8 text", f"remove or convert it; token files belong in {TOKENS}")


def _map_tokens(file: Path) -> Array:
    try:
        if file.stat().st_size == 0:
            return np.zeros(0, np.uint16)
        if file.suffix == ".npy":
            array: Array = np.load(file, mmap_mode="r", allow_pickle=False)
        elif file.stat().st_size % 2:
            _fail(TOKENS, f"{file} has an odd number of bytes", "a .bin file is raw little-endian uint16")
        else:
            array = np.memmap(file, "<u2", "r")
    except OSError as error:
        _unreadable(TOKENS, file, error)
    except ValueError:
        _fail(TOKENS, f"{file} is not an array numpy can map", "save it with numpy.save, one dimension, integers")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        problem = f"{file} has {array.ndim} dimensions of {array.dtype}"
        _fail(TOKENS, problem, "save one dimension of integers")
    return array


def _check_range(file: Path, array: Array, vocabulary: int) -> None:
    for start in range(0, len(array), CHUNK):
        chunk = array[start : start + CHUNK]
        low, high = int(chunk.min()), int(chunk.max())
        if low < 0 or high >= vocabulary:
            problem = f"{file} has token {low if low < 0 else high}, outside 0 to {vocabulary - 1}"
            remedy = "set it to the size of the tokenizer's vocabulary, or make the files anew"
            words = f"spec.training.data.vocabularySize: {vocabulary} does not fit {TOKENS}: {problem}; {remedy}"
            raise TrainerError(ExitCode.INVALID_CONFIG, words)


def _unreadable(field: str, path: Path, error: OSError) -> NoReturn:
    _fail(field, f"{path} cannot be read: {error.strerror or error}", CHECK_VOLUME)


def _fail(field: str, problem: str, remedy: str) -> NoReturn:
    raise TrainerError(ExitCode.DATA_NOT_FOUND, f"{field}: {problem}; {remedy}")
