"""The extension module; private."""

import os
from collections.abc import Callable
from typing import Any, final

StrPath = str | os.PathLike[str]
Told = tuple[str, str, list[str]]
Reported = tuple[Told, str, str]
Arrays = list[tuple[str, "Array"]]
Progress = Callable[[str, int], None] | None
Labels = list[int] | tuple[int, list[float]] | None
Words = tuple[Labels, list[str] | None, list[str] | None]

version: str

def run_command(words: list[str]) -> int: ...
def options(verb: str) -> list[tuple[str, bool, bool, str]] | None: ...
def inspect(source: str | bytes, flags: list[str]) -> Told: ...
def compile(source: str | bytes, flags: list[str], output: StrPath) -> Told: ...

@final
class Array:
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

@final
class Samples:
    @staticmethod
    def open(spec: str) -> Samples: ...
    @staticmethod
    def arrays(name: str, inputs: list[tuple[str, Any]], words: Words) -> Samples: ...
    @staticmethod
    def spooled(
        name: str, inputs: list[tuple[str, str, str, list[int]]], words: Words
    ) -> Samples: ...
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> list[tuple[str, list[int], str]]: ...
    def digest(self) -> str: ...

@final
class Model:
    def __new__(
        cls,
        source: str | bytes,
        flags: list[str],
        class_names: list[str] | None = ...,
        preprocessed_by: str | None = ...,
    ) -> Model: ...
    @property
    def sha256(self) -> str: ...
    @property
    def file(self) -> StrPath | None: ...
    @property
    def files(self) -> list[StrPath]: ...
    @property
    def classes(self) -> int: ...
    @property
    def input_shape(self) -> list[int]: ...
    @property
    def class_names(self) -> list[str] | None: ...
    @property
    def layers(self) -> list[tuple[str, int]]: ...
    @property
    def engine(self) -> tuple[str, str, str]: ...
    def count(self, data: Samples) -> int: ...
    def digest(self, data: Samples) -> str: ...
    def predict(
        self,
        data: Samples,
        flags: list[str],
        output: StrPath | None = ...,
        activations: bool = ...,
        progress: Progress = ...,
    ) -> tuple[Told, Arrays]: ...
    def explain(
        self, data: Samples, flags: list[str], output: StrPath | None = ..., progress: Progress = ...
    ) -> tuple[Told, Arrays, bytes | None]: ...
    def tune(self, data: Samples, flags: list[str], progress: Progress = ...) -> Told: ...
    def build(
        self,
        data: Samples,
        flags: list[str],
        calibration: Samples | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> tuple[DecisionGraph, list[str]]: ...
    def build_part(
        self,
        data: Samples,
        flags: list[str],
        calibration: Samples | None,
        output: StrPath,
        progress: Progress = ...,
    ) -> Told: ...
    def attack(
        self, data: Samples, flags: list[str], output: StrPath | None = ..., progress: Progress = ...
    ) -> tuple[Told, Arrays]: ...

    def mutate(
        self,
        data: Samples,
        flags: list[str],
        judge: Samples | None = ...,
        graph: DecisionGraph | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> tuple[Killed, list[str]]: ...

@final
class Killed:
    @staticmethod
    def open(path: StrPath) -> Killed: ...
    @staticmethod
    def is_file(path: StrPath) -> bool: ...
    def save(self, path: StrPath) -> None: ...
    def merged(self, others: list[Killed]) -> Killed: ...
    def report(self) -> Told: ...

@final
class DecisionGraph:
    def __new__(
        cls,
        source: str | bytes,
        model: str | bytes | None,
        flags: list[str],
        class_names: list[str] | None = ...,
        preprocessed: bool = ...,
    ) -> DecisionGraph: ...
    @property
    def id(self) -> str: ...
    @property
    def model_sha256(self) -> str: ...
    @property
    def input_shape(self) -> list[int]: ...
    @property
    def class_names(self) -> list[str] | None: ...
    @property
    def model_files(self) -> list[StrPath]: ...
    @property
    def preprocessed_by(self) -> str | None: ...
    @property
    def engine(self) -> tuple[str, str, str]: ...
    def count(self, data: Samples) -> int: ...
    def save(self, path: StrPath) -> None: ...
    def inspect(self) -> Told: ...
    def clusters(self, training: Samples) -> list[bytes] | None: ...
    def cover(
        self,
        suites: list[tuple[str, Samples]],
        flags: list[str],
        earlier: Coverage | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> tuple[Coverage, list[str]]: ...
    def explain(
        self, data: Samples, flags: list[str], output: StrPath | None = ..., progress: Progress = ...
    ) -> tuple[Told, Arrays, bytes | None]: ...
    def gaps(
        self,
        coverage: Coverage,
        flags: list[str],
        pool: Samples | None = ...,
        shown: list[Samples] = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> tuple[Told, bytes | None]: ...
    def export(self, flags: list[str], folder: StrPath) -> Told: ...
    def select(
        self,
        pool: Samples,
        flags: list[str],
        given: Coverage | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> Told: ...
    def minimize(
        self,
        suite: Samples,
        flags: list[str],
        given: Coverage | None = ...,
        output: StrPath | None = ...,
        progress: Progress = ...,
    ) -> Told: ...

@final
class Coverage:
    @staticmethod
    def open(path: StrPath) -> Coverage: ...
    def save(self, path: StrPath) -> None: ...
    def write_inputs(self, path: StrPath) -> None: ...
    @property
    def graph(self) -> str: ...
    @property
    def suites(self) -> list[tuple[str, int]]: ...
    def merged(self, others: list[Coverage], name: str | None = ...) -> Coverage: ...
    def with_class_shares(self, shares: str) -> Coverage: ...
    def report(
        self,
        flags: list[str],
        against: Coverage | None = ...,
        graph: DecisionGraph | None = ...,
        data: list[Samples] = ...,
        pool: Samples | None = ...,
        progress: Progress = ...,
    ) -> Reported: ...
    def check(self, flags: list[str], against: Coverage | None = ...) -> tuple[bool, Reported]: ...

def look(
    reader: Model | DecisionGraph, data: Samples, rows: tuple[int, int], threads: int
) -> tuple[bytes, list[tuple[int, str]]]: ...
def bad_rows(
    reader: Model | DecisionGraph, data: Samples, rows: tuple[int, int], threads: int
) -> list[tuple[int, str]]: ...
def excerpt(
    reader: Model | DecisionGraph,
    data: Samples,
    runs: list[tuple[int, int, int]],
    blocks: bytes | None = ...,
    whole: tuple[str, int, list[int] | None, Words] | None = ...,
) -> Samples: ...
def build_part(
    model: Model,
    data: Samples,
    flags: list[str],
    part: tuple[int, int],
    output: StrPath,
    calibration: Samples | None = ...,
    progress: Progress = ...,
) -> tuple[int, int]: ...
def missing_parts(
    model: Model, data: Samples, flags: list[str], output: StrPath, calibration: Samples | None = ...
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]: ...
def cover_part(
    graph: DecisionGraph,
    name: str,
    data: Samples,
    rows: tuple[int, int],
    flags: list[str],
    progress: Progress = ...,
) -> Coverage: ...
def part_rows(part: int, parts: int, rows: int) -> tuple[int, int] | None: ...
