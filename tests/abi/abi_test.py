#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The library as its users meet it: headers in every language version, exported symbols and dependencies equal to their
lists, an installed prefix from which programs build through pkg-config and CMake and run.
    abi_test.py BUILD_DIR SOURCE_DIR"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE = (pathlib.Path(path).resolve() for path in sys.argv[1:3])
MODEL = SOURCE / "models/tinyworld/tinyworld-q8_0.gguf"
NEEDED = {"libOpenCL.so.1", "libpcre2-8.so.0", "libutf8proc.so.2", "libfmt.so.9", "libxxhash.so.0",
          "libmd.so.0", "libstdc++.so.6", "libgcc_s.so.1", "libm.so.6", "libc.so.6", "ld-linux-x86-64.so.2"}


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


# A C++ program up to where it has an engine and a request.
REQUEST_PROGRAM = """#include <inflight/inflight.hpp>
#include <cstdio>
int main(int, char** argv) {
  inflight::EngineOptions options;
  options.model = argv[1];
  inflight::Engine engine(options);
  inflight::RequestOptions request;
  request.prompt = "Once";
  request.params.max_tokens = 3;
"""

# Has the library for as long as a thread lives that has an engine with a policy from a file, then ends.
UNLOADING_PROGRAM = """#define _XOPEN_SOURCE 700
#include <dlfcn.h>
#include <inflight/inflight.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void* library;
static inflight_status_t (*create)(const inflight_engine_params_t*, inflight_engine_t**);
static void (*destroy)(inflight_engine_t*);
static inflight_status_t (*load)(const char*);

static void* have_engine(void* arguments) {
  char** const argv = arguments;
  inflight_engine_params_t params = INFLIGHT_ENGINE_PARAMS_INIT;
  inflight_engine_t* engine;
  library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) exit(1);
  *(void**)&create = dlsym(library, "inflight_engine_create");
  *(void**)&destroy = dlsym(library, "inflight_engine_destroy");
  *(void**)&load = dlsym(library, "inflight_plugin_load");
  params.model = argv[2];
  params.schedule_policy = "fcfs";
  if (load(argv[3]) != INFLIGHT_OK || create(&params, &engine) != INFLIGHT_OK) exit(2);
  destroy(engine);
  return NULL;
}

static void own_handler(int number) { _exit(number == SIGSEGV ? 42 : 4); }

int main(int argc, char** argv) {
  pthread_t thread;
  signal(SIGSEGV, own_handler);
  pthread_create(&thread, NULL, have_engine, argv);
  pthread_join(thread, NULL);  // whose own variables would keep the library
  if (dlclose(library) != 0) return 3;
  if (argc == 5 && strcmp(argv[4], "quick_exit") == 0) quick_exit(7);
  *(volatile int*)8 = 1;
  return 5;
}
"""


class Headers(unittest.TestCase):
    def test_compile_in_every_language_version(self):
        for language in (["gcc", "-std=c11"], ["g++", "-xc++", "-std=c++11"], ["g++", "-xc++", "-std=c++17"],
                         ["g++", "-xc++", "-std=c++20"]):
            run(*language, "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror",
                f"-I{SOURCE}/include", "-c", SOURCE / "tests/abi/header_test.c", "-o", os.devnull)

    def wrapper_program(self, code):
        """What it prints, as lines."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = pathlib.Path(folder) / "program.cpp", pathlib.Path(folder) / "program"
            source.write_text(code)
            run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", source, f"-L{BUILD}/lib",
                "-linflight", "-o", program)
            return run(program, MODEL, env={**os.environ, "LD_LIBRARY_PATH": str(BUILD / "lib")}).splitlines()

    def test_wrapper_passes_the_log_on(self):
        lines = self.wrapper_program("""#include <inflight/inflight.hpp>
