// Conversion to THD and TransformerEngine's shards, as upstream's dictionaries.

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <map>
#include <string>
#include <tuple>

#include "client/torch_ops/handles.h"
#include "core/batch/parity.h"
#include "core/context/cp_batch_te.h"
#include "core/shard/parity_partition.h"

namespace cpfeed {
namespace {

using Tensors = c10::Dict<std::string, at::Tensor>;
using Values = c10::Dict<std::string, std::string>;  // As JSON.

template <class T>
std::map<std::string, T> ToMap(const c10::Dict<std::string, T>& dict) {
  std::map<std::string, T> map;
  for (const auto& entry : dict) map[entry.key()] = entry.value();
  return map;
}

std::tuple<Tensors, Values> ToDicts(const TeBatch& batch) {
  Tensors tensors;
  Values values;
  for (const auto& [name, tensor] : batch.tensors) tensors.insert(name, tensor);
  for (const auto& [name, json] : batch.values) values.insert(name, json);
  return {tensors, values};
}

ParityOptions OptionsOf(const std::string& parity, int64_t num_chunks,
                        int64_t padding_token_id, int64_t filler) {
  return {.parity = ValueOrThrow(ParseParity(parity)),
          .num_chunks = num_chunks,
          .padding_token_id = padding_token_id,
          .seq_lens_padding_value = filler};
}

std::tuple<Tensors, Values> MakeBatch(const Tensors& batch,
                                      const std::string& parity,
                                      int64_t num_chunks,
                                      int64_t padding_token_id, int64_t filler,
                                      int64_t cp_size, int64_t cp_rank,
                                      const std::string& qkv_format) {
  return ToDicts(ValueOrThrow(MakeCpBatchForTe(
      ToMap(batch), OptionsOf(parity, num_chunks, padding_token_id, filler),
      ParityRank{static_cast<int>(cp_size), static_cast<int>(cp_rank)},
      qkv_format)));
}

std::tuple<Tensors, Values> ShardChunk(const Tensors& tensors,
                                       const Values& values,
                                       const std::string& parity,
                                       int64_t padding_token_id, int64_t filler,
                                       int64_t cp_size, int64_t cp_rank) {
  return ToDicts(ValueOrThrow(ShardThdChunkForTe(
      TeBatch{.tensors = ToMap(tensors), .values = ToMap(values)},
      OptionsOf(parity, 1, padding_token_id, filler),
      ParityRank{static_cast<int>(cp_size), static_cast<int>(cp_rank)})));
}

TORCH_LIBRARY_FRAGMENT(cpfeed, m) {
  m.def(
      "make_cp_batch_for_te(Dict(str, Tensor) batch, str parity, "
      "int num_chunks, int padding_token_id, int seq_lens_padding_value, "
      "int cp_size, int cp_rank, str qkv_format) -> "
      "(Dict(str, Tensor), Dict(str, str))",
      &MakeBatch);
  m.def(
      "shard_thd_chunk_for_te(Dict(str, Tensor) tensors, "
      "Dict(str, str) values, str parity, int padding_token_id, "
      "int seq_lens_padding_value, int cp_size, int cp_rank) -> "
      "(Dict(str, Tensor), Dict(str, str))",
      &ShardChunk);
}

}  // namespace
}  // namespace cpfeed
