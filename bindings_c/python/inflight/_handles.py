# SPDX-License-Identifier: Apache-2.0
"""The library's engines and streams, from the first call to the last: one is freed when nobody is in a call with it, streams
before their engine, by a thread that may call the library, and never in a forked child."""
from __future__ import annotations

import contextlib
import ctypes
import math
import os
import signal
import threading
import time
import typing
import weakref

from . import _native

library = _native.load()

_called: list[int] = []  # threads in a function that the library has called
_engines: weakref.WeakSet[EngineHandle] = weakref.WeakSet()
_used = False  # an engine was made, so that the library and the driver have threads
_forked = False  # from a process that had them: here they are not


def forked() -> bool:
    """Whether this process is one in which no engine can be made or used."""
    return _forked


class _Callback:
    """`with in_callback:` is around all that the library calls. To enter it allocates nothing that a garbage collection
    could come of."""

    def __enter__(self) -> None:
        _called.append(threading.get_ident())

    def __exit__(self, *_: object) -> None:
        _called.remove(threading.get_ident())


in_callback = _Callback()


class _Handle:
    """`with handle as raw:` is a call, which is refused once the handle is to be freed."""

    def __init__(self) -> None:
        self.raw: typing.Optional[ctypes.c_void_p] = ctypes.c_void_p()  # None: freed
        self._refusal = ""  # why no call is taken any more
        self._begin()

    def _begin(self) -> None:
        self.lock = threading.RLock()  # of the fields; a signal's handler may come in anywhere
        self._left = threading.Condition(self.lock)
        self._callers: list[int] = []  # threads

    def __enter__(self) -> typing.Optional[ctypes.c_void_p]:
        with self.lock:
            self.require_open()
            self._callers.append(threading.get_ident())
        return self.raw

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self._callers.remove(threading.get_ident())
            if self._refusal:
                self._left.notify_all()

    def require_open(self) -> None:
        if self._refusal:
            raise ValueError(self._refusal)

    def refuse(self, why: str) -> None:
        """Every call from now on."""
        with self.lock:
            self._refusal = self._refusal or why

    def left(self) -> bool:
        """Waits until no other thread is in a call. False: this one is, whose signal's handler it runs.
        REQUIRES: calls are refused."""
        me = threading.get_ident()
        with self.lock:
            while any(caller != me for caller in self._callers):
                self._left.wait()
            return not self._callers

    def take(self) -> typing.Optional[ctypes.c_void_p]:
        """What is to be freed, and from now on nobody's."""
        raw, self.raw = self.raw, None
        return raw

    def forget(self) -> None:
        self._begin()  # the lock may be another thread's, which is not here
        self.refuse("the engine is not usable in a forked process")
        self.take()


class Waiter:
    """The coroutine that waits for a stream's news, if one does."""

    def __init__(self) -> None:
        self.wake: typing.Optional[typing.Callable[[], object]] = None
        self.notify = _native.NotifyFunction(self._notify)

    def _notify(self, _: object) -> None:
        with in_callback:
            self.tell()

    def tell(self) -> None:
        wake = self.wake
        try:
            if wake is not None:
                wake()
        except RuntimeError:  # the loop has been closed
            pass


class StreamHandle(_Handle):
    """Its engine knows it until it is freed, also when the Stream is garbage already: of a cycle of garbage Python may
    finalize the engine first."""

    def __init__(self, open_ones: set[StreamHandle]) -> None:
        super().__init__()
        self.waiter: typing.Optional[Waiter] = None
        self._open_ones = open_ones
        open_ones.add(self)

    def cancel(self) -> None:
        with self.lock:
            if self.raw:
                library.inflight_stream_cancel(self.raw)

    def refuse(self, why: str) -> None:
        with self.lock:
            super().refuse(why)
            if self._callers:
                self.cancel()  # they wait no longer

    def close(self, why: str = "the stream is closed") -> None:
        with self.lock:
            if self.raw is None:
                return
            self.refuse(why)
            if not self.left():
                return
            library.inflight_stream_destroy(self.take())
        self._open_ones.discard(self)
        if self.waiter is not None:
            self.waiter.tell()


class EngineHandle(_Handle):
    def __init__(self) -> None:
        global _used
        super().__init__()
        self.streams: set[StreamHandle] = set()
        _engines.add(self)
        _used = True

    def close(self) -> None:
        why = "the engine is closed"
        self.refuse(why)
        for stream in list(self.streams):
            stream.refuse(why)
        if not self.left():
            return
        for stream in list(self.streams):  # from now on there are no more
            stream.close(why)
        with self.lock:
            if self.raw is not None and not self.streams:
                library.inflight_engine_destroy(self.take())

    def forget(self) -> None:
        super().forget()
        for stream in list(self.streams):
            stream.forget()


def release(handle: typing.Union[StreamHandle, EngineHandle, None]) -> None:
    """close() as a finalizer may do it: garbage is collected by whichever thread comes along, so also by the engine's own, which
    cannot wait for itself, and in callbacks, under the library's locks."""
    if handle is None or handle.raw is None:
        return
    if threading.get_ident() in _called or isinstance(threading.current_thread(), threading._DummyThread):
        threading.Thread(target=handle.close).start()
    else:
        handle.close()


_Result = typing.TypeVar("_Result")
_PORTION_MS = 200


def patiently(wait: typing.Callable[[int], typing.Optional[_Result]], timeout_ms: int) -> typing.Optional[_Result]:
    """What wait(milliseconds) gives; None when the time ran out, which less than 0 never does. It is called for a portion at a
    time, between which Ctrl-C and close() are heard."""
    end = time.monotonic() + timeout_ms / 1000
    while True:
        left = math.ceil((end - time.monotonic()) * 1000) if timeout_ms >= 0 else _PORTION_MS
        if (result := wait(min(max(left, 0), _PORTION_MS))) is not None or 0 <= timeout_ms and end <= time.monotonic():
            return result


@contextlib.contextmanager
def interrupts() -> typing.Iterator[list[int]]:
    """Around a call with callbacks: Ctrl-C is noted meanwhile and raised behind it. On its way into a callback a
    KeyboardInterrupt would get lost."""
    heard: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield heard
        return
    signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield heard
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if heard:
            raise KeyboardInterrupt


def _after_fork() -> None:
    global _forked
    _forked = _used
    for engine in list(_engines):
        engine.forget()


os.register_at_fork(after_in_child=_after_fork)
