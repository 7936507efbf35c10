"""Results that are not there yet: generators, coroutines, streams. Whoever gave one has ended when it is exhausted, closed or
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
    """By the type, and not of a mock: those answer to every name. A file is read by whoever gets it."""
    kind = type(value)
    if kind.__module__ == "unittest.mock" or hasattr(kind, "read"):
        return False
    return hasattr(kind, "__next__") or hasattr(kind, "__anext__")


def followed(value: Any, end: End, inside: Inside = nullcontext) -> Any:
    """The same stream or awaitable; `end` is called once, with the error or none, and the items that went by. `inside` is
    entered around each piece of its work."""
    if isinstance(value, Generator):
        return _generator(value, end, inside)
    if isinstance(value, AsyncGenerator):
        return _async_generator(value, end, inside)
    if is_awaitable(value):
        return _awaited(value, end, inside)
    return _Stream(value, end, inside)


def _generator(work: Generator[Any, Any, Any], end: End, inside: Inside) -> Generator[Any, Any, Any]:
    items: list[Any] = []
    error: BaseException | None = None
    try:
        send: Callable[[], Any] = lambda: next(work)
        while True:
            try:
                with inside():
                    item = send()
            except StopIteration as stop:
                return stop.value
            _keep(items, item)
            try:
                given = yield item
                send = (lambda: next(work)) if given is None else (lambda given=given: work.send(given))  # type: ignore[misc]
            except GeneratorExit:
                with inside():
                    work.close()
                error = Closed("the stream was closed before its end")
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is the work's to handle
                send = lambda thrown=thrown: work.throw(thrown)  # type: ignore[misc]
    except BaseException as raised:
        error = error or raised
        raise
    finally:
        end(error, items)


async def _async_generator(work: AsyncGenerator[Any, Any], end: End, inside: Inside) -> AsyncGenerator[Any, Any]:
    items: list[Any] = []
    error: BaseException | None = None
    try:
        send: Callable[[], Any] = lambda: work.__anext__()
        while True:
            try:
                with inside():
                    item = await send()
            except StopAsyncIteration:
                return
            _keep(items, item)
            try:
                given = yield item
                send = work.__anext__ if given is None else (lambda given=given: work.asend(given))  # type: ignore[misc]
            except GeneratorExit:
                error = Closed("the stream was closed before its end")
                with inside():
                    await work.aclose()
                raise
            except BaseException as thrown:  # noqa: BLE001 - it is the work's to handle
                send = lambda thrown=thrown: work.athrow(thrown)  # type: ignore[misc]
    except BaseException as raised:
        error = error or raised
        raise
    finally:
        end(error, items)


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

    def __init__(self, stream: Any, end: End, inside: Inside) -> None:
        self._stream, self._end, self._inside = stream, end, inside
        self._items: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            with self._inside():
                item = next(self._stream)
        except StopIteration:
            self._over(None)
            raise
        except BaseException as error:
            self._over(error)
            raise
        _keep(self._items, item)
        return item

    async def __anext__(self) -> Any:
        try:
            with self._inside():
                item = await self._stream.__anext__()
        except StopAsyncIteration:
            self._over(None)
            raise
        except BaseException as error:
            self._over(error)
            raise
        _keep(self._items, item)
        return item

    def close(self) -> Any:
        self._over(Closed("the stream was closed before its end"))
        return self._stream.close()

    def aclose(self) -> Any:
        self._over(Closed("the stream was closed before its end"))
        return self._stream.aclose()

    def __enter__(self) -> Any:
        self._stream.__enter__()
        return self

    def __exit__(self, *thrown: Any) -> Any:  # noqa: PYI036 - handed on as they are
        self._over(thrown[1] or Closed("the stream was closed before its end"))
        return self._stream.__exit__(*thrown)

    async def __aenter__(self) -> Any:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *thrown: Any) -> Any:  # noqa: PYI036 - handed on as they are
        self._over(thrown[1] or Closed("the stream was closed before its end"))
        return await self._stream.__aexit__(*thrown)

    def __del__(self) -> None:
        try:
            self._over(Closed("the stream was given up before its end"))
        except Exception:  # noqa: BLE001, S110 - at the end of the interpreter anything may be gone
            pass

    def _over(self, error: BaseException | None) -> None:
        end, self._end = self._end, _ignore
        end(error, self._items)


def _ignore(_error: BaseException | None, _items: list[Any]) -> None:
    pass


def _keep(items: list[Any], item: Any) -> None:
    if len(items) < _ITEMS_MAX:
        items.append(item)


def again(items: Any) -> Generator[Any, None, None]:
    """What an earlier attempt recorded of a stream."""
    yield from items if isinstance(items, list) else [items]


async def again_async(items: Any) -> AsyncGenerator[Any, None]:
    for item in items if isinstance(items, list) else [items]:
        yield item


def recorded(items: list[Any]) -> Any:
    """The output of a stream: its text, when it is one."""
    return "".join(items) if items and all(type(item) is str for item in items) else items
