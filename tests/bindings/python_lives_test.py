#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Engines and streams of the Python package from the first call to the last: closed while others use them, left to the garbage
collection in callbacks, inherited by a fork, interrupted. What may hang or crash is a script in a process of its own.
    python_lives_test.py BUILD SOURCE [unittest arguments]"""
import asyncio
import os
import pathlib
import subprocess
import sys
import threading
import unittest

BUILD, SOURCE = pathlib.Path(sys.argv.pop(1)).resolve(), pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = SOURCE / "models/tinyworld/tinyworld-q8_0.gguf"
os.environ["INFLIGHT_LIBRARY"] = str(BUILD / "lib/libinflight.so")
sys.path.insert(0, str(SOURCE / "bindings_c/python"))
sys.dont_write_bytecode = True
import inflight  # noqa: E402

LONG = {"max_tokens": 400, "ignore_eos": True}
HEAD = f"""
import gc, multiprocessing, os, signal, sys, threading, time
import inflight
MODEL, LONG = {str(MODEL)!r}, {LONG!r}

def told(function, *arguments, **options):
    try:
        return function(*arguments, **options)
    except BaseException as error:
        return type(error).__name__ + ": " + str(error)

def interrupted(function, *arguments):  # a moment later
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    return function(*arguments)
"""


def script(code):
    """What it prints, as lines."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "bindings_c/python"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["timeout", "-s", "KILL", "120", sys.executable, "-c", HEAD + code],  # with its children
                          capture_output=True, text=True, env=environment)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"it ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


class Closing(unittest.TestCase):
    def test_an_engine_that_threads_use(self):
        lines = script("""
engine = inflight.Engine(MODEL, max_num_seqs=4)
begun, ends = threading.Semaphore(0), []

def work(call):
    begun.release()
    while True:
        try:
            call()
        except inflight.Rejected:  # it drains
            pass
        except ValueError as error:
            return ends.append(str(error))

def read():
    text = engine.generate("Once upon a time", temperature=1, **LONG)
    assert len(text) > 100, text

paused = inflight.Engine(MODEL, max_num_seqs=4)
paused.pause(everything=True)
threads = [threading.Thread(target=work, args=(call,)) for call in (
    *[read] * 6, lambda: engine.submit("Once", **LONG), engine.stats, engine.metrics_text,
    *[lambda: paused.generate("Once")] * 6, lambda: paused.embed("Once"))]
for thread in threads:
    thread.start()
    begun.acquire()
drains = threading.Thread(target=work, args=(paused.drain,))  # takes no requests any more
time.sleep(0.2)
drains.start()
begun.acquire()
engine.close()
paused.close()
for thread in (*threads, drains):
    thread.join()
print(len(ends), set(ends))
""")
        self.assertEqual(lines, ["17 {'the engine is closed'}"])

    def test_a_stream_that_a_thread_reads(self):
        lines = script("""
with inflight.Engine(MODEL) as engine:
    engine.pause(everything=True)
    for _ in range(20):
        stream = engine.submit("Once", **LONG)
        reader = threading.Thread(target=lambda: print(told(stream.next)))
        reader.start()
        stream.close()
        reader.join()
""")
        self.assertEqual(lines, ["ValueError: the stream is closed"] * 20)

    # Its thread is in the call, so that waiting for its end would be for ever.
    def test_by_a_signals_handler(self):
        lines = script("""
for calls in (1, 2):
    with inflight.Engine(MODEL) as engine:
        engine.pause(everything=True)
        signal.signal(signal.SIGALRM, lambda *_: [engine.close() for _ in range(calls)])
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        print(told(engine.generate, "Once"))
""")
        self.assertEqual(lines, ["ValueError: the engine is closed"] * 2)

    def test_wakes_coroutines(self):
        async def read(stream):
            return [output async for output in stream]

        async def close(closed_by, message):
            with inflight.Engine(MODEL) as engine:
                engine.pause(everything=True)
                streams = [engine.submit("Once", **LONG) for _ in range(3)]
                readers = [asyncio.ensure_future(read(stream)) for stream in streams]
                await asyncio.sleep(0.1)  # they wait
                closed_by(engine, streams)
                for reader in readers:
                    with self.assertRaisesRegex(ValueError, message):
                        await asyncio.wait_for(reader, 60)

        asyncio.run(close(lambda engine, _: engine.close(), "the engine is closed"))
        asyncio.run(close(lambda _, streams: [stream.close() for stream in streams], "the stream is closed"))
        asyncio.run(close(lambda engine, _: threading.Thread(target=engine.close).start(), "the engine is closed"))

    def test_an_answer_is_complete_by_its_finish_reason_only(self):
        for closes in ("engine", "stream"):
            engine = inflight.Engine(MODEL)
            left, read = engine.submit("Once", **LONG), engine.submit("Once", max_tokens=3, n=2, temperature=1)
            next(left)
            while sum(output.finish_reason is not None for output in iter(read.next, None)) < 2:
                pass
            for closed in (engine,) if closes == "engine" else (left, read):
                closed.close()
            for unfinished in (left.text, left.next, lambda: list(left), lambda: asyncio.run(left.__aiter__().__anext__())):
                with self.assertRaisesRegex(ValueError, f"the {closes} is closed"):
                    unfinished()
            self.assertEqual(list(read), [])
            left.cancel()  # does nothing any more
            engine.close()

    # A submit that is under way has its stream closed, too.
    def test_waits_for_a_submit(self):
        engine, submit, streams = inflight.Engine(MODEL), inflight._library.inflight_engine_submit, []
        closer = threading.Thread(target=engine.close)

        def slow(*arguments):
            closer.start()
            closer.join(0.3)
            self.assertTrue(closer.is_alive())
            return submit(*arguments)

        inflight._library.inflight_engine_submit = slow
        try:
            streams.append(engine.submit("Once", **LONG))
        finally:
            inflight._library.inflight_engine_submit = submit
        closer.join()
        with self.assertRaisesRegex(ValueError, "the engine is closed"):
            streams[0].text()


