// The main job: a server, a loader, and ranks as processes over Gloo.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/feeder.h"
#include "client/session_client.h"
#include "core/comm/rendezvous_store.h"
#include "server/server.h"
#include "tests/client/worker/job_steps.h"
#include "tests/testing/status_matchers.h"

namespace cpfeed {
namespace {

using ::cpfeed::testing::BatchOf;
using ::cpfeed::testing::IsOk;
using ::cpfeed::testing::LineOf;
using ::cpfeed::testing::WriteLines;
using ::nlohmann::json;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr int kRanks = 3;
constexpr int kSteps = 4;

// A worker process with its standard output and errors in files.
struct Worker {
  pid_t pid = 0;
  std::string out;
  std::string err;
};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

Worker Spawn(int rank, const std::vector<std::string>& arguments,
             const std::vector<std::string>& environment) {
  Worker worker{.out = absl::StrCat(::testing::TempDir(), "/out", rank),
                .err = absl::StrCat(::testing::TempDir(), "/err", rank)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_CREAT | O_TRUNC | O_WRONLY;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, worker.out.c_str(),
                                   kFlags, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, worker.err.c_str(),
                                   kFlags, 0600);
  const auto pointers = [](const std::vector<std::string>& strings) {
    std::vector<char*> all;
    for (const std::string& string : strings) {
      all.push_back(const_cast<char*>(string.c_str()));
    }
    all.push_back(nullptr);
    return all;
  };
  EXPECT_EQ(
      posix_spawn(&worker.pid, arguments[0].c_str(), &actions, nullptr,
                  pointers(arguments).data(), pointers(environment).data()),
      0);
  posix_spawn_file_actions_destroy(&actions);
  return worker;
}

class WorkerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.listen = "127.0.0.1:0";
    auto server = Server::Start(options);
    ASSERT_THAT(server, IsOk());
    server_ = *std::move(server);
    channel_ = MakeChannel(Address());
    auto store =
        RendezvousStore::Open({.host = true, .timeout = absl::Seconds(60)});
    ASSERT_THAT(store, IsOk());
    store_ = *std::move(store);
    v1::CreateSessionRequest request;
    request.set_session_id("job");
    v1::Session& session = *request.mutable_session();
    session.mutable_topology()->set_cp_size(kRanks);
    ASSERT_THAT(CreateSession(channel_, request), IsOk());
  }

  void TearDown() override {
    server_->Stop();
    finisher_.join();
  }

  std::string Address() const {
    return absl::StrCat("127.0.0.1:", server_->port());
  }

  // Feeds kSteps batches and returns their file.
  std::string Feed() {
    auto feeder = Feeder::Open(channel_, {.session = "sessions/job"});
    EXPECT_THAT(feeder, IsOk());
    std::vector<std::string> lines;
    for (int step = 0; step < kSteps; ++step) {
      const PackedBatch batch =
          BatchOf({{{30, 36}, {60 + step, 66}, {0, 6}, {12, 12}}}, step);
      lines.push_back(LineOf(batch));
      EXPECT_THAT((*feeder)->Put(batch, {}), IsOk());
    }
    EXPECT_THAT((*feeder)->Flush(), IsOk());
    finisher_ = std::thread([feeder = *std::move(feeder)] {
      // Ends when all ranks have all steps, or the server stops.
      feeder->Finish().IgnoreError();
    });
    return WriteLines(lines);
  }

  // Runs all ranks as torchrun would and returns their exit statuses.
  std::vector<int> RunRanks(const std::vector<std::string>& options) {
    const std::string batches = Feed();
    for (int rank = 0; rank < kRanks; ++rank) {
      std::vector<std::string> arguments = {"client/worker/cpfeed_worker",
                                            "--session",
                                            "job",
                                            "--timeout",
                                            "60",
                                            "--json"};
      arguments.insert(arguments.end(), options.begin(), options.end());
      if (rank == 0) {
        arguments.insert(arguments.end(), {"--check", batches});
      }
      workers_.push_back(
          Spawn(rank, arguments,
                {absl::StrCat("RANK=", rank), absl::StrCat("LOCAL_RANK=", rank),
                 absl::StrCat("WORLD_SIZE=", kRanks), "MASTER_ADDR=127.0.0.1",
                 absl::StrCat("MASTER_PORT=", store_->port()),
                 "TORCHELASTIC_USE_AGENT_STORE=True",
                 absl::StrCat("CPFEED_SERVER=", Address())}));
    }
    std::vector<int> statuses;
    for (const Worker& worker : workers_) {
      int status = 0;
      EXPECT_EQ(waitpid(worker.pid, &status, 0), worker.pid);
      statuses.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    return statuses;
  }

  // What rank 0 printed, a JSON object a line.
  std::vector<json> Lines() const {
    std::vector<json> lines;
    std::ifstream file(workers_[0].out);
    for (std::string line; std::getline(file, line);) {
      lines.push_back(json::parse(line));
    }
    return lines;
  }

  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<RendezvousStore> store_;
  std::vector<Worker> workers_;
  std::thread finisher_;
};

class ExchangeTest : public WorkerTest,
                     public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, ExchangeTest,
                         ::testing::Values("ring", "allgather"),
                         [](const auto& info) { return info.param; });

TEST_P(ExchangeTest, EveryStepEqualsOneDevice) {
  EXPECT_THAT(RunRanks({"--exchange", GetParam()}), Each(0));
  const std::vector<json> lines = Lines();
  ASSERT_THAT(lines, SizeIs(kSteps + 1));
  for (int step = 0; step < kSteps; ++step) {
    EXPECT_EQ(lines[step]["step"], step);
    EXPECT_EQ(lines[step]["documents"], 3);
    EXPECT_EQ(lines[step]["tokens"], 30 + 60 + step + 12);
    EXPECT_LE(lines[step]["max_difference"], 1e-5);
    // 40 of 120 rows each; keys and values of 2 heads of 16 float32.
    EXPECT_THAT(lines[step]["bytes_received"], Each(80 * 2 * 2 * 16 * 4));
  }
  EXPECT_EQ(lines[kSteps]["status"], "OK");
  EXPECT_EQ(lines[kSteps]["steps"], kSteps);
  EXPECT_EQ(lines[kSteps]["ranks"], kRanks);
}

class InjectTest : public WorkerTest,
                   public ::testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, InjectTest,
                         ::testing::Values("swap", "drop", "stale_kv"),
                         [](const auto& info) { return info.param; });

TEST_P(InjectTest, NoRankEndsWell) {
  EXPECT_THAT(RunRanks({"--inject", GetParam()}), Each(1));
  const std::vector<json> lines = Lines();
  ASSERT_GE(lines.size(), 2);
  EXPECT_LE(lines[0]["max_difference"], 1e-5);  // Struck at the second step.
  EXPECT_NE(lines.back()["status"], "OK");
}

TEST_F(WorkerTest, WrongFlagsAreRefused) {
  EXPECT_THAT(RunRanks({"--exchange", "addtoall"}), Each(2));
  EXPECT_EQ(Lines().back()["status"], "INVALID_ARGUMENT");
  EXPECT_THAT(ReadFile(workers_[1].err),
              HasSubstr("rank 1: exchange is \"addtoall\"; must be one of"));
}

TEST_F(WorkerTest, TooFewStepsAreAnError) {
  EXPECT_THAT(RunRanks({"--steps", absl::StrCat(kSteps + 1)}), Each(1));
  EXPECT_THAT(std::string(Lines().back()["message"]),
              HasSubstr("data ended after 4 steps; must be 5"));
}

}  // namespace
}  // namespace cpfeed
