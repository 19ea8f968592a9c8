// SPDX-License-Identifier: Apache-2.0
#include "sim/recording.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "cache/radix_tree.h"
#include "sim/recorded_run.h"
#include "sim/text_file.h"
#include "sim/trace_reader.h"

namespace inflight {
namespace {

// Empty: a pipe, a device or a link (/dev/stdout is one) is written as it stands.
std::string partial_path_of(const std::string& path) {
  struct stat status{};
  const bool stands = ::lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  return stands ? std::string() : unused_name(path) + ".partial";
}

}  // namespace

RecordingWriter::RecordingWriter(const std::string& path)
    : path_(path),
      partial_path_(partial_path_of(path)),
      file_(std::fopen((partial_path_.empty() ? path : partial_path_).c_str(), "wb")),
      encoder_([this](std::span<const std::byte> record) { write(record); }, true) {
  if (file_ == nullptr) fail(ErrorCode::Io, "{}: {}", path, std::strerror(errno));
}

RecordingWriter::RecordingWriter(const std::string& path, const SchedulerSetup& setup) : RecordingWriter(path) {
  encoder_.begin(to_json(setup));
}

RecordingWriter::~RecordingWriter() {
  if (!partial_path_.empty()) std::remove(partial_path_.c_str());
}

void RecordingWriter::write(std::span<const std::byte> record) {
  if (std::fwrite(record.data(), 1, record.size(), file_.get()) != record.size()) {
    fail(ErrorCode::Io, "{}: {}", path_, std::strerror(errno));
  }
}

void RecordingWriter::close() {
  if (std::fclose(file_.release()) != 0) fail(ErrorCode::Io, "{}: {}", path_, std::strerror(errno));
  if (partial_path_.empty()) return;
  if (std::rename(partial_path_.c_str(), path_.c_str()) != 0) {
    fail(ErrorCode::Io, "{}: {}", path_, std::strerror(errno));
  }
  partial_path_.clear();
}

namespace {

// name: of the file, for errors.
std::vector<TraceRecord> decode_recording(std::string_view bytes, const std::string& name) {
  std::vector<TraceRecord> records;
  try {
    const bool begins = !bytes.empty() && bytes.front() == static_cast<char>(TraceRecordType::Begin);
    if (begins) records = decode_trace(std::as_bytes(std::span(bytes)));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", name, error.what());
  }
  if (records.empty()) {
    fail(ErrorCode::CorruptFile, "{} is no recording: it does not begin with a configuration", name);
  }
  return records;
}

struct RecordedRequest {
  SimRequest request;           // without its contents
  std::vector<TokenId> tokens;  // prompt and output; empty without inputs
};

// Adds it with its contents. Equal beginnings of sequences become equal streams, whether prompt or output, as a
// conversation's next prompt begins with both: each run of tokens is named by the hash of all up to its end.
void add_recorded(Workload& workload, const RecordedRequest& recorded, size_t run_tokens) {
  const SimRequest& request = recorded.request;
  std::vector<ContentSegment> prompt, output;
  const std::span<const TokenId> tokens = recorded.tokens;
  const auto prompt_end = static_cast<size_t>(request.prompt_tokens);
  PrefixKey key = root_key(request.cache_salt);
  for (size_t begin = 0; begin < tokens.size(); begin += run_tokens) {
    const size_t end = std::min(begin + run_tokens, tokens.size());
    key = child_key(key, tokens.subspan(begin, end - begin));
    const size_t middle = std::clamp(prompt_end, begin, end);
    const auto add = [&](std::vector<ContentSegment>& to, size_t from, size_t until) {
      if (from == until) return;
      to.push_back({key >> 1, static_cast<int32_t>(from - begin), static_cast<int32_t>(until - from)});
    };
    add(prompt, begin, middle);
    add(output, middle, end);
  }
  if (prompt.empty()) prompt = {{request.output_stream, 0, request.prompt_tokens}};
  workload.add(request, prompt, output);
}

}  // namespace

std::vector<TraceRecord> read_recording(const std::string& path) {
  return decode_recording(read_text_file(path), path);
}

Workload parse_recording(std::string_view bytes, const std::string& name) {
  std::vector<RecordedRequest> requests;
  RecordedOutputs outputs;
  std::unordered_map<uint64_t, size_t> request_of;
  std::unordered_set<uint64_t> running;
  size_t run_tokens = 16;
  for (TraceRecord& record : decode_recording(bytes, name)) {
    if (const auto* begin = std::get_if<TraceBegin>(&record.content)) {
      // Of that size and of the recorded one, blocks hold whole runs.
      const int32_t block_tokens = parse_setup_json(begin->configuration_json).blocks.block_token_count;
      run_tokens = std::gcd(run_tokens, static_cast<size_t>(block_tokens));
    } else if (auto* added = std::get_if<TraceAdd>(&record.content)) {
      Request& given = added->request;
      SimRequest request{.arrival = given.arrival,
                         .prompt_tokens = added->prompt_token_count,
                         .output_tokens = 0,
                         .max_tokens = given.sampling.max_tokens,
                         .predicted_output_tokens = given.predicted_output_tokens,
                         .priority = given.priority,
                         .tenant = given.tenant,
                         .itl_target = given.itl_target,
                         .adapter = given.adapter,
                         .cache_salt = given.cache_salt,
                         .output_stream = (uint64_t{1} << 63) + requests.size()};
      if (given.ttft_deadline != kNoDeadline) request.ttft_deadline = given.ttft_deadline - given.arrival;
      if (given.e2e_deadline != kNoDeadline) request.e2e_deadline = given.e2e_deadline - given.arrival;
      outputs.add(added->sequence, added->prompt_token_count);
      request_of[to_integer(added->sequence)] = requests.size();
      requests.push_back({request, std::move(given.prompt)});
      running.insert(to_integer(added->sequence));
    } else if (const auto* plan = std::get_if<TracePlan>(&record.content)) {
      outputs.on_plan(*plan);
    } else if (const auto* commit = std::get_if<TraceCommit>(&record.content)) {
      outputs.on_commit(*commit, [&](SequenceId sequence, const RecordedOutputs::Given& output) {
        RecordedRequest& one = requests[request_of.at(to_integer(sequence))];
        one.request.output_tokens += output.token_count();
        if (!output.sampled) return;
        one.tokens.push_back(*output.sampled);
        one.tokens.insert(one.tokens.end(), output.following.begin(), output.following.end());
      });
    } else if (const auto* finish = std::get_if<TraceFinish>(&record.content)) {
      outputs.on_finish(finish->sequence);
      running.erase(to_integer(finish->sequence));
    }
  }
  if (requests.empty()) fail(ErrorCode::CorruptFile, "{}: the recording holds no requests", name);
  Workload workload;
  workload.cut_off_request_count = static_cast<int64_t>(running.size());
  for (RecordedRequest& recorded : requests) {
    recorded.request.output_tokens = std::max(recorded.request.output_tokens, 1);
    add_recorded(workload, recorded, run_tokens);
  }
  return workload;
}

}  // namespace inflight
