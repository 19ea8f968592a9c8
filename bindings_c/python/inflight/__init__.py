# SPDX-License-Identifier: Apache-2.0
"""inflight for Python: continuous batching for language models on any OpenCL device.

    import inflight
    with inflight.Engine("model.gguf") as engine:
        print(engine.generate("Once upon a time", max_tokens=64, temperature=0))
        for output in engine.submit("Once upon a time", max_tokens=64):    # as it comes
            print(output.text, end="", flush=True)
        async for output in engine.submit("Once upon a time"): ...         # in a coroutine, without a thread

Needs the library only: no compiler, no other package. Options have the names of inflight.h, which are vLLM's.
Threads: an Engine may be used by any number; a Stream by one at a time, but for cancel(). close() waits for calls that run in
other threads, which end with ValueError, "the engine is closed". Processes: a forked child has no engines; it can make some where
its parent had made none (multiprocessing's "spawn" always can).
"""
from __future__ import annotations

import asyncio
import atexit
import collections.abc
import contextlib
import ctypes
import dataclasses
import json
import os
import threading
import typing

from . import _handles, _native, _values

_library = _handles.library
__version__: str = _library.inflight_version().decode()
__all__ = ["Engine", "Stream", "Output", "Error", "InvalidArgument", "NotFound", "Unsupported", "Rejected", "EngineFailed",
           "load_plugin", "set_log", "simulate"]


class Error(RuntimeError):
    """What the library refuses or cannot do; `status` is the number in inflight.h."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class InvalidArgument(Error, ValueError):
    """`field`: what of the request it is about ("prompt", "prompt_length": too many tokens, "stop_token_ids", "logit_bias",
    "n", "best_of"), or None."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        self.field: typing.Optional[str] = _library.inflight_last_error_field().decode() or None


class NotFound(Error):
    pass


class Unsupported(Error):
    pass


