// SPDX-License-Identifier: Apache-2.0
#include "cli/demo_model.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>

#include "base/error.h"

namespace inflight::cli {

std::string demo_model_path() {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path folder = "inflight/models";
  const std::array<fs::path, 3> places = {
      (program.parent_path() / INFLIGHT_DATA_FROM_PROGRAM / folder).lexically_normal(),
      fs::path(INFLIGHT_SOURCE_MODELS),
      INFLIGHT_DATA_FOLDER / folder,
  };
  for (const fs::path& place : places) {
    const fs::path file = place / "tinyworld-f16.gguf";
    if (fs::is_regular_file(file, unknown)) return file.string();
  }
  fail(ErrorCode::NotFound, "the demo model tinyworld-f16.gguf is in none of {}, {}, {}; name a model with -m",
       places[0].string(), places[1].string(), places[2].string());
}

}  // namespace inflight::cli
