"""Ranks as threads of one process: what gloo does between processes, in microseconds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from forewarn.inpod.ranks import Ranks

TIMEOUT = 20


class ThreadRanks(Ranks):
    def __init__(self, rank: int, size: int, barrier: threading.Barrier, board: list[Sequence[int]]) -> None:
        self.rank, self.size = rank, size
        self._barrier, self._board = barrier, board
        self.exchanges = 0

    def highest(self, values: Sequence[int]) -> list[int]:
        self.exchanges += 1
        self._board[self.rank] = values
        self._barrier.wait(TIMEOUT)
        highest = [max(column) for column in zip(*self._board)]
        self._barrier.wait(TIMEOUT)
        return highest


def run(size: int, work: Callable[[Ranks], Any]) -> list[Any]:
    """Run ``work(ranks)`` in each of ``size`` ranks; return what each returned, or raise what one raised first."""
    barrier, board = threading.Barrier(size), [()] * size
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def one(rank: int) -> None:
        try:
            results[rank] = work(ThreadRanks(rank, size, barrier, board))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a rank hangs"
    if errors:
        raise errors[0]
    return results
