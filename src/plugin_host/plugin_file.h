// SPDX-License-Identifier: Apache-2.0
// From a path to loaded code: who may write the file, what it contains, whether that is allowed, and only then dlopen.
// What is hashed is what is loaded: the bytes are read once and loaded from a private copy in memory, so that a file
// replaced meanwhile changes nothing, and a new version under the same path is a new module (dlopen would give the old
// one again).
#pragma once

#include <string>

#include "plugin_host/plugin_guard.h"

namespace inflight {

inline constexpr const char* kPluginSuffix = ".ifp.so";

struct LoadedFile {
  void* handle = nullptr;  // of dlopen
  int descriptor = -1;     // of the copy: its number is part of the loaded object's name, so it stays as long as that
  void* query = nullptr;   // the entry symbol
  std::string sha256;
  CodeRange code;  // of the entry symbol's object
};

// It is there and named like one.   ERRORS: NotFound, Plugin.
void require_plugin_file(const std::string& path);

// Checks owner and mode of the file and of every folder above it, plugins.lock, then loads.
// ERRORS: NotFound, Plugin (says what is wrong).
[[nodiscard]] LoadedFile load_plugin_file(const std::string& path);
// Takes it out again.  REQUIRES: nothing refers to it.
void unload_plugin_file(const LoadedFile& file);

// 64 hex digits.  ERRORS: NotFound, Io, Plugin (too large).
[[nodiscard]] std::string sha256_of_file(const std::string& path);

// Whoever may write the file, or replace it, runs code in this process: it and the folders above it must belong to root
// or to the user who runs this and be writable by nobody else.  `what` names it in the message: "plugin".
// ERRORS: Plugin.
void require_trusted_file(const std::string& path, const std::string& what);

}  // namespace inflight
