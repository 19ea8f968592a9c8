// SPDX-License-Identifier: Apache-2.0
// Goal: an output file appears whole or not at all, and says why when it does not.
// Method: real files in a folder of their own.
#include "model/output_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "support/expect_error.h"
#include "support/temp_folder.h"

namespace inflight::test {
namespace {

size_t files_in(const TempFolder& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder.path()), {}));
}

std::span<const std::byte> text_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

TEST(OutputFile, AppearsWithItsWholeContentOnly) {
  const TempFolder folder;
  const std::string path = folder.write("out", std::string("old"));
  {
    OutputFile file(path, 6);
    file.write(text_bytes("abc"));
    EXPECT_EQ(read_file(path), "old");
    file.write(text_bytes("def"));
    file.commit();
  }
  EXPECT_EQ(read_file(path), "abcdef");
  EXPECT_EQ(files_in(folder), 1U);
}

// In a container the next process has the same number.
TEST(OutputFile, WhatAKilledProcessOfTheSameNumberLeftIsNotInTheWay) {
  const TempFolder folder;
  const std::string path = folder.write("out", std::string("old"));
  folder.write("out." + std::to_string(::getpid()) + ".partial", std::string("left"));
  OutputFile file(path, 3), other(path, 3);
  for (OutputFile* each : {&file, &other}) {
    each->write(text_bytes("abc"));
    each->commit();
  }
  EXPECT_EQ(read_file(path), "abc");
}

TEST(OutputFile, LeavesNothingWhenItIsNotCommitted) {
  const TempFolder folder;
  const std::string path = folder.write("out", std::string("old"));
  {
    OutputFile file(path, 3);
    file.write(text_bytes("abc"));
  }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(files_in(folder), 1U);
}

TEST(OutputFile, OfAKilledProcessLeavesNothing) {
  const TempFolder folder;
  if (const int probe = ::open(folder.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600); probe >= 0) {
    ::close(probe);
  } else {
    GTEST_SKIP() << folder.path() << ": the file system knows no files without a name";
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    OutputFile file(folder.file("out"), 3);
    file.write(text_bytes("abc"));
    ::_exit(0);  // no destructor runs
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files_in(folder), 0U);
}

TEST(OutputFile, SaysWhyItCannotBeMade) {
  const TempFolder folder;
  const auto make = [](const std::string& path, size_t bytes) { return [=] { OutputFile file(path, bytes); }; };
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "is a directory, cannot be replaced", make(folder.path(), 1));
  INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, "/dev/null: is a device", make("/dev/null", 1));
  INFLIGHT_EXPECT_ERROR(ErrorCode::Io, "none/out: cannot create: No such file", make(folder.file("none/out"), 1));
  // No file system here has room for 2^60 bytes; nothing may be left of the attempt.
  INFLIGHT_EXPECT_ERROR(ErrorCode::Io, "cannot write 1152921504606846976 bytes",
                        make(folder.file("out"), size_t{1} << 60));
  EXPECT_EQ(files_in(folder), 0U);
}

}  // namespace
}  // namespace inflight::test