class Garbage(unittest.TestCase):
    # An engine in a cycle is found by whichever thread collects, in a function that the library calls, too.
    CYCLE = """
destroyed = threading.Event()
destroy = inflight._library.inflight_engine_destroy

def noted(handle):
    assert threading.current_thread().name.startswith("Thread-"), threading.current_thread()
    destroy(handle)
    destroyed.set()

inflight._library.inflight_engine_destroy = noted

class App:
    def __init__(self, **options):
        self.engine = inflight.Engine(MODEL, log_interval_steps=1, **options)
        self.stream = self.engine.submit("Once", **LONG)
        self.itself = self

gc.disable()
"""

    def test_in_the_log_of_the_engines_own_thread(self):
        self.assertEqual(script(self.CYCLE + """
App()
inflight.set_log(lambda *_: gc.collect())
print(destroyed.wait(60))
"""), ["True"])

    def test_in_the_log_of_a_step_and_in_progress(self):
        self.assertEqual(script(self.CYCLE + """
other = inflight.Engine(MODEL, host_driven=True, log_interval_steps=1)
App(host_driven=True)
inflight.set_log(lambda *_: gc.collect())
print(other.generate("Once", max_tokens=3), destroyed.wait(60))
inflight.set_log(None)
destroyed.clear()
App(host_driven=True)
third = inflight.Engine(MODEL, host_driven=True, progress=lambda *_: gc.collect() < 0)
print(destroyed.wait(60))
inflight._library.inflight_engine_destroy = destroy
"""), [" upon a time True", "True"])

    def test_in_a_notification(self):
        self.assertEqual(script(self.CYCLE + """
import asyncio
App()
other = inflight.Engine(MODEL)
other.pause(everything=True)

async def read():
    stream = other.submit("Once", max_tokens=4)
    reading = asyncio.ensure_future(stream.__aiter__().__anext__())
    while stream._handle.waiter is None:
        await asyncio.sleep(0)
    wake = stream._handle.waiter.wake
    stream._handle.waiter.wake = lambda: (gc.collect(), wake())
    other.resume()
    return bool((await reading).text)

print(asyncio.run(read()), destroyed.wait(60))
inflight._library.inflight_engine_destroy = destroy
"""), ["True True"])

    def test_of_what_was_not_made(self):
        self.assertEqual(script("""
print(told(inflight.Engine), told(inflight.Engine, MODEL, no_such=1), told(inflight.Stream), sep="\\n")
""")[1:2], ["TypeError: unknown option 'no_such'"])


