#include "server/health_service.h"

#include <gmock/gmock.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cpfeed {
namespace {

using ::grpc::health::v1::HealthCheckResponse;
using ::testing::ElementsAre;

// What "", readiness, liveness and startup are in a state.
std::vector<bool> Serving(ServingState state) {
  HealthServiceImpl service;
  service.SetState(state);
  std::vector<bool> serving;
  for (const std::string name : {"", "readiness", "liveness", "startup"}) {
    grpc::health::v1::HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    EXPECT_TRUE(service.Check(nullptr, &request, &response).ok());
    serving.push_back(response.status() == HealthCheckResponse::SERVING);
  }
  return serving;
}

TEST(HealthServiceTest, ProbesTellStatesApart) {
  EXPECT_THAT(Serving(ServingState::kStarting),
              ElementsAre(false, false, true, false));
  EXPECT_THAT(Serving(ServingState::kReady),
              ElementsAre(true, true, true, true));
  EXPECT_THAT(Serving(ServingState::kDraining),
              ElementsAre(false, false, true, true));
  EXPECT_THAT(Serving(ServingState::kFailing),
              ElementsAre(false, false, false, true));
}

TEST(HealthServiceTest, UnknownServicesAreNotFound) {
  HealthServiceImpl service;
  grpc::health::v1::HealthCheckRequest request;
  request.set_service("other");
  HealthCheckResponse response;
  EXPECT_EQ(service.Check(nullptr, &request, &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace cpfeed
