"""Files that workers and driver share: in a folder, or wherever fsspec reaches."""

from __future__ import annotations

import os
import uuid
from typing import Any


def is_url(place: str) -> bool:
    """Whether a place is none of this machine's folders."""
    return "://" in place


def _file_system(place: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"`{place}` is reached by fsspec: `pip install fsspec`") from error
    found: tuple[Any, str] = fsspec.core.url_to_fs(place)
    return found


def write(place: str, name: str, content: bytes) -> None:
    """Writes a file whole or not at all. A second time, it has the same bytes."""
    if is_url(place):
        # Object stores show an object when it is whole.
        system, folder = _file_system(place)
        system.makedirs(folder, exist_ok=True)
        system.pipe_file(f"{folder}/{name}", content)
        return
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, name)
    unfinished = os.path.join(place, f".{name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
        raise


def upload(url: str, path: str) -> None:
    """Copies a file of this machine to a URL, without holding it."""
    system, target = _file_system(url)
    system.makedirs(os.path.dirname(target), exist_ok=True)
    system.put_file(path, target)


def read(place: str, name: str) -> bytes | None:
    """The bytes of a file; ``None`` where it is not there."""
    try:
        if is_url(place):
            system, folder = _file_system(place)
            found: bytes = system.cat_file(f"{folder}/{name}")
            return found
        with open(os.path.join(place, name), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def names(place: str) -> list[str]:
    """The files of a folder, in order."""
    try:
        if is_url(place):
            system, folder = _file_system(place)
            listed = system.ls(folder, detail=False)
            return sorted(os.path.basename(str(path).rstrip("/")) for path in listed)
        return sorted(os.listdir(place))
    except FileNotFoundError:
        return []


def remove(place: str, name: str) -> None:
    """Removes a file, if it is there."""
    try:
        if is_url(place):
            system, folder = _file_system(place)
            system.rm_file(f"{folder}/{name}")
        else:
            os.unlink(os.path.join(place, name))
    except FileNotFoundError:
        pass


def hand_over(place: str | None, name: str, path: str) -> bytes | None:
    """A worker's file: put where all find it, or given back."""
    with open(path, "rb") as file:
        content = file.read()
    if place is None:
        return content
    write(place, name, content)
    return None