class Rejected(Error):
    """A queue limit or a deadline: submit later or elsewhere. `reason`: "max_requests", "queued_requests",
    "queued_tokens", "predicted_wait", "draining" or None; `retry_after_s`: when another attempt makes sense, 0 = not known."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)
        retry = ctypes.c_int32()
        self.reason: typing.Optional[str] = _native.REJECT_REASONS.get(_library.inflight_last_rejection(ctypes.byref(retry)))
        self.retry_after_s: int = retry.value


class EngineFailed(Error):
    """The engine has stopped for good."""


_ERRORS: dict[int, type[Error]] = {10: InvalidArgument, 11: NotFound, 12: Unsupported, 50: Rejected, 60: EngineFailed}


def _error(status: int, message: bytes) -> Error:
    return _ERRORS.get(status, Error)(status, message.decode(errors="replace"))


def _check(status: int) -> int:
    if status >= _native.FIRST_ERROR:
        raise _error(status, _library.inflight_last_error())
    return status


def _bytes(read: typing.Callable[..., int], capacity: int = 4096) -> bytes:
    """What a function with the buffer rule writes."""
    length = ctypes.c_size_t()
    while True:
        buffer = ctypes.create_string_buffer(capacity)
        if _check(read(buffer, capacity, ctypes.byref(length))) == _native.OK:
            return buffer.raw[: length.value]
        capacity = length.value + 4096  # it may grow between two calls


@dataclasses.dataclass
class Output:
    """What arrived of one answer. Counts are totals so far."""

    index: int
    text: str
    token_ids: list[int]
    logprobs: list[float]
    top_logprobs: list[dict[int, float]]  # one a token with the option logprobs
    finish_reason: typing.Optional[str]  # "stop", "length", "abort"; None: more is to come
    stop_reason: typing.Union[str, int, None]  # with "stop": the text or token id that ended it
    prompt_token_count: int
    cached_token_count: int
    output_token_count: int
    prompt_logprobs: list[float]  # of the second, third, ... prompt token
    embedding: typing.Optional[list[float]] = None  # with the option pooling
    preemption_count: int = 0  # these with a finish_reason; where one of `stop` ended it, as of the last token by then
    draft_token_count: int = 0  # tokens that were guessed (speculative_config)
    accepted_token_count: int = 0  # of these, what was drawn
    first_scheduled_s: float = 0.0  # seconds from submit to the first step, by the engine's clock; 0: none
    first_token_s: float = 0.0
    last_token_s: float = 0.0
    error: typing.Optional[str] = None  # with "abort": why the engine ended it (its time ran out); None: it was cancelled


def _tops(pointer: typing.Any, count: int, width: int) -> list[dict[int, float]]:
    if not pointer or width == 0:
        return []
    rows = [pointer[i * width : (i + 1) * width] for i in range(count)]
    return [{top.token_id: top.logprob for top in row if top.token_id >= 0} for row in rows]


_IDLE_MS = 5  # until a host_driven engine that rests is asked again


class Stream:
    """An answer on its way: iterate over it, in a loop or an `async for`; another loop goes on where one was left. It is
    cancelled by close(), which the end of a `with` calls, and when nothing holds it any longer. With host_driven=True to wait
    for it is to run steps, but not in an `async for`."""

    def __init__(self, engine: Engine, count: int) -> None:
        self._engine = engine  # which stays as long as this
        self._count = self._unfinished = count  # of the answers
        self._handle = _handles.StreamHandle(engine._handle.streams)
        self._event = _native.StreamEvent(struct_size=ctypes.sizeof(_native.StreamEvent))

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        _handles.release(getattr(self, "_handle", None))

    def cancel(self) -> None:
        """Asks to end it; what was made is still delivered. Any thread."""
        self._handle.cancel()

    def close(self) -> None:
        """Frees it; cancels the request if it is not finished. What was not read is an error from then on."""
        self._handle.close()

    def next(self, timeout_ms: int = -1) -> typing.Optional[Output]:
        """The next Output; None when the time ran out, which less than 0 never does. StopIteration: the answer is complete."""
        timeout_ms = _values.integer("timeout_ms", timeout_ms, ctypes.c_int32)
        return _handles.patiently(self._read_by_steps if self._engine._host_driven else self._read, timeout_ms)

    def _read(self, timeout_ms: int) -> typing.Optional[Output]:
        if self._unfinished:
            with self._handle as raw:
                status = _check(_library.inflight_stream_next(raw, timeout_ms, ctypes.byref(self._event)))
                self._handle.require_open()  # else it has been cancelled to be closed, which is not how the answer ends
                if status != _native.END_OF_STREAM:
                    return self._output() if status == _native.OK else None
            self._unfinished = 0
        self.close()
        raise StopIteration

    def _read_by_steps(self, timeout_ms: int) -> typing.Optional[Output]:
        output = self._read(0)
        if output is None and timeout_ms > 0:
            output = self._read(0 if self._engine.step() else min(timeout_ms, _IDLE_MS))
        return output

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Output:
        output = self.next()
        assert output is not None  # it waits without limit
        return output

    def _output(self) -> Output:
        event = self._event
        reason = _native.FINISH_REASONS[event.finish_reason]
        if reason is not None:
            self._unfinished -= 1
        if reason == "error":
            raise _error(event.error_status or 60, event.error or b"the engine failed")
        count = event.token_count
        stop = event.stop_text.decode() if event.stop_text else event.stop_token_id if event.stop_token_id >= 0 else None
        return Output(
            index=event.index, text=ctypes.string_at(event.text, event.text_length).decode() if event.text else "",
            token_ids=event.token_ids[:count], logprobs=event.logprobs[:count],
            top_logprobs=_tops(event.top_logprobs, count, event.top_count), finish_reason=reason,
            stop_reason=stop if reason == "stop" else None, prompt_token_count=event.prompt_token_count,
            cached_token_count=event.cached_token_count, output_token_count=event.output_token_count,
            prompt_logprobs=event.prompt_logprobs[: event.prompt_logprob_count] if event.prompt_logprobs else [],
            embedding=event.embedding[: event.embedding_size] if event.embedding else None,
            preemption_count=event.preemption_count, draft_token_count=event.draft_token_count,
            accepted_token_count=event.accepted_token_count, first_scheduled_s=event.first_scheduled_s,
            first_token_s=event.first_token_s, last_token_s=event.last_token_s,
            error=event.error.decode(errors="replace") if event.error else None)

    async def __aiter__(self) -> collections.abc.AsyncIterator[Output]:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            loop.call_soon_threadsafe(ready.set)

        if self._handle.waiter is None:
            self._handle.waiter = _handles.Waiter()
        waiter = self._handle.waiter
        waiter.wake = wake
        try:
            if self._unfinished:
                with self._handle as raw:
                    _check(_library.inflight_stream_set_notify(raw, waiter.notify, None))
            while True:
                ready.clear()
                while (output := self.next(0)) is not None:
                    yield output
                await ready.wait()
        except StopIteration:
            return
        finally:
            if waiter.wake is wake:  # else another loop reads it by now
                waiter.wake = None

    def _outputs(self) -> typing.Iterator[Output]:
        """Of whole answers: one that the engine cuts is an error."""
        for output in self:
            if output.error:
                raise Rejected(50, output.error)
            yield output

    def texts(self) -> list[str]:
        """The whole answers, as many as the option n. Rejected: the time of one ran out."""
        texts = [""] * self._count
        for output in self._outputs():
            texts[output.index] += output.text
        return texts

    def text(self) -> str:
        """The whole answer of a request with n = 1; see texts()."""
        if self._count > 1:
            raise ValueError(f"n is {self._count}, allowed for one text: 1; submit(...).texts() gives several")
        return self.texts()[0]


class Engine:
    """A model on a device, with one batch for all who ask. Options as inflight_engine_params_t: max_num_seqs,
    schedule_policy, kv_cache_dtype="q8_0", ...; `progress(fraction, what)` is told how far loading has come (return True to
    give up; what it raises does, too); `lora_modules`: {name: path} of LoRA adapters, which submit() takes as `lora_name`."""

    def __init__(self, model: _values.Path, **options: typing.Any) -> None:
        if _handles.forked():
            raise Unsupported(12, "an engine cannot be made in a process forked from one that has made engines, allowed: one "
                              "that is started, as by multiprocessing's \"spawn\"")
        self._stepping = threading.RLock()
        params = _native.EngineParams()
        _check(_library.inflight_params_init(_native.PARAMS_ENGINE, ctypes.byref(params), ctypes.sizeof(params)))
        progress: typing.Optional[typing.Callable[[float, str], object]] = options.pop("progress", None)
        raised: list[BaseException] = []

        def tell(_: object, fraction: float, what: bytes) -> int:
            with _handles.in_callback:
                try:
                    return 1 if progress is not None and progress(fraction, what.decode()) or interrupted else 0
                except BaseException as error:  # has no way through the library
                    raised.append(error)
                    return 1

        def set_loras(modules: typing.Optional[collections.abc.Mapping[str, _values.Path]], kept: list[object]) -> None:
            array = _values.strings("lora_modules", [
                _values.string("lora_modules", name) + b"=" + _values.path_of("lora_modules", path)
                for name, path in (modules or {}).items()])
            kept.append(array)
            params.lora_modules = ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p))
            params.lora_module_count = len(array)

        kept = _values.fill(params, {"model": _values.path_of("model", model), **options}, {"lora_modules": set_loras})
        params.progress = _native.ProgressFunction(tell)
        self._host_driven = bool(params.host_driven)
        self._handle = _handles.EngineHandle()
        try:
            with _handles.interrupts() as interrupted:
                status = _library.inflight_engine_create(ctypes.byref(params), ctypes.byref(self._handle.raw))
            if raised:
                raise raised.pop()
            _check(status)
        except BaseException:
            self.close()
            raise
        del kept

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        _handles.release(getattr(self, "_handle", None))

    def close(self) -> None:
        """Ends it, and its streams before it. Waits for calls in other threads, which are errors then."""
        self._handle.close()

    def _call(self, function: typing.Callable[..., int], *arguments: object) -> int:
        """A function of the library with this engine."""
        with self._handle as raw:
            return _check(function(raw, *arguments))

    def _bytes(self, function: typing.Callable[..., int], *arguments: object) -> bytes:
        """What such a function writes by the buffer rule."""
        return _bytes(lambda *out: self._call(function, *arguments, *out))

    def _text(self, function: typing.Callable[..., int], *arguments: object) -> str:
        return self._bytes(function, *arguments).decode(errors="replace")

    def _token_ids(self, function: typing.Callable[..., int], capacity: int, *arguments: object) -> list[int]:
        """What such a function writes, once where there are at most `capacity` ids."""
        count = ctypes.c_size_t()
        while True:
            ids = (ctypes.c_int32 * capacity)()
            if self._call(function, *arguments, ids, capacity, ctypes.byref(count)) == _native.OK:
                return ids[: count.value]
            capacity = count.value

    def submit(self, prompt: typing.Union[_values.Text, typing.Iterable[int]], **options: typing.Any) -> Stream:
        """One request; returns at once with its Stream. `prompt`: text or token ids. Options as inflight_request_params_t:
        max_tokens, temperature, top_p, top_k, min_p, seed, n, stop, stop_token_ids, logit_bias {id: bias}, bad_words,
        structured_json, structured_regex, lora_name, prediction, ..."""
        params = _native.RequestParams()
        _check(_library.inflight_params_init(_native.PARAMS_REQUEST, ctypes.byref(params), ctypes.sizeof(params)))

        def texts(name: str, count_name: str) -> _values.Setter:
            def put(values: typing.Any, kept: list[object]) -> None:
                several = [values] if isinstance(values, _values.TEXTS) else [] if values is None else list(values)
                array = _values.strings(name, several)
                kept.append(array)
                setattr(params, name, ctypes.cast(array, ctypes.POINTER(ctypes.c_char_p)))
                setattr(params, count_name, len(array))
            return put

        def ids(name: str, count_name: str) -> _values.Setter:
            def put(values: typing.Any, _: list[object]) -> None:
                array = _values.ids_of(name, [] if values is None else values)
                setattr(params, name, array)
                setattr(params, count_name, len(array))
            return put

        def bias(values: typing.Any, _: list[object]) -> None:
            values = dict(values or {})
            params.logit_bias_ids = _values.ids_of("logit_bias", values.keys())
            params.logit_biases = (ctypes.c_float * len(values))(*values.values())
            params.logit_bias_count = len(values)

        special = {"stop": texts("stop", "stop_count"), "bad_words": texts("bad_words", "bad_word_count"),
                   "structured_choice": texts("structured_choice", "structured_choice_count"),
                   "dry_sequence_breakers": texts("dry_sequence_breakers", "dry_sequence_breaker_count"),
                   "stop_token_ids": ids("stop_token_ids", "stop_token_id_count"), "logit_bias": bias}
        if isinstance(prompt, _values.TEXTS):
            data = _values.utf8(prompt)
            params.prompt, params.prompt_length = data, len(data)
        else:
            ids("prompt_ids", "prompt_id_count")(list(prompt), [])
        kept = _values.fill(params, options, special)
        stream = Stream(self, params.n)
        try:
            self._call(_library.inflight_engine_submit, ctypes.byref(params), ctypes.byref(stream._handle.raw))
        except BaseException:
            stream.close()
            raise
        del kept  # read before the call returned
        return stream

    def generate(self, prompt: typing.Union[_values.Text, typing.Iterable[int]], **options: typing.Any) -> str:
        """The whole text of one answer; submit(...).texts() gives those of several."""
        with self.submit(prompt, **options) as stream:
            return stream.text()

    def rerank(self, query: _values.Text, documents: typing.Iterable[_values.Text]) -> list[float]:
        """How relevant each document is for the query, 0 to 1; of a reranker, or with classifier_from_token="no,yes"."""
        with contextlib.ExitStack() as kept:
            streams = [kept.enter_context(self.submit(self.rerank_tokenize(query, document), pooling="classify"))
                       for document in documents]
            return [(list(stream._outputs())[-1].embedding or [0.0])[0] for stream in streams]

    def embed(self, prompt: typing.Union[_values.Text, typing.Iterable[int]], pooling: str = "model") -> list[float]:
        """The prompt's embedding, its length not normalised; pooling: "last", "mean" or as the model's file states."""
        with self.submit(prompt, pooling=pooling) as stream:
            return list(stream._outputs())[-1].embedding or []

    def reset_prefix_cache(self) -> None:
        """Forgets the stored prefixes that no running request uses."""
        self._call(_library.inflight_engine_reset_prefix_cache)

    def load_lora_adapter(self, lora_name: str, lora_path: _values.Path) -> None:
        """From now on requests may name it; the engine needs max_loras or lora_modules."""
        self._call(_library.inflight_engine_load_lora_adapter, _values.string("lora_name", lora_name),
                   _values.path_of("lora_path", lora_path))

    def unload_lora_adapter(self, lora_name: str) -> None:
        """Requests that use it go on."""
        self._call(_library.inflight_engine_unload_lora_adapter, _values.string("lora_name", lora_name))

    def step(self) -> bool:
        """With host_driven=True: one step in this thread; False when nothing is to be done."""
        with self._stepping:
            return self._call(_library.inflight_engine_step) == _native.OK

    def tokenize(self, text: _values.Text, add_special_tokens: bool = True, parse_special_tokens: bool = True) -> list[int]:
        data = _values.utf8(text)
        return self._token_ids(_library.inflight_tokenize, len(data) + 8, data, len(data), add_special_tokens,
                               parse_special_tokens)

    def infill_tokenize(self, prefix: _values.Text, suffix: _values.Text, add_special_tokens: bool = True,
                        parse_special_tokens: bool = True) -> list[int]:
        """The prompt for what stands between two texts, of a model that was trained to insert."""
        before, behind = _values.utf8(prefix), _values.utf8(suffix)
        return self._token_ids(_library.inflight_infill_tokenize, len(before) + len(behind) + 16, before, len(before), behind,
                               len(behind), add_special_tokens, parse_special_tokens)

    def rerank_tokenize(self, query: _values.Text, document: _values.Text) -> list[int]:
        """What a reranker judges: submit it with pooling="classify"."""
        asked, text = _values.utf8(query), _values.utf8(document)
        return self._token_ids(_library.inflight_rerank_tokenize, len(asked) + len(text) + 128, asked, len(asked), text,
                               len(text))

    def detokenize(self, ids: typing.Sequence[int]) -> str:
        array = _values.ids_of("ids", ids)
        return self._text(_library.inflight_detokenize, array, len(array))

    def token_text(self, token_id: int) -> bytes:
        """What one token stands for: its bytes, which need not be whole characters, or a control token's name."""
        token_id = _values.integer("token_id", token_id, ctypes.c_int32)
        return self._bytes(_library.inflight_token_text, token_id)

    def chat_render(self, messages: typing.Sequence[typing.Mapping[str, typing.Any]], **variables: typing.Any) -> str:
        """A conversation as prompt text, by the model's chat template; submit it with add_special_tokens=False."""
        data = json.dumps({"messages": messages, "add_generation_prompt": True, **variables}).encode()
        return self._text(_library.inflight_chat_render, data, len(data))

    def stats(self) -> dict[str, typing.Union[int, float]]:
        """The counters as a dict."""
        stats = _native.Stats(struct_size=ctypes.sizeof(_native.Stats))
        self._call(_library.inflight_engine_stats, ctypes.byref(stats))
        names = (field[0] for field in stats._fields_)
        return {name: getattr(stats, name) for name in names if not name.startswith(("reserved", "struct_size"))}

    def info(self) -> typing.Any:
        return json.loads(self._text(_library.inflight_engine_info_json))

    def metrics_text(self) -> str:
        return self._text(_library.inflight_engine_metrics_text)

    def trace_json(self) -> str:
        """The kernel launches since creation, with the option profile, as a Chrome trace; without it none."""
        return self._text(_library.inflight_engine_trace_json)

    def steps(self, since: int = 0) -> typing.Any:
        """The latest steps of the batch; see inflight_engine_steps_json()."""
        since = _values.integer("since", since, ctypes.c_uint64)
        return json.loads(self._text(_library.inflight_engine_steps_json, since))

    def set_policy(self, spec: str) -> None:
        self._call(_library.inflight_engine_set_policy, _values.string("spec", spec))

    def set_policy_params(self, spec: str) -> None:
        """Parameters of a policy in force, "name:key=value,..."."""
        self._call(_library.inflight_engine_set_policy_params, _values.string("spec", spec))

    def configure(self, **limits: typing.Any) -> None:
        """Changes limits while requests run: max_num_seqs, max_num_batched_tokens, ...; see inflight_engine_configure()."""
        data = json.dumps(limits).encode()
        self._call(_library.inflight_engine_configure, data, len(data))

    def pause(self, everything: bool = False) -> None:
        """Nobody new is started; with `everything` no step is made. Ends with resume()."""
        self._call(_library.inflight_engine_pause, _native.PAUSE_ALL if everything else _native.PAUSE_NEW)

    def resume(self) -> None:
        """Ends a pause, and takes requests in again after drain()."""
        self._call(_library.inflight_engine_resume)

    def drain(self, timeout: typing.Optional[float] = None) -> bool:
        """Takes no more requests and waits, `timeout` seconds at most, until the last has ended: whether it has."""
        milliseconds = -1 if timeout is None else int(min(max(timeout * 1000, 0), (1 << 31) - 1))

        def wait(portion: int) -> typing.Optional[bool]:
            if self._call(_library.inflight_engine_drain, portion) == _native.OK:
                return True
            return False if self._host_driven or self.stats()["hung"] else None
        return bool(_handles.patiently(wait, milliseconds))


