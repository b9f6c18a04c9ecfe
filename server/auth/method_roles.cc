#include "server/auth/method_roles.h"

namespace cpfeed {
namespace {

struct Row {
  absl::string_view path;
  Roles roles;
};

constexpr Row kTable[] = {
    {"/cpfeed.v1.SessionService/CreateSession", kController},
    {"/cpfeed.v1.SessionService/GetSession", kAnyRole},
    {"/cpfeed.v1.SessionService/ListSessions", kAnyRole},
    {"/cpfeed.v1.SessionService/DeleteSession", kController},
    {"/cpfeed.v1.SessionService/SeekSession", kController},
    {"/cpfeed.v1.SessionService/CommitCursor", kController},
    {"/cpfeed.v1.SessionService/UpdateSession", kController},
    {"/cpfeed.v1.SessionService/RenewSession", kController},
    {"/cpfeed.v1.SessionService/WatchSession", kAnyRole},
    {"/cpfeed.v1.IngestService/PutBatches", kLoader},
    {"/cpfeed.v1.IngestService/PutBatch", kLoader},
    {"/cpfeed.v1.ShardService/StreamShards", kWorker},
    {"/cpfeed.v1.ShardService/GetShard", kWorker},
    {"/cpfeed.v1.PlanService/PlanBatch", kAnyRole},
    {"/cpfeed.v1.PlanService/ExplainStep", kAnyRole},
    {"/cpfeed.v1.AdminService/GetServerInfo", kOperator},
    {"/cpfeed.v1.AdminService/GetStatistics", kOperator},
    {"/cpfeed.v1.AdminService/Drain", kOperator},
    {"/cpfeed.v1.AdminService/Undrain", kOperator},
    {"/cpfeed.v1.AdminService/SetLogLevel", kOperator},
    {"/cpfeed.v1.AdminService/ExportState", kOperator},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     kAnyRole},
};

}  // namespace

bool IsOpenToAll(absl::string_view path) {
  return path == "/grpc.health.v1.Health/Check" ||
         path == "/grpc.health.v1.Health/Watch";
}

Roles RolesThatMayCall(absl::string_view path) {
  for (const Row& row : kTable) {
    if (row.path == path) return row.roles;
  }
  return 0;
}

}  // namespace cpfeed
