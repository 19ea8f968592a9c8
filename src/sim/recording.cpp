// SPDX-License-Identifier: Apache-2.0
#include "sim/recording.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

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

// Equal prompts become equal streams: each run of kRun tokens is named by the hash of all up to its end.
std::vector<ContentSegment> segments_of(const std::vector<TokenId>& prompt, uint64_t salt) {
  constexpr size_t kRun = 16;
  std::vector<ContentSegment> segments;
  PrefixKey key = root_key(salt);
  for (size_t begin = 0; begin < prompt.size(); begin += kRun) {
    const auto run = std::span(prompt).subspan(begin, std::min(kRun, prompt.size() - begin));
    key = child_key(key, run);
    segments.push_back({key >> 1, 0, static_cast<int32_t>(run.size())});
  }
  return segments;
}

}  // namespace

std::vector<TraceRecord> read_recording(const std::string& path) {
  return decode_recording(read_text_file(path), path);
}

Workload parse_recording(std::string_view bytes, const std::string& name) {
  Workload workload;
  RecordedOutputs outputs;
  std::unordered_map<uint64_t, size_t> request_of;
  std::unordered_set<uint64_t> running;
  for (const TraceRecord& record : decode_recording(bytes, name)) {
    if (const auto* added = std::get_if<TraceAdd>(&record.content)) {
      const Request& given = added->request;
      SimRequest request{.arrival = given.arrival,
                         .output_tokens = 0,
                         .max_tokens = given.sampling.max_tokens,
                         .predicted_output_tokens = given.predicted_output_tokens,
                         .priority = given.priority,
                         .tenant = given.tenant,
                         .itl_target = given.itl_target,
                         .adapter = given.adapter,
                         .cache_salt = given.cache_salt,
                         .output_stream = (uint64_t{1} << 63) + workload.requests.size()};
      if (given.ttft_deadline != kNoDeadline) request.ttft_deadline = given.ttft_deadline - given.arrival;
      if (given.e2e_deadline != kNoDeadline) request.e2e_deadline = given.e2e_deadline - given.arrival;
      std::vector<ContentSegment> prompt = segments_of(given.prompt, given.cache_salt);
      if (prompt.empty()) prompt = {{request.output_stream, 0, added->prompt_token_count}};
      workload.add(request, prompt);
      outputs.add(added->sequence, added->prompt_token_count);
      request_of[to_integer(added->sequence)] = workload.requests.size() - 1;
      running.insert(to_integer(added->sequence));
    } else if (const auto* plan = std::get_if<TracePlan>(&record.content)) {
      outputs.on_plan(*plan);
    } else if (const auto* commit = std::get_if<TraceCommit>(&record.content)) {
      outputs.on_commit(*commit, [&](SequenceId sequence, int32_t tokens, int32_t) {
        workload.requests[request_of.at(to_integer(sequence))].output_tokens += tokens;
      });
    } else if (const auto* finish = std::get_if<TraceFinish>(&record.content)) {
      outputs.on_finish(finish->sequence);
      running.erase(to_integer(finish->sequence));
    }
  }
  if (workload.requests.empty()) fail(ErrorCode::CorruptFile, "{}: the recording holds no requests", name);
  workload.cut_off_request_count = static_cast<int64_t>(running.size());
  for (SimRequest& request : workload.requests) {
    request.output_tokens = std::max(request.output_tokens, 1);
    request.max_tokens = std::max(request.max_tokens, request.output_tokens);
  }
  return workload;
}

}  // namespace inflight
