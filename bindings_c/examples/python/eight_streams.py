#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight prompts in one continuous batch through ctypes, one thread a stream.   eight_streams.py LIBRARY MODEL.gguf"""
import concurrent.futures
import ctypes
import sys

PROMPTS = ["Once upon a time", "One day, a little fox", "There was a kind queen", "Lily and Ben went to the park",
           "The old bear was hungry", "In a small house near the sea", "A bird sat in the tree", "Tom had a red ball"]
OK, END_OF_STREAM = 0, 2
ENGINE, REQUEST = 1, 2  # INFLIGHT_PARAMS_*


class EngineParams(ctypes.Structure):  # the beginning of inflight_engine_params_t; the rest keeps its defaults
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32), ("model", ctypes.c_char_p),
                ("device", ctypes.c_char_p), ("rest", ctypes.c_uint8 * 1000)]


class RequestParams(ctypes.Structure):  # the beginning of inflight_request_params_t
    _fields_ = [("struct_size", ctypes.c_uint32), ("max_tokens", ctypes.c_int32), ("prompt", ctypes.c_char_p),
                ("prompt_length", ctypes.c_size_t), ("rest", ctypes.c_uint8 * 1000)]


class StreamEvent(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("finish_reason", ctypes.c_int32),
                ("token_ids", ctypes.POINTER(ctypes.c_int32)), ("logprobs", ctypes.POINTER(ctypes.c_float)),
                ("token_count", ctypes.c_size_t), ("text", ctypes.c_char_p), ("text_length", ctypes.c_size_t),
                ("error", ctypes.c_char_p), ("prompt_token_count", ctypes.c_int32),
                ("cached_token_count", ctypes.c_int32), ("output_token_count", ctypes.c_int32),
                ("preemption_count", ctypes.c_int32), ("rest", ctypes.c_uint8 * 1000)]


def main():
    library = ctypes.CDLL(sys.argv[1])
    library.inflight_last_error.restype = ctypes.c_char_p

    def check(status):
        if status >= 10:
            sys.exit(f"inflight: {library.inflight_last_error().decode()}")
        return status

    def params(struct, kind):
        result = struct()
        check(library.inflight_params_init(kind, ctypes.byref(result), ctypes.c_size_t(ctypes.sizeof(struct))))
        return result

    engine_params = params(EngineParams, ENGINE)
    engine_params.model = sys.argv[2].encode()
    engine = ctypes.c_void_p()
    check(library.inflight_engine_create(ctypes.byref(engine_params), ctypes.byref(engine)))

    def answer(prompt):
        request = params(RequestParams, REQUEST)
        request.prompt, request.max_tokens = prompt.encode(), 48
        stream = ctypes.c_void_p()
        check(library.inflight_engine_submit(engine, ctypes.byref(request), ctypes.byref(stream)))
        event = StreamEvent(struct_size=ctypes.sizeof(StreamEvent))
        text = b""
        try:
            while check(library.inflight_stream_next(stream, -1, ctypes.byref(event))) != END_OF_STREAM:
                if event.error:
                    sys.exit(f"inflight: {event.error.decode()}")
                text += event.text
        finally:
            library.inflight_stream_destroy(stream)
        return text.decode()

    try:
        with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as threads:  # whose map() raises what a thread does
            for index, text in enumerate(threads.map(answer, PROMPTS)):
                print(f"[{index + 1}] {PROMPTS[index]}{text}")
    finally:
        library.inflight_engine_destroy(engine)


main()
