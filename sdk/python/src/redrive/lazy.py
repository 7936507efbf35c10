"""Lazy results: generators, coroutines, streams. The function has ended when its result is exhausted, closed or
failed, not when it was made. What is handed on behaves as what it stands for."""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
)
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import Any

#: Of a stream's items so many are kept as its output.
_ITEMS_MAX = 10_000

End = Callable[[BaseException | None, list[Any]], None]
Inside = Callable[[], AbstractContextManager[Any]]


class Closed(Exception):
    """A stream was closed before its end."""


def is_lazy(value: Any) -> bool:
    if value is None or isinstance(value, (str, bytes, int, float, list, dict, tuple, set)):
        return False
    return is_awaitable(value) or is_stream(value)


def is_awaitable(value: Any) -> bool:
    return type(value).__module__ != "unittest.mock" and inspect.isawaitable(value)


def is_stream(value: Any) -> bool:
    """By the type, and not of a mock: those answer to every name. A file is read by its receiver."""
    kind = type(value)
    if kind.__module__ == "unittest.mock" or hasattr(kind, "read"):
        return False
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def followed(value: Any, end: End, inside: Inside = nullcontext) -> Any:
    """The same stream or awaitable; `end` is called once, with the error or none, and the items that went by. `inside` is
    entered around each piece of its work."""
    if isinstance(value, Generator):
        return _generator(value, _Seen(end, inside))
    if isinstance(value, AsyncGenerator):
        return _async_generator(value, _Seen(end, inside))
    if is_awaitable(value):
        return _awaited(value, end, inside)
    return _Stream(value, _Seen(end, inside))


class _Seen:
    """The items of a stream that went by, and its one end. What sync and async streams have in common."""

    def __init__(self, end: End, inside: Inside) -> None:
        self._end, self.inside = end, inside
        self._items: list[Any] = []

    def add(self, item: Any) -> Any:
        if len(self._items) < _ITEMS_MAX:
            self._items.append(item)
        return item

    def piece(self) -> _Piece:
        """Around the work on one item: what it raises is the end of the stream."""
        return _Piece(self)

    def over(self, error: BaseException | None) -> None:
        end, self._end = self._end, _ignore
        end(error, self._items)

    def closed(self) -> None:
        self.over(Closed("the stream was closed before its end"))


class _Piece:
    def __init__(self, seen: _Seen) -> None:
        self._seen, self._inside = seen, seen.inside()

    def __enter__(self) -> None:
        self._inside.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside.__exit__(kind, error, trace)
        if error is not None:
            self._seen.over(None if isinstance(error, (StopIteration, StopAsyncIteration)) else error)


def _generator(work: Generator[Any, Any, Any], seen: _Seen) -> Generator[Any, Any, Any]:
    go_on: Callable[[], Any] = partial(next, work)
    while True:
        try:
            with seen.piece():
                item = seen.add(go_on())
        except StopIteration as stop:
            return stop.value
        try:
            given = yield item
            go_on = partial(next, work) if given is None else partial(work.send, given)
        except GeneratorExit:
            with seen.piece():
                work.close()
            seen.closed()
            raise
        except BaseException as thrown:  # noqa: BLE001 - it is the work's to handle
            go_on = partial(work.throw, thrown)


async def _async_generator(work: AsyncGenerator[Any, Any], seen: _Seen) -> AsyncGenerator[Any, Any]:
    go_on: Callable[[], Any] = work.__anext__
    while True:
        try:
            with seen.piece():
                item = seen.add(await go_on())
        except StopAsyncIteration:
            return
        try:
            given = yield item
            go_on = work.__anext__ if given is None else partial(work.asend, given)
        except GeneratorExit:
            with seen.piece():
                await work.aclose()
            seen.closed()
            raise
        except BaseException as thrown:  # noqa: BLE001 - it is the work's to handle
            go_on = partial(work.athrow, thrown)


async def _awaited(work: Awaitable[Any], end: End, inside: Inside) -> Any:
    try:
        with inside():
            value = await work
    except BaseException as error:
        end(error, [])
        raise
    if is_stream(value):
        return followed(value, end, inside)
    end(None, [value])
    return value


class _Stream:
    """Stands for a stream of a class of its own, such as a provider's: all but its items is its own."""

    def __init__(self, stream: Any, seen: _Seen) -> None:
        self._stream, self._seen = stream, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._seen.piece():
            return self._seen.add(next(self._stream))

    async def __anext__(self) -> Any:
        with self._seen.piece():
            return self._seen.add(await self._stream.__anext__())

    def close(self) -> Any:
        self._seen.closed()
        return self._stream.close()

    def aclose(self) -> Any:
        self._seen.closed()
        return self._stream.aclose()

    def __enter__(self) -> Any:
        self._stream.__enter__()
        return self

    def __exit__(self, *thrown: Any) -> Any:  # noqa: PYI036 - handed on as they are
        self._left(thrown[1])
        return self._stream.__exit__(*thrown)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *thrown: Any) -> Any:  # noqa: PYI036 - handed on as they are
        self._left(thrown[1])
        return await self._stream.__aexit__(*thrown)

    def _left(self, error: BaseException | None) -> None:
        if error is None:
            self._seen.closed()
        else:
            self._seen.over(error)

    def __del__(self) -> None:
        try:
            self._seen.over(Closed("the stream was given up before its end"))
        except Exception:  # noqa: BLE001, S110 - at the end of the interpreter anything may be gone
            pass


def _ignore(_error: BaseException | None, _items: list[Any]) -> None:
    pass


def again(items: Any) -> Generator[Any, None, None]:
    """What an earlier attempt recorded of a stream."""
    yield from items if isinstance(items, list) else [items]


async def again_async(items: Any) -> AsyncGenerator[Any, None]:
    for item in items if isinstance(items, list) else [items]:
        yield item


def recorded(items: list[Any]) -> Any:
    """The output of a stream: its text, when it is one."""
    return "".join(items) if items and all(type(item) is str for item in items) else items
