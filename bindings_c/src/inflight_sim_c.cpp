// SPDX-License-Identifier: Apache-2.0
// inflight.h: the simulator.
#include "guard.h"
#include "params.h"
#include "sim/sim_spec.h"

extern "C" {

inflight_status_t inflight_sim_run(const char* spec_json, size_t length, char* result_json, size_t capacity,
                                   size_t* result_length) {
  return inflight::c::guard([&] {
    inflight::c::require(result_length, "result_length");
    const std::string result = inflight::run_simulation_json(inflight::c::read_text(spec_json, length, "spec_json"));
    return inflight::c::write_text(result, result_json, capacity, result_length, "result_json", "result_length");
  });
}

}  // extern "C"
