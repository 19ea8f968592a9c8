// SPDX-License-Identifier: Apache-2.0
// Checks of the file itself and of what its entry function answers.
#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "inflight/version.h"
#include "plugin_host/check_tests.h"
#include "plugin_host/plugin_config.h"
#include "plugin_host/plugin_notes.h"

namespace inflight {
namespace {

// What a deterministic policy cannot use: other clocks, other randomness, the world outside, an end of it.
constexpr std::array kForbidden = {"clock_gettime",
                                   "gettimeofday",
                                   "time",
                                   "rand",
                                   "random",
                                   "drand48",
                                   "getrandom",
                                   "arc4random",
                                   "getenv",
                                   "open",
                                   "open64",
                                   "fopen",
                                   "fopen64",
                                   "socket",
                                   "pthread_create",
                                   "nanosleep",
                                   "usleep",
                                   "sleep",
                                   "clock",
                                   "getentropy",
                                   "secure_getenv",
                                   "exit",
                                   "_exit",
                                   "_Exit",
                                   "quick_exit",
                                   "_ZNSt13random_device9_M_getvalEv",
                                   "_ZNSt6chrono3_V212steady_clock3nowEv",
                                   "_ZNSt6chrono3_V212system_clock3nowEv"};

struct Symbol {
  std::string name;
  bool defined;
  unsigned char binding;
};

// The dynamic symbols of an ELF file. The loader has accepted the file, so its tables are in order; offsets are checked
// all the same.
std::vector<Symbol> dynamic_symbols(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
  const auto at = [&]<typename T>(size_t offset, T& value) {
    if (offset > bytes.size() || bytes.size() - offset < sizeof value) fail(ErrorCode::Plugin, "{}: ends early", path);
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  };
  Elf64_Ehdr header;
  at(0, header);
  std::vector<Symbol> symbols;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, names;
    at(header.e_shoff + i * sizeof section, section);
    if (section.sh_type != SHT_DYNSYM) continue;
    at(header.e_shoff + section.sh_link * sizeof names, names);
    for (size_t k = 1; k < section.sh_size / sizeof(Elf64_Sym); ++k) {
      Elf64_Sym symbol;
      at(section.sh_offset + k * sizeof symbol, symbol);
      const size_t name = names.sh_offset + symbol.st_name;
      if (name >= bytes.size()) fail(ErrorCode::Plugin, "{}: ends early", path);
      symbols.push_back({bytes.c_str() + name, symbol.st_shndx != SHN_UNDEF,
                         static_cast<unsigned char>(ELF64_ST_BIND(symbol.st_info))});
    }
  }
  return symbols;
}

std::string check_symbols(CheckContext& context) {
  for (const Symbol& symbol : dynamic_symbols(context.options.path)) {
    if (symbol.binding == STB_GNU_UNIQUE) {
      fail(ErrorCode::Plugin,
           "{} is a unique symbol: it outlives dlclose and is shared by all versions; build with -fno-gnu-unique",
           symbol.name);
    }
    if (symbol.defined && symbol.name != INFLIGHT_PLUGIN_ENTRY_SYMBOL && symbol.binding != STB_LOCAL) {
      fail(ErrorCode::Plugin, "it exports {}, allowed: {} alone; build as inflight-plugin.pc says", symbol.name,
           INFLIGHT_PLUGIN_ENTRY_SYMBOL);
    }
  }
  return "";
}

std::string check_imports(CheckContext& context) {
  const bool claims = std::ranges::any_of(context.policies, [](const inflight_policy_t* policy) {
    return (policy->capabilities & INFLIGHT_CAP_DETERMINISTIC) != 0;
  });
  if (!claims) throw CheckSkipped{"no policy claims INFLIGHT_CAP_DETERMINISTIC"};
  for (const Symbol& symbol : dynamic_symbols(context.options.path)) {
    if (!symbol.defined && std::ranges::find(kForbidden, symbol.name) != kForbidden.end()) {
      fail(ErrorCode::Plugin,
           "it uses {}, which a deterministic policy cannot; time and randomness are the host's, and so is the process",
           symbol.name);
    }
  }
  return "";
}

std::string check_notes(CheckContext& context) {
  const auto notes = read_plugin_notes(context.options.path);
  for (const inflight_policy_t* policy : context.policies) {
    const bool noted = std::ranges::any_of(
        notes, [&](const PluginNote& note) { return note.id == policy->id && note.kind == policy->kind; });
    if (!noted) {
      fail(ErrorCode::Plugin, "{}: has no note, so it is not found by its name: INFLIGHT_PLUGIN_NOTE", policy->id);
    }
  }
  return "";
}

std::string check_query(CheckContext& context) {
  std::set<std::string> ids;
  for (const inflight_policy_t* policy : context.policies) {
    if (!ids.insert(policy->id).second) fail(ErrorCode::Plugin, "{}: is offered twice", policy->id);
    for (const char* text : {policy->name, policy->version, policy->summary}) {
      if (text == nullptr || *text == '\0') {
        fail(ErrorCode::Plugin, "{}: name, version or summary is missing", policy->id);
      }
    }
  }
  // From a second copy of the same bytes, which must not know of the first.
  const auto again = PluginModule::load(context.options.path);
  if (again->policies().size() != context.module.policies().size()) {
    fail(ErrorCode::Plugin, "the entry function answers differently the second time");
  }
  return fmt::format("{} {}", ids.size(), ids.size() == 1 ? "policy" : "policies");
}

std::string check_parameters(CheckContext& context) {
  size_t count = 0;
  for (const inflight_policy_t* policy : context.policies) {
    std::set<std::string> keys;
    for (const inflight_param_t& param : std::span(policy->params, policy->param_count)) {
      ++count;
      if (!keys.insert(param.key).second) fail(ErrorCode::Plugin, "{}: declares {} twice", policy->id, param.key);
      if (param.help == nullptr || *param.help == '\0') {
        fail(ErrorCode::Plugin, "{}: says nothing of its parameter {}", policy->id, param.key);
      }
      if ((param.flags & INFLIGHT_PARAM_RUNTIME) != 0 && set_param_of(*policy) == nullptr) {
        fail(ErrorCode::Plugin, "{}: says that {} can change, but has no set_param()", policy->id, param.key);
      }
      for (const char* bound : {param.minimum, param.maximum}) {  // a bound is in its own range
        if (bound != nullptr) static_cast<void>(parse_parameter(*policy, param, bound));
      }
    }
    static_cast<void>(PluginConfig(*policy, {}));  // defaults are of their type and in range
  }
  return fmt::format("{} parameters", count);
}

}  // namespace

std::span<const CheckTest> file_checks() {
  static constexpr CheckTest kTests[] = {{"file", "exports the entry symbol alone", check_symbols},
                                         {"file", "imports no clock, randomness or files", check_imports},
                                         {"file", "notes agree with descriptors", check_notes},
                                         {"query", "ids and texts are well formed", check_query},
                                         {"query", "parameters have a sound schema", check_parameters}};
  return kTests;
}

}  // namespace inflight
