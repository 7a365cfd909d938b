"""Tasks of a cluster of Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from distributed import get_worker

from ._shared import Progress

if TYPE_CHECKING:
    from distributed import Client, Future


class Cancelled(Exception):
    """The client does not want a task any more."""


def stop_if_cancelled(name: str) -> Callable[[Progress], None]:
    """Ends a task that the client has cancelled: the scheduler cannot end what runs already."""
    worker = get_worker()

    def look(_: Progress) -> None:
        task = worker.state.tasks.get(name)
        if task is None or task.state == "cancelled":
            raise Cancelled(name)

    return look


class Tasks:
    """The tasks of a run. Its names have the run in them, which is a hash of the key."""

    def __init__(self, client: Client, run: str, retries: int) -> None:
        self.client, self.run, self.retries = client, run, retries
        self.futures: list[Future[Any]] = []

    def submit(
        self, kind: str, number: str, work: Callable[..., object], *args: object, named: bool = False
    ) -> Future[Any]:
        # What comes before the run is the group that a dashboard shows.
        name = f"blockmill-{kind}-{self.run}-{number}"
        args = (name, *args) if named else args
        future = self.client.submit(work, *args, key=name, retries=self.retries, pure=False)
        self.futures.append(future)
        return future

    def cancel(self) -> None:
        self.client.cancel(self.futures, force=True)

    def release(self) -> None:
        for future in self.futures:
            future.release()
        self.futures.clear()
