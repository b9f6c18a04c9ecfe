// The auth file: what it may say, and what is refused.

#include "server/auth/auth_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::HasReason;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// The SHA-256 of "test".
constexpr char kHash[] =
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

std::string One(absl::string_view principal) {
  return absl::StrCat(R"({"principals": [)", principal, "]}");
}

TEST(AuthFileTest, EveryMemberIsRead) {
  const auto file = ParseAuthFile(One(absl::StrCat(
      R"({"name": "a", "token_sha256": ")", kHash,
      R"(", "roles": ["loader", "operator"], "session_prefix": "t-",
         "quota": {"sessions": 1, "bytes": 2, "streams": 3, "plans": 4}})")));
  ASSERT_THAT(file, IsOk());
  ASSERT_EQ(file->principals.size(), 1);
  const Principal& principal = *file->principals[0];
  EXPECT_EQ(principal.name, "a");
  EXPECT_EQ(principal.token_sha256.substr(0, 3), "\x9f\x86\xd0");
  EXPECT_EQ(principal.roles, kLoader | kOperator);
  EXPECT_EQ(principal.session_prefix, "t-");
  EXPECT_EQ(principal.quota.sessions, 1);
  EXPECT_EQ(principal.quota.bytes, 2);
  EXPECT_EQ(principal.quota.streams, 3);
  EXPECT_EQ(principal.quota.plans, 4);
}

TEST(AuthFileTest, ACallerSeesTheSessionsOfItsPrefix) {
  const auto file =
      ParseAuthFile(One(R"({"name": "a", "san": "x", "roles": ["worker"],
              "session_prefix": "t-"})"));
  ASSERT_THAT(file, IsOk());
  const Caller caller{file->principals[0]};
  EXPECT_TRUE(caller.Sees("sessions/t-1"));
  EXPECT_FALSE(caller.Sees("sessions/u-1"));
  EXPECT_FALSE(caller.Sees("sessions/"));
  EXPECT_TRUE(Caller().Sees("sessions/u-1"));
}

struct Wrong {
  std::string name;
  std::string text;
  std::string message;
};

class WrongAuthFileTest : public ::testing::TestWithParam<Wrong> {};

TEST_P(WrongAuthFileTest, IsRefusedWithItsPlaceAndNoHash) {
  EXPECT_THAT(
      ParseAuthFile(GetParam().text),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(GetParam().message), Not(HasSubstr("9f86d0")))));
  EXPECT_THAT(ParseAuthFile(GetParam().text).status(), HasReason(kBadOption));
}

INSTANTIATE_TEST_SUITE_P(
    All, WrongAuthFileTest,
    ::testing::Values(
        Wrong{"NoJson", "principals:", "no JSON"},
        Wrong{"NoObject", "[]", "file is no object"},
        Wrong{"NoList", R"({"principals": 3})", "must be an array"},
        Wrong{"Deep", std::string(100, '['), "nested too deeply"},
        Wrong{"Long", std::string((1 << 20) + 1, ' '), "1048577 bytes"},
        Wrong{"NoName", One(R"({"san": "x", "roles": ["worker"]})"),
              "principal 0: name is missing"},
        Wrong{"OddName",
              One(R"({"name": "a b", "san": "x", "roles": ["worker"]})"),
              "principal 0: name has other characters"},
        Wrong{"NoIdentity", One(R"({"name": "a", "roles": ["worker"]})"),
              "one of san and token_sha256"},
        Wrong{"BothIdentities",
              One(absl::StrCat(R"({"name": "a", "san": "x", "token_sha256": ")",
                               kHash, R"(", "roles": ["worker"]})")),
              "and not both"},
        Wrong{"ShortHash", One(R"({"name": "a", "token_sha256": "9f86d0",
                      "roles": ["worker"]})"),
              "64 hexadecimal digits"},
        Wrong{"NoRole", One(R"({"name": "a", "san": "x", "roles": []})"),
              "at least one role"},
        Wrong{"OddRole", One(R"({"name": "a", "san": "x", "roles": ["root"]})"),
              "must be of loader"},
        Wrong{"Misspelt", One(R"({"name": "a", "san": "x", "roles": ["worker"],
                      "session_prefx": "t-"})"),
              "none of its own: session_prefx"},
        Wrong{"NegativeQuota",
              One(R"({"name": "a", "san": "x", "roles": ["worker"],
                      "quota": {"bytes": -1}})"),
              "bytes must be a whole number"},
        Wrong{"SameTwice",
              One(R"({"name": "a", "san": "x", "roles": ["worker"]},
                     {"name": "b", "san": "x", "roles": ["loader"]})"),
              "principal 1: its san or token is an earlier one's"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace cpfeed
