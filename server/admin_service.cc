#include "server/admin_service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/error.h"
#include "google/protobuf/util/time_util.h"
#include "server/event_log.h"
#include "server/session_export.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

constexpr int kDefaultPageSize = 50;
constexpr int kMostPageSize = 1000;
constexpr int kDefaultExportSize = 10;
constexpr int kMostExportSize = 100;

constexpr std::pair<const char*, spdlog::level::level_enum> kLevels[] = {
    {"debug", spdlog::level::debug},
    {"info", spdlog::level::info},
    {"warning", spdlog::level::warn},
    {"error", spdlog::level::err}};

}  // namespace

AdminServiceImpl::AdminServiceImpl(const SessionRegistry& registry,
                                   ServerMetrics& metrics,
                                   Authenticator* authenticator,
                                   AdminHooks hooks)
    : registry_(registry),
      metrics_(metrics),
      authenticator_(authenticator),
      hooks_(std::move(hooks)) {}

grpc::Status AdminServiceImpl::GetServerInfo(
    grpc::ServerContext*, const v1::GetServerInfoRequest*,
    v1::GetServerInfoResponse* response) {
  *response = hooks_.info;
  response->set_draining(hooks_.gauges().draining);
  return grpc::Status::OK;
}

grpc::Status AdminServiceImpl::GetStatistics(
    grpc::ServerContext* context, const v1::GetStatisticsRequest* request,
    v1::GetStatisticsResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const ServerGauges gauges = hooks_.gauges();
  response->set_published_steps(registry_.published_steps());
  response->set_producer_streams(gauges.producer_streams);
  response->set_consumer_streams(gauges.consumer_streams);
  for (int i = 0; i < kNumStages; ++i) {
    const auto stage = static_cast<Stage>(i);
    const StageTotals totals = metrics_.Totals(stage);
    v1::StageStatistics& proto = *response->add_stages();
    proto.set_stage(std::string(StageName(stage)));
    proto.set_count(totals.count);
    *proto.mutable_total() =
        google::protobuf::util::TimeUtil::NanosecondsToDuration(
            absl::ToInt64Nanoseconds(totals.sum));
  }
  const int size = request->page_size() <= 0
                       ? kDefaultPageSize
                       : std::min(request->page_size(), kMostPageSize);
  // One more than asked for tells whether there is another page.
  const auto page = registry_.List(request->page_token(), size + 1, *caller);
  for (const auto& host : page) {
    if (response->sessions_size() == size) {
      response->set_next_page_token(response->sessions(size - 1).name());
      break;
    }
    *response->add_sessions() = host->ToProto();
  }
  return grpc::Status::OK;
}

grpc::Status AdminServiceImpl::ExportState(
    grpc::ServerContext* context, const v1::ExportStateRequest* request,
    v1::ExportStateResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  if (!request->session().empty()) {
    const auto host = registry_.Find(request->session(), *caller);
    if (!host.ok()) return ToGrpcStatus(host.status());
    *response->add_sessions() = ExportSession(**host);
    return grpc::Status::OK;
  }
  const int size = request->page_size() <= 0
                       ? kDefaultExportSize
                       : std::min(request->page_size(), kMostExportSize);
  // One more than asked for tells whether there is another page.
  for (const auto& host :
       registry_.List(request->page_token(), size + 1, *caller)) {
    if (response->sessions_size() == size) {
      response->set_next_page_token(
          response->sessions(size - 1).session().name());
      break;
    }
    *response->add_sessions() = ExportSession(*host);
  }
  return grpc::Status::OK;
}

grpc::Status AdminServiceImpl::Drain(grpc::ServerContext* context,
                                     const v1::DrainRequest*,
                                     v1::DrainResponse*) {
  EventLog("drain_asked").AddTrace(*context).Info();
  hooks_.drain();
  return grpc::Status::OK;
}

grpc::Status AdminServiceImpl::Undrain(grpc::ServerContext* context,
                                       const v1::UndrainRequest*,
                                       v1::UndrainResponse*) {
  EventLog("undrain_asked").AddTrace(*context).Info();
  return ToGrpcStatus(hooks_.undrain());
}

grpc::Status AdminServiceImpl::SetLogLevel(
    grpc::ServerContext* context, const v1::SetLogLevelRequest* request,
    v1::SetLogLevelResponse* response) {
  for (const auto& [name, level] : kLevels) {
    if (level == spdlog::get_level()) response->set_previous_level(name);
  }
  for (const auto& [name, level] : kLevels) {
    if (request->level() != name) continue;
    spdlog::set_level(level);
    EventLog("log_level_set").Add("level", name).AddTrace(*context).Info();
    return grpc::Status::OK;
  }
  return ToGrpcStatus(InvalidArgument(
      kBadOption, "level must be debug, info, warning or error"));
}

}  // namespace cpfeed
