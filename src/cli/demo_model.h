// SPDX-License-Identifier: Apache-2.0
// Where the demo model lies.
#pragma once

#include <string>

namespace inflight::cli {

// The F16 file: in the data folder beside the running program, else in the source tree that built
// it, else in the data folder it was configured for. ERRORS: NotFound naming the places.
[[nodiscard]] std::string demo_model_path();

}  // namespace inflight::cli
