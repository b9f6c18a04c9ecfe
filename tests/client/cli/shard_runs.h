// Runs of `cpfeed shard` on small batches.

#ifndef CPFEED_TESTS_CLIENT_CLI_SHARD_RUNS_H_
#define CPFEED_TESTS_CLIENT_CLI_SHARD_RUNS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/cli/shard_flags.h"

namespace cpfeed::testing {

using Ints = std::vector<int64_t>;

// Stands behind the lengths of rows with fewer sequences than others.
inline constexpr int64_t kFiller = -1000;

// The "chunks" of the native result, and the "ranks" of the releases' results.
// A run that is refused fails the test. cp_size is 1 where flags have none.
nlohmann::json Native(const nlohmann::json& input,
                      const ShardFlags& flags = {});
nlohmann::json Release04(const nlohmann::json& input,
                         const ShardFlags& flags = {});
nlohmann::json Release07(const nlohmann::json& input,
                         const ShardFlags& flags = {});

// The reason why a run is refused; one that is not fails the test.
std::string ReasonFor(const nlohmann::json& input, const ShardFlags& flags);

// A batch of these rows, labels as ids, positions 0, 1, ... in every row.
nlohmann::json Batch(const nlohmann::json& rows, const nlohmann::json& seq_lens,
                     const nlohmann::json& seq_lens_padded);

// `num_rows` rows of `width` ids that count up from 1.
nlohmann::json CountingRows(int64_t num_rows, int64_t width);

// A float32 tensor of this shape that counts up from 0, in flat form.
nlohmann::json Floats(const Ints& shape);

// Four rows of 8 whose ids tell row and place: 1.., 11.., 21.., 31...; the
// first has slots {4, 4} with real lengths {4, 3}, the third a real length
// of 6.
nlohmann::json FourRows();

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CLIENT_CLI_SHARD_RUNS_H_
