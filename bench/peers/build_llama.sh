#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# build_llama.sh FOLDER: the programs of compare.py in FOLDER/build/bin, from the llama.cpp that the source
# distribution of PyPI's llama-cpp-python carries. Needs pip, cmake, ninja and a C++ compiler; about 8 minutes on 2 cores.
set -eu
version=0.3.36
mkdir -p "${1:?usage: build_llama.sh FOLDER}"
cd "$1"
pip download --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version"
tar xzf "llama_cpp_python-$version.tar.gz"
# GCC's _tile_loadconfig() reads 8 of the 64 bytes, as far as GCC knows, so it drops the stores of the others, and on processors
# with AMX the first product ends the process (SIGILL); this makes it keep them.
sed -i 's/^ *_tile_loadconfig(&tc);/    __asm__ volatile("" : : "r"(\&tc) : "memory");\n&/' \
  "llama_cpp_python-$version/vendor/llama.cpp/ggml/src/ggml-cpu/amx/mmq.cpp"
cmake -S "llama_cpp_python-$version/vendor/llama.cpp" -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON \
  -DLLAMA_CURL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF
ninja -C build llama-bench llama-batched-bench llama-completion llama-server