_log: typing.Any = None  # called as long as it lives


def set_log(function: typing.Optional[typing.Callable[[str, str], object]], level: str = "info") -> None:
    """The library's log lines of at least `level` ("debug", "info", "warning", "error") go to function(level, message) from
    now on, from any thread; None silences them, as at the beginning. It must not call into the library."""
    global _log
    if _handles.forked():
        return  # the lock of the log may be held for ever
    if level not in _native.LOG_LEVELS:
        raise ValueError(f"level is {level!r}, allowed: {', '.join(_native.LOG_LEVELS)}")
    names = list(_native.LOG_LEVELS)

    def log(_: object, number: int, message: int, length: int) -> None:
        assert function is not None
        with _handles.in_callback:
            function(names[number], ctypes.string_at(message, length).decode(errors="replace"))

    call = _native.LogFunction(log) if function is not None else _native.LogFunction()
    _library.inflight_set_log(call, None, _native.LOG_LEVELS[level])
    _log = call  # the one before is called no more


atexit.register(set_log, None)  # no thread may call an interpreter that ends


def load_plugin(path: _values.Path) -> None:
    """Makes a plugin file's policies known by name."""
    _check(_library.inflight_plugin_load(_values.path_of("path", path)))


def simulate(**spec: typing.Any) -> typing.Any:
    """Runs the scheduler in virtual time; keys as `inflight sim`'s options."""
    data = json.dumps(spec).encode()
    return json.loads(_bytes(lambda *out: _library.inflight_sim_run(data, len(data), *out), 1 << 20))
