// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"
#include "inflight/version.h"

namespace {

// One line on stderr, as every error of this program.
int report(const char* message, int status) {
  fmt::print(stderr, "inflight: {}\n", message);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Serve language models with continuous batching on any OpenCL device.", "inflight");
  app.set_version_flag("--version", std::string("inflight " INFLIGHT_VERSION_STRING));
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return report(error.what(), 2);
  } catch (const inflight::Error& error) {
    return report(error.what(), error.code() == inflight::ErrorCode::InvalidArgument ? 2 : 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
  return 0;
}
