// SPDX-License-Identifier: Apache-2.0
// Covers: plugin_host/plugins_lock.cpp, plugin_host/plugin_file.cpp
// Goal: what was hashed is what is loaded; the lock decides before any code of the file runs; a file that was replaced
// is loaded anew while the old version goes on.
#include "plugin_host/plugins_lock.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "plugin_host/plugin_file.h"
#include "plugin_host/plugin_registry.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace inflight::test {
namespace {

const std::string kHash(64, 'a');

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(PluginsLock, ReadsEntriesAndNamesWhatIsNone) {
  const PluginsLock lock =
      parse_plugins_lock("# mine\n\n require_lock = true \r\n" + kHash + "  org.example.vtc\n", "l");
  EXPECT_TRUE(lock.require_lock);
  ASSERT_EQ(lock.entries.size(), 1U);
  EXPECT_EQ(lock.entries[0], std::make_pair(kHash, std::string("org.example.vtc")));
  for (const std::string bad : {"require_lock = maybe", "abc org.example.vtc", "x", kHash.c_str()}) {
    EXPECT_EQ(error_of([&] { static_cast<void>(parse_plugins_lock("#\n" + bad, "l")); }),
              "l:2: '" + bad + "' is no entry, allowed: '<sha256> <policy id>', 'require_lock = true', '# comment'");
  }
}

TEST(PluginsLock, PinsTheBytesOfAnId) {
  const std::vector<PluginNote> notes = {{1, "org.example.vtc"}};
  EXPECT_NO_THROW(require_locked({}, "f", kHash, notes));
  EXPECT_NO_THROW(require_locked({.entries = {{kHash, "org.example.vtc"}}}, "f", kHash, notes));
  EXPECT_NO_THROW(require_locked({.entries = {{kHash, "org.example.other"}}}, "f", std::string(64, 'b'), notes));
  const PluginsLock other{.entries = {{std::string(64, 'b'), "org.example.vtc"}}};
  EXPECT_EQ(error_of([&] { require_locked(other, "f", kHash, notes); }),
            "plugin f is not what plugins.lock lists for org.example.vtc: its sha256 is " + kHash);
  EXPECT_NE(error_of([&] { require_locked({.require_lock = true}, "f", kHash, {}); }).find("is not in plugins.lock"),
            std::string::npos);
  EXPECT_NO_THROW(require_locked({.require_lock = true, .entries = {{kHash, "x"}}}, "f", kHash, {}));
}

class LockedFiles : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("INFLIGHT_PLUGINS_LOCK");
    ::unsetenv("XDG_CONFIG_HOME");
  }
  void lock(const std::string& text) {
    ::setenv("INFLIGHT_PLUGINS_LOCK", folder_.write("plugins.lock", text).c_str(), 1);
  }
  TempFolder folder_;
};

TEST_F(LockedFiles, AreLoadedOnlyAsListed) {
  const std::string hash = sha256_of_file(shipped_plugin("fcfs"));
  lock("require_lock = true\n" + hash + " org.inflight.fcfs\n");
  EXPECT_NO_THROW(static_cast<void>(PluginModule::load(shipped_plugin("fcfs"))));
  EXPECT_NE(error_of([&] { static_cast<void>(PluginModule::load(shipped_plugin("lru"))); }).find("which requires it"),
            std::string::npos);
  lock(kHash + " org.inflight.fcfs\n");
  EXPECT_NE(
      error_of([&] { static_cast<void>(PluginModule::load(shipped_plugin("fcfs"))); }).find("is not what plugins.lock"),
      std::string::npos);
  EXPECT_NO_THROW(static_cast<void>(PluginModule::load(shipped_plugin("lru"))));
  std::filesystem::permissions(folder_.file("plugins.lock"), std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  EXPECT_NE(error_of([&] { static_cast<void>(PluginModule::load(shipped_plugin("lru"))); }).find("the lock file"),
            std::string::npos);
}

// Only where nothing is at the default place there is no lock.
TEST_F(LockedFiles, AreNotLoadedWhenTheLockCannotBeRead) {
  namespace fs = std::filesystem;
  const auto error_with = [](const char* variable, const std::string& value) {
    ::setenv(variable, value.c_str(), 1);
    const std::string error = error_of([] { static_cast<void>(PluginModule::load(shipped_plugin("fcfs"))); });
    ::unsetenv(variable);
    return error;
  };
  const std::string missing = folder_.file("missing"), file = folder_.write("file", std::string()),
                    why = ": the lock file cannot be read: ";
  EXPECT_EQ(error_with("INFLIGHT_PLUGINS_LOCK", missing), missing + why + "No such file or directory");
  EXPECT_EQ(error_with("INFLIGHT_PLUGINS_LOCK", folder_.path()), folder_.path() + why + "Is a directory");
  EXPECT_EQ(error_with("XDG_CONFIG_HOME", file), file + "/inflight/plugins.lock" + why + "Not a directory");
  EXPECT_EQ(error_with("XDG_CONFIG_HOME", missing), "no error");
  const std::string by_default = folder_.file("inflight/plugins.lock");
  fs::create_directories(by_default);
  EXPECT_EQ(error_with("XDG_CONFIG_HOME", folder_.path()), by_default + why + "Is a directory");
  fs::remove(by_default);
  EXPECT_EQ(error_with("XDG_CONFIG_HOME", folder_.path()), "no error");
  fs::create_symlink(missing, by_default);
  EXPECT_EQ(error_with("XDG_CONFIG_HOME", folder_.path()), by_default + why + "No such file or directory");
}

// FIPS 180-2, appendix B.1.
TEST(PluginFileHash, IsSha256) {
  const TempFolder folder;
  EXPECT_EQ(sha256_of_file(folder.write("abc", std::string("abc"))),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(PluginFileHash, ReplacedFileIsLoadedAnew) {
  namespace fs = std::filesystem;
  const TempFolder folder;
  const std::string path = folder.file("policy.ifp.so");
  fs::copy_file(shipped_plugin("fcfs"), path);
  PluginRegistry registry;
  const PluginModule& first = registry.load(path);
  EXPECT_EQ(&registry.load(path), &first);
  fs::copy_file(shipped_plugin("edf"), folder.file("next"));
  fs::rename(folder.file("next"), path);
  const PluginModule& second = registry.load(path);
  EXPECT_STREQ(second.policies()[0]->id, "org.inflight.edf");
  EXPECT_STREQ(first.policies()[0]->id, "org.inflight.fcfs");
  EXPECT_NE(first.sha256(), second.sha256());
  EXPECT_TRUE(second.code().contains(reinterpret_cast<uintptr_t>(second.policies()[0]->sched->create)));
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(PluginFile, ThatIsRefusedLeavesNoDescriptorBehind) {
  const size_t before = open_descriptors();
  for (const char* name : {"no_symbol", "id", "null", "note"}) {
    for (int i = 0; i < 5; ++i) EXPECT_THROW(static_cast<void>(PluginModule::load(test_plugin(name))), Error);
  }
  EXPECT_EQ(open_descriptors(), before);
}

// dlopen knows what is loaded by its name, and that is the descriptor's number.
TEST(PluginFile, ThatIsRefusedButCannotBeUnloadedIsNotTakenForTheNext) {
  EXPECT_THROW(static_cast<void>(PluginModule::load(test_plugin("resident"))), Error);
  EXPECT_STREQ(PluginModule::load(shipped_plugin("fcfs"))->policies()[0]->id, "org.inflight.fcfs");
}

}  // namespace
}  // namespace inflight::test
