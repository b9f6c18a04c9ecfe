#include "server/shard_service.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"
#include "core/wire/shard_codec.h"
#include "core/wire/tensor_codec.h"
#include "server/held_step.h"
#include "transport/channel_settings.h"
#include "transport/grpc_status.h"

namespace cpfeed {
namespace {

// Numbers as text take more than bytes do; so that both stay below the cap.
constexpr int64_t kMaxResultBytes = kMaxGrpcMessageBytes / 2;

absl::StatusOr<v1::ShardChunk> ChunkOf(const v1::ShardHeader& header,
                                       const Buffer& payload,
                                       const v1::GetShardRequest& request) {
  v1::ShardChunk chunk;
  *chunk.mutable_header() = header;
  const int64_t rows = header.num_tokens();
  const int64_t end =
      request.token_end() == 0 ? rows : std::min(request.token_end(), rows);
  const int64_t begin = std::min(request.token_begin(), end);
  CF_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                      DecodeTensors(header.tensors(), payload));
  int64_t total = 0;
  for (NamedTensor& named : tensors) {
    if (!IsShardDescription(named.name)) {
      named.tensor = TokenRange(named.tensor, named.token_axis, begin, end);
    }
    total += named.tensor.bytes.size();
    if (total > kMaxResultBytes) {
      return MakeError(
          absl::StatusCode::kOutOfRange, kMessageTooLarge,
          absl::StrCat("shard has more than ", kMaxResultBytes,
                       " bytes, the limit of GetShard; ask for fewer tensors "
                       "or a smaller range of tokens, or use StreamShards"));
    }
    *chunk.add_tensors() = TensorToProto(named, request.as_numbers());
  }
  return chunk;
}

absl::Status CheckRequest(const v1::GetShardRequest& request, int cp_size) {
  if (request.cp_rank() < 0 || request.cp_rank() >= cp_size) {
    return InvalidArgument(kTopologyMismatch,
                           absl::StrCat("cp_rank is ", request.cp_rank(),
                                        "; must be below cp_size = ", cp_size));
  }
  if (request.token_begin() < 0 || request.token_end() < 0) {
    return InvalidArgument(kBadOption,
                           "token_begin and token_end must not be negative");
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::GetShardResponse> GetOne(
    const SessionHost& host, const v1::GetShardRequest& request) {
  CF_RETURN_IF_ERROR(CheckRequest(request, host.spec().config.cp_size));
  const std::shared_ptr<const HeldStep> held = host.FindStep(request.step());
  if (held == nullptr) {
    const v1::Session session = host.ToProto();
    return MakeError(
        absl::StatusCode::kOutOfRange, kCursorExpired,
        absl::StrCat("step ", request.step(), " is not held; steps ",
                     session.first_held_step(), " to ", session.next_step() - 1,
                     " are"));
  }
  if (!held->batch.poison.ok()) {
    return Annotate(held->batch.poison,
                    absl::StrCat("step ", request.step(), " is skipped"));
  }
  std::vector<std::string> names(request.tensors().begin(),
                                 request.tensors().end());
  if (names.empty()) {
    // Tools want the index, which streams leave out.
    for (const auto& spec :
         held->batch.ranks[request.cp_rank()].header.chunks(0).tensors()) {
      names.push_back(spec.name());
    }
    names.push_back("index");
  }
  EncodedStep message = MessageOf(*held, request.cp_rank(), names, false);
  v1::GetShardResponse response;
  int64_t offset = 0;
  for (const v1::ShardHeader& header : message.header.chunks()) {
    CF_ASSIGN_OR_RETURN(const int64_t bytes,
                        CheckTensorSpecs(header.tensors()));
    CF_ASSIGN_OR_RETURN(
        *response.add_chunks(),
        ChunkOf(header, message.payload.Slice(offset, bytes), request));
    offset += bytes;
  }
  message.header.clear_chunks();
  *response.mutable_step() = std::move(message.header);
  return response;
}

}  // namespace

grpc::Status ShardServiceImpl::GetShard(grpc::ServerContext* context,
                                        const v1::GetShardRequest* request,
                                        v1::GetShardResponse* response) {
  const auto caller = CallerOf(authenticator_, *context);
  if (!caller.ok()) return ToGrpcStatus(caller.status());
  const auto host = registry_.Find(request->session(), *caller);
  if (!host.ok()) return ToGrpcStatus(host.status());
  auto shard = GetOne(**host, *request);
  if (!shard.ok()) return ToGrpcStatus(shard.status());
  *response = *std::move(shard);
  return grpc::Status::OK;
}

}  // namespace cpfeed