#include <cstdio>
int main(int, char** argv) {
  const auto print = [](inflight_log_level_t level, std::string_view line) {
    std::printf("%d %.*s\\n", level, static_cast<int>(line.size()), line.data());
    throw 1;
  };
  inflight::EngineOptions options;
  options.model = argv[1];
  options.params.host_driven = 1;
  inflight::Engine engine(options);
  for (int told = 0; told < 3; ++told) {
    inflight::set_log(print, INFLIGHT_LOG_WARNING);
    if (told == 1) inflight::set_log({});
    engine.configure("{\\"max_num_seqs\\": " + std::to_string(100 + told) + "}");
    engine.step();
  }
}
""")
        self.assertEqual(len(lines), 2, lines)
        self.assertTrue(lines[0].startswith("2 max_num_seqs is 100") and lines[1].startswith("2 max_num_seqs is 102"), lines)

    # One that was cancelled is what it is.
    def test_wrapper_throws_where_an_answer_is_not_whole(self):
        lines = self.wrapper_program(REQUEST_PROGRAM + """\
  inflight::RequestOptions wrong = request, late = request, several = request;
  wrong.structured_regex = "(";
  late.params.timeout_ms = 30;
  several.params.timeout_ms = 30;
  several.params.n = 2;
  several.params.temperature = 1;
  engine.pause(INFLIGHT_PAUSE_NEW);
  for (const auto& each : {late, several}) {
    try {
      std::printf("%zu answers\\n", engine.submit(each).texts().size());
    } catch (const inflight::Failure& failure) {
      std::printf("%s '%s' %d %d %s\\n", inflight_status_name(failure.status()), failure.field(), failure.reject_reason(),
                  failure.retry_after_s(), failure.what());
    }
  }
  inflight::Stream cancelled = engine.submit(request);
  cancelled.cancel();
  std::printf("'%s'\\n", cancelled.text().c_str());
  engine.resume();
  try {
    std::printf("%s\\n", engine.submit(wrong).text().c_str());
  } catch (const inflight::Failure& failure) {
    std::printf("%s %s\\n", inflight_status_name(failure.status()), failure.what());
  }
  std::printf("%s\\n", engine.submit(request).text().c_str());
}
""")
        time_out = "INFLIGHT_ERROR_REJECTED '' 0 0 the request's time has run out"
        self.assertEqual(lines, [time_out, time_out, "''", "INFLIGHT_ERROR_INVALID_ARGUMENT regular expression, position 1: the "
                                 "group is not closed", " upon a time"])

    def test_wrapper_moves_a_streams_end_with_it(self):
        lines = self.wrapper_program(REQUEST_PROGRAM + """\
  inflight::Stream stream = engine.submit(request);
  for (int answer = 0; answer < 3; ++answer) {
    std::string text;
    while (!stream.ended()) {
      if (const auto event = stream.next()) text += event->text;
    }
    inflight::Stream moved = std::move(stream);
    std::printf("%s %d\\n", text.c_str(), moved.ended());
    stream = engine.submit(request);
  }
}
""")
        self.assertEqual(lines, [" upon a time 1"] * 3)

    def test_wrappers_compile_as_cpp17(self):
        for header in ("inflight.hpp", "plugin.hpp"):
            run("g++", "-xc++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{SOURCE}/include", "-c",
                "-", "-o", os.devnull, input=f'#include "inflight/{header}"\n')


class Library(unittest.TestCase):
    library = BUILD / "lib/libinflight.so"

    def test_exports_what_the_list_says(self):
        lines = run("nm", "-D", "--defined-only", self.library).splitlines()
        exported = {line.split()[-1].split("@")[0] for line in lines if " A " not in line}
        listed = set((SOURCE / "bindings_c/symbols.txt").read_text().split())
        self.assertEqual(exported, listed)
        declared = set(re.findall(r"\b(inflight_\w+)\(", re.sub(r"/\*.*?\*/", "", (
            SOURCE / "include/inflight/inflight.h").read_text(), flags=re.S)))
        self.assertEqual(declared, listed)

    def test_needs_nothing_beyond_the_list(self):
        dynamic = run("readelf", "-d", self.library)
        needed = set(re.findall(r"NEEDED.*\[(.*)\]", dynamic))
        self.assertLessEqual(needed, NEEDED)
        self.assertIn("libinflight.so.0", dynamic)
        self.assertNotRegex(run("readelf", "-lW", self.library), r"GNU_STACK.*RWE")

    def test_a_program_that_unloads_it_goes_on(self):
        self.assertRegex(run("readelf", "-d", self.library), r"FLAGS_1.*NODELETE")
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "program"
            run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", "-xc", "-", "-pthread", "-o", program,
                input=UNLOADING_PROGRAM)
            for end, code in (("crash", 42), ("quick_exit", 7)):
                done = subprocess.run([program, self.library, MODEL, BUILD / "plugins-1/fcfs.ifp.so", end],
                                      capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (code, ""))


# Covers: device/driver_signals.cpp
class HostProgram(unittest.TestCase):
    """What a program around the library may rely on, in a process of its own: host_program.c."""
    BEGINNING = ", there was a clever girl"

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{SOURCE}/include", SOURCE / "tests/abi/host_program.c",
            f"-L{BUILD}/lib", "-linflight", "-pthread", "-o", cls.folder / "host")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def host(self, mode, **variables):
        environment = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "lib"), **variables}
        return run(self.folder / "host", MODEL, mode, env=environment).splitlines()

    def test_first_engines_are_made_by_several_threads(self):
        for _ in range(5):
            lines = self.host("threads")
            self.assertEqual(len(lines), 4)
            self.assertTrue(all(line.startswith(self.BEGINNING) for line in lines), lines)

    def test_the_programs_signal_handler_and_stack_stay(self):
        self.assertEqual(self.host("signals"), ["3", "own stack"])

    def test_a_locale_with_a_decimal_comma_changes_nothing(self):
        run("localedef", "-i", "de_DE", "-f", "UTF-8", self.folder / "de_DE.UTF-8")
        point, text, rounded = self.host("locale", LOCPATH=str(self.folder), LC_ALL="de_DE.UTF-8")
        self.assertEqual(point, ",")
        self.assertTrue(text.startswith(self.BEGINNING), text)
        self.assertEqual(rounded, "2.57")


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.lib = next(cls.prefix.glob("lib/**/libinflight.so")).parent
        cls.environment = {**os.environ, "PKG_CONFIG_PATH": str(cls.lib / "pkgconfig"),
                           "LD_LIBRARY_PATH": str(cls.lib)}

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def pkg_config(self, *arguments):
        return run("pkg-config", *arguments, "inflight", env=self.environment).split()

    def test_c_example_builds_through_pkg_config_and_runs(self):
        program = self.folder / "eight_streams"
        run("cc", "-std=c11", "-Wall", "-Werror", SOURCE / "bindings_c/examples/c/eight_streams.c", "-o", program,
            *self.pkg_config("--cflags", "--libs"))
        answers = run(program, MODEL, env=self.environment)
        self.assertEqual(len(re.findall(r"^\[\d\]", answers, re.M)), 8)
        self.assertEqual(len(re.findall(r"prompt tokens", answers)), 8)
        missing = subprocess.run([program, "missing.gguf"], capture_output=True, text=True, env=self.environment)
        self.assertEqual(missing.returncode, 1)
        self.assertIn("missing.gguf", missing.stderr)

    def test_python_example_runs(self):
        answers = run(sys.executable, SOURCE / "bindings_c/examples/python/eight_streams.py", self.lib / "libinflight.so",
                      MODEL, env=self.environment)
        self.assertEqual(len(re.findall(r"^\[\d\] .{20}", answers, re.M)), 8)

    def test_cmake_consumer_builds_and_runs(self):
        source = self.folder / "consumer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.20)
project(consumer C CXX)
find_package(inflight REQUIRED)
add_executable(consumer consumer.cpp)
target_compile_features(consumer PRIVATE cxx_std_17)
target_link_libraries(consumer PRIVATE inflight::inflight)
inflight_add_plugin(mine policy.c)
""")
        (source / "consumer.cpp").write_text(REQUEST_PROGRAM + """
  request.prompt = "Once upon a time";
  request.params.max_tokens = 16;
  std::puts(engine.submit(request).text().c_str());
}
""")
        shutil.copy(SOURCE / "plugins/fcfs.c", source / "policy.c")
        build = self.folder / "consumer-build"
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        self.assertIn("there was", run(build / "consumer", MODEL, env=self.environment))
        self.assertTrue((build / "mine.ifp.so").is_file())

    # As Nix and Guix have them. What is looked at is there once CMake has run.
    def test_absolute_folders_stay_where_they_are(self):
        build, lib, include = (self.folder / name for name in ("absolute", "out/lib", "dev/include"))
        run("cmake", "-S", SOURCE, "-B", build, "-DINFLIGHT_DEVELOPER_MODE=OFF", f"-DCMAKE_INSTALL_LIBDIR={lib}",
            f"-DCMAKE_INSTALL_INCLUDEDIR={include}")
        for package in ("inflight", "inflight-plugin"):
            told = [run("pkg-config", f"--variable={name}", package,
                        env={**os.environ, "PKG_CONFIG_PATH": str(build / "pkgconfig")}).strip()
                    for name in ("libdir", "includedir", "plugindir")]
            self.assertEqual(told, [str(lib), str(include), f"{lib}/inflight/plugins-1"])
        run("cmake", "--install", build, "--component", "plugin")
        source = self.folder / "absolute-consumer"
        source.mkdir()
        (source / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.20)
