// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/quote.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "cli/progress_bar.h"
#include "model/quantize_file.h"

namespace inflight::cli {
namespace {

// Ctrl-C asks the conversion to stop, so that it can remove what it has written.
class StopOnInterrupt {
 public:
  StopOnInterrupt() : before_(std::signal(SIGINT, [](int) { requested() = 1; })) {}
  ~StopOnInterrupt() { std::signal(SIGINT, before_); }
  StopOnInterrupt(const StopOnInterrupt&) = delete;
  StopOnInterrupt& operator=(const StopOnInterrupt&) = delete;

  static volatile std::sig_atomic_t& requested() {
    static volatile std::sig_atomic_t flag = 0;
    return flag;
  }

 private:
  void (*before_)(int);
};

void run_quantize(const QuantizeOptions& options, bool as_json) {
  const SteadyClock clock;
  const TimeNs begin = clock.now();
  const StopOnInterrupt stop;
  QuantizeResult result;
  {
    ProgressBar bar("converting", clock);
    result = quantize_file(options, [&](const QuantizeProgress& progress) {
      if (StopOnInterrupt::requested() != 0) {
        fail(ErrorCode::Io, "{}: interrupted, nothing was written", options.output_path);
      }
      bar.update(progress.done_bytes, progress.total_bytes, escape(progress.tensor, 60));
    });
  }
  const double wall_s = static_cast<double>(clock.now() - begin) * 1e-9;
  if (as_json) {
    const nlohmann::ordered_json json = {
        {"input", options.input_path},         {"output", options.output_path},
        {"type", to_string(options.type)},     {"input_bytes", result.input_bytes},
        {"output_bytes", result.output_bytes}, {"converted_tensors", result.converted_count},
        {"kept_tensors", result.kept_count},   {"wall_s", wall_s}};
    print_json(json);
    return;
  }
  fmt::print("{}: {}, was {}; {} tensors converted, {} kept; {:.1f} s\n", options.output_path,
             bytes_text(result.output_bytes), bytes_text(result.input_bytes), result.converted_count, result.kept_count,
             wall_s);
}

TensorType type_named(const std::string& name) {
  const auto type = parse_tensor_type(name);
  if (!type) {
    fail(ErrorCode::InvalidArgument, "type '{}' is not known; one of: f32, f16, bf16, q8_0, q4_0", name);
  }
  return *type;
}

}  // namespace

void add_quantize_command(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("quantize", "Convert a model file to another number format");
  const std::string input = "GGUF file or folder of tensors in " + readable_type_names();
  command->add_option("IN", input)->required();
  command->add_option("OUT", "File to write; appears whole or not at all")->required();
  command->add_option("TYPE", "f32, f16, bf16, q8_0 (8.5 bits a weight) or q4_0 (4.5 bits)")->required();
  command->add_flag("--json")->description("One JSON object instead of a line");
  command->footer(
      "Matrices become TYPE; norms and biases F32. With q4_0 the matrix that makes the logits\n"
      "(output.weight, or the tied token_embd.weight) becomes q8_0: its errors go straight into "
      "the\n"
      "logits. Rows that are no multiple of 32 numbers stay f16. Best from an f16, bf16 or f32 "
      "file:\n"
      "quantising what is quantised adds both errors.");
  command->callback([command] {
    const CLI::App& given = *command;
    run_quantize({.input_path = given["IN"]->as<std::string>(),
                  .output_path = given["OUT"]->as<std::string>(),
                  .type = type_named(given["TYPE"]->as<std::string>())},
                 given.count("--json") > 0);
  });
}

}  // namespace inflight::cli
