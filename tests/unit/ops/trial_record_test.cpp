// SPDX-License-Identifier: Apache-2.0
// A trial that ended its process is seen afterwards, also where process numbers come again; once is no proof.
#include "ops/trial_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <vector>

#include "base/log.h"

namespace inflight {
namespace {

TrialMark read(const std::string& text) {
  std::istringstream stream(text);
  return read_trial_mark(stream);
}

// The mark that a process leaves which ends in its trial.
std::string left_behind(int32_t unfinished) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = mark_text({.state = TrialState::Running, .unfinished = unfinished});
    ::_exit(::write(ends[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  char text[300];
  const ssize_t bytes = ::read(ends[0], text, sizeof(text));
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  ::close(ends[0]);
  ::close(ends[1]);
  return {text, static_cast<size_t>(std::max<ssize_t>(bytes, 0))};
}

TEST(TrialRecord, MarksComeBack) {
  for (const TrialState state : {TrialState::Untried, TrialState::Running, TrialState::Good, TrialState::Bad}) {
    const TrialMark mark = read(mark_text({.state = state, .unfinished = 1}));
    EXPECT_EQ(mark.state, state);
    EXPECT_EQ(mark.unfinished, 1);
  }
}

TEST(TrialRecord, OneThatNeverEndedIsTriedOnceMore) {
  const TrialMark once = read(left_behind(0));
  EXPECT_EQ(once.state, TrialState::Untried);
  EXPECT_EQ(once.unfinished, 1);
  const TrialMark twice = read(left_behind(once.unfinished));
  EXPECT_EQ(twice.state, TrialState::Bad);
  EXPECT_EQ(twice.unfinished, 2);
}

// In a container each start may have the same number.
TEST(TrialRecord, ALaterProcessOfTheSameNumberIsAnotherOne) {
  const std::string own = mark_text({.state = TrialState::Running});
  const std::string earlier = own.substr(0, own.rfind(' ')) + " 1";
  ASSERT_NE(earlier, own);
  EXPECT_EQ(read(own).state, TrialState::Running);
  EXPECT_EQ(read(earlier).state, TrialState::Untried);
  EXPECT_EQ(read(earlier).unfinished, 1);
}

// Whether a process lives that another machine, or a container with numbers of its own, has marked cannot be seen here.
TEST(TrialRecord, ATrialElsewhereRunsForAMinute) {
  std::istringstream own(mark_text({.state = TrialState::Running}));
  std::string state, unfinished, place;
  int64_t now = 0;
  own >> state >> unfinished >> place >> now;
  const auto elsewhere = [&](int64_t age) { return read(fmt::format("1 0 elsewhere {} 1 1", now - age)); };
  for (const int64_t age : {0, 40, -40}) {
    EXPECT_EQ(elsewhere(age).state, TrialState::Running) << age;
    EXPECT_EQ(elsewhere(age).unfinished, 0) << age;
  }
  for (const int64_t age : {80, -80}) {
    EXPECT_EQ(elsewhere(age).state, TrialState::Untried) << age;
    EXPECT_EQ(elsewhere(age).unfinished, 1) << age;
  }
}

TEST(TrialRecord, DamageIsUntried) {
  for (const char* text : {"", "x", "1", "1 0", "1 0 a", "1 0 a 5", "1 0 a 5 5", "4 0 a 1 1 1", "-1 0 a 1 1 1",
                           "2 -1 a 1 1 1", "2 0 a 1 1 x"}) {
    std::istringstream stream(text);
    EXPECT_EQ(read_trial_mark(stream).state, TrialState::Untried) << text;
    EXPECT_FALSE(stream) << text;
  }
}

TEST(TrialRecord, WarnsOnceOfEachReason) {
  std::vector<std::string> lines;
  set_log_sink([&](LogLevel, std::string_view line) { lines.emplace_back(line); }, LogLevel::Warning);
  for (const char* reason : {"wrong bits", "wrong bits", "does not build"})
    warn_of_trial("kernel x", "not used", "device y", reason);
  set_log_sink({}, LogLevel::Error);
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "kernel x is not used on device y: wrong bits; `inflight tune` tries it again",
                       "kernel x is not used on device y: does not build; `inflight tune` tries it again"}));
}

}  // namespace
}  // namespace inflight
