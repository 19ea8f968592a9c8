// SPDX-License-Identifier: Apache-2.0
// Goal: parameters reach a policy typed and in range, and every mistake is named with what is allowed.
#include "plugin_host/plugin_config.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "plugin_host/plugin_registry.h"
#include "support/expect_error.h"

namespace inflight {
namespace {

TEST(PolicySpec, IsNameMemberAndParameters) {
  const PolicySpec plain = parse_policy_spec("fcfs");
  EXPECT_EQ(plain.name, "fcfs");
  EXPECT_TRUE(plain.parameters.empty());
  const PolicySpec full = parse_policy_spec("/a:b/x.ifp.so#vtc:input=1,label=a=b,empty=");
  EXPECT_EQ(full.name, "/a:b/x.ifp.so");
  EXPECT_EQ(full.member, "vtc");
  ASSERT_EQ(full.parameters.size(), 3U);
  EXPECT_EQ(full.parameters[1].second, "a=b");
  EXPECT_EQ(full.parameters[2].second, "");
  for (const char* bad :
       {"", ":a=1", "x:a", "x:=1", "x:a=1,b", "x:a=1,", "x:,a=1", "x:a=1,b=2,a=1", "x#", "/x.ifp.so#:a=1"})
    EXPECT_THROW(parse_policy_spec(bad), Error) << bad;
  EXPECT_TRUE(parse_policy_spec("x:").parameters.empty());
}

TEST(PolicySpec, NamesAMemberOfAFileOnly) {
  PluginRegistry registry;
  for (const char* name : {"fcfs#fcfs", "fcfs#nonsense", "org.inflight.lru#lru"}) {
    INFLIGHT_EXPECT_ERROR(ErrorCode::InvalidArgument, std::string("'") + name + "': '#' names a policy of a file",
                          [&] { static_cast<void>(registry.kind_of(parse_policy_spec(name))); });
  }
}

class PluginConfigTest : public testing::Test {
 protected:
  inflight_param_t params_[4] = {
      {.key = "weight", .type = INFLIGHT_TYPE_FLOAT64, .default_value = "1.5", .minimum = "0", .maximum = "10"},
      {.key = "depth", .type = INFLIGHT_TYPE_INT64, .default_value = "3", .minimum = "-1", .maximum = "8"},
      {.key = "fair", .type = INFLIGHT_TYPE_BOOL, .default_value = "true"},
      {.key = "label", .type = INFLIGHT_TYPE_STRING}};
  inflight_policy_t policy_{
      .struct_size = sizeof(inflight_policy_t), .id = "test.x", .param_count = 4, .params = params_};

  std::string refusal(const std::string& key, const std::string& value) {
    try {
      PluginConfig(policy_, {{key, value}});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::InvalidArgument);
      return error.what();
    }
    return "accepted";
  }
};

TEST_F(PluginConfigTest, DefaultsAndGivenValues) {
  const PluginConfig config(policy_, {{"depth", "-1"}, {"label", "x"}});
  ASSERT_EQ(config.config().count, 4U);
  const auto* pairs = config.config().pairs;
  EXPECT_EQ(pairs[0].value.float64, 1.5);
  EXPECT_EQ(pairs[1].value.int64, -1);
  EXPECT_EQ(pairs[2].value.int64, 1);
  EXPECT_STREQ(pairs[3].value.string, "x");
  EXPECT_EQ(PluginConfig(policy_, {}).config().count, 3U);  // label has no default: absent
}

TEST_F(PluginConfigTest, NamesWhatIsWrong) {
  EXPECT_EQ(refusal("weight", "11"), "policy test.x: weight is '11', allowed: a number, at least 0, at most 10");
  EXPECT_EQ(refusal("depth", "1.5"), "policy test.x: depth is '1.5', allowed: a whole number, at least -1, at most 8");
  EXPECT_EQ(refusal("fair", "maybe"), "policy test.x: fair is 'maybe', allowed: true or false");
  EXPECT_EQ(refusal("weight", "nan"), "policy test.x: weight is 'nan', allowed: a number, at least 0, at most 10");
  EXPECT_EQ(refusal("colour", "red"), "policy test.x has no parameter 'colour', allowed: weight, depth, fair, label");
}

}  // namespace
}  // namespace inflight
