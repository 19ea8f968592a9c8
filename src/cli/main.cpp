// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/stderr_log.h"
#include "inflight/inflight.hpp"
#include "inflight/version.h"

namespace {

// One line on stderr, as every error of this program.
int report(std::string_view message, int status) {
  inflight::cli::print_to_stderr("inflight: {}\n", message);
  return status;
}

constexpr std::string_view kOutputLost = "cannot write to standard output";

// 0 when this and all that was printed so far has gone out.
int written(std::string_view text = "") {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 &&
      std::ferror(stdout) == 0) {
    return 0;
  }
  return report(errno == 0 ? std::string(kOutputLost) : fmt::format("{}: {}", kOutputLost, std::strerror(errno)), 1);
}

// What is wrong with the names of a command and of its commands; empty when nothing is.   words: behind `name`.
std::string command_mistake(const CLI::App& app, const std::string& name, std::span<const char* const> words) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  if (commands.empty()) return "";
  const std::string given = words.empty() ? "" : words.front();
  std::string known;
  for (const CLI::App* command : commands) {
    if (command->get_name() == given) return command_mistake(*command, name + " " + given, words.subspan(1));
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  if (app.get_option_no_throw(given) != nullptr) return "";
  if (given.starts_with("-")) return fmt::format("unknown option '{}'; see: {} --help", given, name);
  if (given.empty()) return fmt::format("no command given; one of: {}; see: {} --help", known, name);
  return fmt::format("unknown command '{}'; one of: {}; see: {} --help", given, known, name);
}

// "inflight bench serve": the command as far as it was understood.
std::string understood_command(const CLI::App& app) {
  std::string name = app.get_name();
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? name : name + " " + understood_command(*parsed.back());
}

// PoCL compiles each kernel for work-groups of any size, since its binary is asked for, and again for the size in use,
// which gains nothing here: kernels of CPUs hold little of their work (prelude.cl, OUT_OF_LINE).
void let_pocl_compile_once() {
  ::setenv("POCL_WORK_GROUP_SPECIALIZATION", "0", 0);  // NOLINT(concurrency-mt-unsafe): there is one thread yet
}

}  // namespace

int main(int argc, char** argv) {
  let_pocl_compile_once();
  CLI::App app("Serve language models with continuous batching on any OpenCL device.", "inflight");
  app.set_version_flag("--version", std::string("inflight " INFLIGHT_VERSION_STRING));
  app.require_subcommand(1);
  inflight::cli::add_run_command(app);
  inflight::cli::add_serve_command(app);
  inflight::cli::add_bench_command(app);
  inflight::cli::add_devices_command(app);
  inflight::cli::add_tune_command(app);
  inflight::cli::add_plugin_command(app);
  inflight::cli::add_inspect_command(app);
  inflight::cli::add_quantize_command(app);
  inflight::cli::add_tokenize_command(app);
  inflight::cli::add_sim_command(app);
  inflight::cli::add_tune_limits_command(app);
  inflight::cli::add_doctor_command(app);
  inflight::cli::add_calibrate_command(app);
  inflight::cli::add_replay_command(app);
  inflight::cli::add_explain_command(app);
  inflight::cli::read_whole_numbers(app);
  const auto words = std::span<const char* const>(argv, static_cast<size_t>(argc)).subspan(argc > 0 ? 1 : 0);
  if (const std::string mistake = command_mistake(app, app.get_name(), words); !mistake.empty()) {
    return report(mistake, 2);
  }
  inflight::cli::log_to_stderr(INFLIGHT_LOG_WARNING);
  try {
    app.parse(argc, argv);
    return written();
  } catch (const CLI::RuntimeError& error) {  // the command has told why
    return error.get_exit_code();
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream told, nothing;
      app.exit(error, told, nothing);
      return written(told.str());
    }
    return report(fmt::format("{}; see: {} --help", inflight::cli::mistake_text(error), understood_command(app)), 2);
  } catch (const inflight::Error& error) {
    return report(error.what(), error.code() == inflight::ErrorCode::InvalidArgument ? 2 : 1);
  } catch (const inflight::Failure& error) {  // from the C interface
    return report(error.what(), error.status() == INFLIGHT_ERROR_INVALID_ARGUMENT ? 2 : 1);
  } catch (const std::system_error& error) {  // fmt's, from standard output alone: it says no more than "file"
    return report(std::ferror(stdout) == 0 ? error.what() : fmt::format("{}: {}", kOutputLost, error.code().message()),
                  1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