project(consumer C CXX)
find_package(inflight-plugin REQUIRED)
inflight_add_plugin(mine policy.c)
install(TARGETS mine DESTINATION ${INFLIGHT_PLUGIN_DIR})
""")
        shutil.copy(SOURCE / "plugins/fcfs.c", source / "policy.c")
        run("cmake", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={lib.parent}")
        run("cmake", "--build", source / "build")
        run("cmake", "--install", source / "build")
        self.assertTrue((lib / "inflight/plugins-1/mine.ifp.so").is_file())

    def readme_block(self, language):
        return re.search(rf"```{language}\n(.*?)```", (SOURCE / "README.md").read_text(), re.S)[1]

    def test_readme_program_builds_and_runs(self):
        source = self.folder / "story.c"
        source.write_text(self.readme_block("c").replace('"model.gguf"', f'"{MODEL}"'))
        program = self.folder / "story"
        run("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", source, "-o", program, *self.pkg_config("--cflags", "--libs"))
        self.assertIn("there was", run(program, env=self.environment))

    def test_readme_policy_builds_and_orders_requests(self):
        (self.folder / "shortest.cpp").write_text(self.readme_block("cpp"))
        policy = self.folder / "shortest.ifp.so"
        run("g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden",
            self.folder / "shortest.cpp", "-o", policy, *self.pkg_config("--cflags"))
        out = run(self.prefix / "bin/inflight", "run", "--policy", policy, "-n", "2", "--json", "-p", "Once",
                  env=self.environment)
        self.assertIn('"finish_reason": "length"', out)
        script = f"""import inflight, sys
