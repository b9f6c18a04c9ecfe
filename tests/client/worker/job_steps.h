// Steps for workers, cut from documents without a server.

#ifndef CPFEED_TESTS_CLIENT_WORKER_JOB_STEPS_H_
#define CPFEED_TESTS_CLIENT_WORKER_JOB_STEPS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/worker/expected_batches.h"
#include "client/worker/step_source.h"
#include "core/batch/packed_batch.h"
#include "core/plan/layout_spec.h"
#include "core/shard/shard.h"

namespace cpfeed::testing {

// Rows of sequences of real and slot lengths, token ids at random. A label is
// the next token of the document, -100 at its end and in padding.
struct SlotLengths {
  int64_t real;
  int64_t padded;
};
PackedBatch BatchOf(const std::vector<std::vector<SlotLengths>>& rows,
                    uint32_t seed);

// The same, but each document counts up from a random number modulo
// `vocabulary`, which a model can learn.
PackedBatch CountingBatchOf(const std::vector<std::vector<SlotLengths>>& rows,
                            int64_t vocabulary, uint32_t seed);

// The batch as a line of `cpfeed pack`, without its end.
std::string LineOf(const PackedBatch& batch);

// The shards of all ranks.
std::vector<StepShard> ShardsOf(const PackedBatch& batch,
                                const LayoutSpec& spec, int cp_size,
                                int64_t num_chunks);

// A source of these steps, from 0 on.
StepSource SourceOf(std::vector<StepShard> steps);

// Writes lines to a new file and returns its name.
std::string WriteLines(const std::vector<std::string>& lines);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CLIENT_WORKER_JOB_STEPS_H_