class Forks(unittest.TestCase):
    def test_a_child_has_no_engines(self):
        lines = script("""
engine = inflight.Engine(MODEL)
inflight.set_log(lambda *_: None)
stream = engine.submit("Once", max_tokens=2)
if os.fork() == 0:
    print(told(engine.generate, "Once"), told(stream.next), told(inflight.Engine, MODEL), sep="\\n")
    stream.cancel()
    del stream
    engine.close()
    inflight.set_log(print)
    sys.exit(3)
print(os.WEXITSTATUS(os.wait()[1]), stream.text())

def square(number):
    global engine
    engine = None
    return number * number

with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(square, [1, 2, 3]))
""")
        self.assertEqual(lines[:2], ["ValueError: the engine is not usable in a forked process"] * 2)
        self.assertRegex(lines[2], "^Unsupported: an engine cannot be made in a process forked .*spawn")
        self.assertEqual(lines[3:], ["3  upon a", "[1, 4, 9]"])

    def test_a_child_of_a_process_without_engines_makes_its_own(self):
        lines = script("""
if os.fork() == 0:
    print(inflight.Engine(MODEL).generate("Once", max_tokens=3))
    sys.exit()
print(os.wait()[1])
""")
        self.assertEqual(lines, [" upon a time", "0"])


class Interrupts(unittest.TestCase):
    def test_end_what_waits(self):
        lines = script("""
for options in {}, {"host_driven": True}:
    with inflight.Engine(MODEL, **options) as engine:
        engine.pause(everything=True)
        for call in engine.generate, engine.embed:
            print(told(interrupted, call, "Once"))
        stream = engine.submit("Once")
        print(told(interrupted, next, stream))
        if not options:
            print(told(interrupted, engine.drain))
        engine.resume()
        print(engine.generate("Once", max_tokens=3), engine.stats()["requests_aborted"])
""")
        answered = [" upon a time 2"]
        self.assertEqual(lines, ["KeyboardInterrupt: "] * 4 + answered + ["KeyboardInterrupt: "] * 3 + answered)

    # While the library works and while the function does.
    def test_end_loading(self):
        lines = script("""
def load(progress):
    begun = threading.Event()
    thread = threading.Thread(target=lambda: (begun.wait(), os.kill(os.getpid(), signal.SIGINT)))
    thread.start()
    inflight.Engine(MODEL, progress=lambda *_: progress(begun))
    thread.join()  # should it be late

for progress in lambda begun: begun.set(), lambda begun: begun.set() or time.sleep(0.5):
    print(told(load, progress))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
""")
        self.assertEqual(lines, ["KeyboardInterrupt: "] * 2 + ["True"])

    def test_what_progress_raises_ends_loading(self):
        calls = []

        def fail(*what):
            calls.append(what)
            raise ZeroDivisionError("in progress")

        with self.assertRaisesRegex(ZeroDivisionError, "in progress"):
            inflight.Engine(MODEL, progress=fail)
        self.assertEqual(len(calls), 1)
        with self.assertRaises(inflight.Rejected):
            inflight.Engine(MODEL, progress=lambda *_: True)
        with inflight.Engine(MODEL, host_driven=True, progress=None, lora_modules=None) as engine:
            self.assertEqual(engine.generate("Once", max_tokens=3), " upon a time")


if __name__ == "__main__":
    unittest.main(verbosity=2)
