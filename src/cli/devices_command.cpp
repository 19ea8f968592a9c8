// SPDX-License-Identifier: Apache-2.0
// `inflight devices`: what there is to run on, and how fast it reads memory.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/format.h"
#include "device/bandwidth.h"
#include "device/device.h"

namespace inflight::cli {
namespace {

nlohmann::ordered_json device_json(const DeviceInfo& info) {
  return {{"index", info.index},
          {"name", info.name},
          {"type", to_string(info.type)},
          {"vendor", info.vendor},
          {"platform", info.platform},
          {"driver", info.driver},
          {"version", info.version},
          {"c_version", info.c_version},
          {"compute_units", info.compute_units},
          {"memory_bytes", info.memory_bytes},
          {"allocation_bytes_max", info.allocation_bytes_max},
          {"local_memory_bytes", info.local_memory_bytes},
          {"work_group_size_max", info.work_group_size_max},
          {"fp16", info.fp16},
          {"subgroups", info.subgroups},
          {"integer_dot_product", info.integer_dot},
          {"host_memory", info.host_memory},
          {"cpu_features", info.cpu.describe()}};
}

void print_text(const DeviceInfo& info, bool chosen, const std::string& bandwidth) {
  std::string abilities = info.cpu.describe();
  const auto add = [&abilities](bool has, const char* name) {
    if (has) abilities += (abilities.empty() ? "" : " ") + std::string(name);
  };
  add(info.fp16, "fp16");
  add(info.subgroups, "subgroups");
  add(info.integer_dot, "integer-dot-product");
  fmt::print("{}[{}] {} ({}), {}\n", chosen ? "* " : "  ", info.index, info.name, to_string(info.type), info.platform);
  fmt::print("      {} compute units, {} memory, {} local, buffers up to {}\n", info.compute_units,
             bytes_text(info.memory_bytes), bytes_text(info.local_memory_bytes), bytes_text(info.allocation_bytes_max));
  fmt::print("      {}; driver {}\n", info.version, info.driver);
  fmt::print("      can: {}\n", abilities.empty() ? "OpenCL 1.2 only" : abilities);
  fmt::print("      reads memory at {}\n", bandwidth);
}

void show_devices(bool as_json) {
  const std::vector<DeviceInfo> devices = list_devices();
  const int32_t chosen = choose_device(devices, "").index;
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const DeviceInfo& info : devices) {
    nlohmann::ordered_json entry = device_json(info);
    std::string text;
    try {
      Device device = Device::open({.spec = std::to_string(info.index)});
      const double bandwidth = measure_read_bandwidth(device);
      entry["read_bandwidth_gb_per_second"] = bandwidth * 1e-9;
      text = fmt::format("{:.1f} GB/s (measured)", bandwidth * 1e-9);
    } catch (const std::exception& error) {  // one bad driver must not hide the other devices
      entry["read_bandwidth_gb_per_second"] = nullptr;
      entry["error"] = error.what();
      text = fmt::format("? ({})", error.what());
    }
    entry["default"] = info.index == chosen;
    if (as_json) {
      all.push_back(entry);
    } else {
      print_text(info, info.index == chosen, text);
    }
  }
  if (as_json) {
    print_json({{"devices", all}});
  } else {
    fmt::print("* is the default; choose another with --device INDEX or a part of its name, or $INFLIGHT_DEVICE\n");
  }
}

}  // namespace

void add_devices_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("devices", "Show the OpenCL devices and measure their read bandwidth");
  command->add_flag("--json")->description("One JSON object instead of text");
  command->callback([command] { show_devices(command->count("--json") > 0); });
}

}  // namespace inflight::cli
