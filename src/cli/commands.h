// SPDX-License-Identifier: Apache-2.0
// The program's subcommands. Each adds itself to the app with its options, help and callback; the callback throws Error
// for what the user can mend. Exit status: 0 good, 1 failed, 2 wrong usage.
#pragma once

#include <CLI/CLI.hpp>

namespace inflight::cli {

// One function a file <name>_command.cpp.
void add_bench_command(CLI::App& app);
void add_calibrate_command(CLI::App& app);
void add_devices_command(CLI::App& app);
void add_explain_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_plugin_command(CLI::App& app);
void add_quantize_command(CLI::App& app);
void add_replay_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_serve_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_tune_command(CLI::App& app);
void add_doctor_command(CLI::App& app);
void add_sim_command(CLI::App& app);
void add_tune_limits_command(CLI::App& app);

// Part of `bench`.
void add_bench_kernels(CLI::App& bench);
void add_bench_sched(CLI::App& bench);
void add_bench_serve(CLI::App& bench);
void add_bench_workload(CLI::App& bench);

}  // namespace inflight::cli