engine = inflight.Engine({str(MODEL)!r}, host_driven=True, max_num_seqs=1, schedule_policy=sys.argv[1])
streams = {{prompt: engine.submit(prompt, max_tokens=2) for prompt in ("Once upon a time there was", "Once")}}
while engine.step():
    for prompt in [prompt for prompt, stream in streams.items() if stream.next(0)]:
        print(prompt)
        del streams[prompt]
"""
        environment = {**self.environment, "INFLIGHT_LIBRARY": str(self.lib / "libinflight.so"),
                       "PYTHONPATH": str(SOURCE / "bindings_c/python"), "PYTHONDONTWRITEBYTECODE": "1"}
        order = [run(sys.executable, "-c", script, name, env=environment).splitlines() for name in ("fcfs", policy)]
        self.assertEqual(order[0], ["Once upon a time there was", "Once"])
        self.assertEqual(order[1], ["Once", "Once upon a time there was"])

    def test_plugindir_holds_the_policies(self):
        folder = pathlib.Path(self.pkg_config("--variable=plugindir")[0])
        self.assertTrue((folder / "fcfs.ifp.so").is_file(), folder)
        self.assertTrue((folder / "lru.ifp.so").is_file(), folder)

    def test_installed_program_finds_its_model(self):
        out = run(self.prefix / "bin/inflight", "run", "-p", "Once upon a time", "-n", "4", "--json",
                  env=self.environment)
        self.assertIn('"finish_reason": "length"', out)


unittest.main(argv=sys.argv[:1], verbosity=2)
