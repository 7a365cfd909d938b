"""What audits and tables share: paths, progress, the log."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union

log = logging.getLogger("blockmill")

PathLike = Union[str, "os.PathLike[str]"]
Paths = Union[PathLike, Iterable[PathLike]]


@dataclass(frozen=True)
class Progress:
    """How far an audit is.

    `phase` is `headers` (block files are searched), `blocks` or `coins` (the set is read); `share` is
    that of the phase, from 0 to 1. Fields that the phase does not have are None.
    """

    phase: Literal["headers", "blocks", "coins"]
    share: float
    headers: int | None = None
    height: int | None = None
    blocks: int | None = None
    transactions: int | None = None
    inputs: int | None = None
    coins: int | None = None
    seconds: float | None = None
    seconds_left: float | None = None


OnProgress = Callable[[Progress], object]


def path_text(path: PathLike) -> str:
    return os.path.expanduser(os.fspath(path))


def path_texts(paths: Paths | None) -> list[str]:
    if paths is None:
        return []
    if isinstance(paths, (str, os.PathLike)):
        return [path_text(paths)]
    return [path_text(path) for path in paths]


def hear_with(progress: OnProgress | None) -> Callable[[str, dict[str, Any]], None]:
    """Gives events to the log, and progress to `progress`."""

    def hear(about: str, fields: dict[str, Any]) -> None:
        if about == "event":
            log.log(logging.WARNING if fields["is_warning"] else logging.INFO, "%s", fields["text"])
        elif progress is not None:
            progress(Progress(phase=about, **fields))  # type: ignore[arg-type]

    return hear
