// All orders of events of a small session, against a model that knows only what
// the contract says.

#ifndef CPFEED_TESTS_CORE_SESSION_STATE_SPACE_H_
#define CPFEED_TESTS_CORE_SESSION_STATE_SPACE_H_

#include <cstdint>
#include <string>

#include "core/session/session_config.h"

namespace cpfeed::testing {

struct Exploration {
  int64_t states = 0;       // Distinct ones.
  int64_t transitions = 0;  // Events tried.
  int64_t completions = 0;  // Runs to the end of the data.
  std::string problem;      // What broke the contract first, and how it came.
};

// Explores 2 producers with 2 and 1 batches, 2 ranks with 2 consumers each, and
// up to two faults a run: streams that break and open anew, batches that are
// rejected, a seek. States are told apart by all that the session shows and all
// that the model knows; consumers are interchangeable.
//
// Random walks of a fixed seed, without faults, lead to states of every depth;
// from each of them the search goes depth first. It ends at a problem or after
// `most_states`.
Exploration Explore(Retention retention, int64_t most_states);

}  // namespace cpfeed::testing

#endif  // CPFEED_TESTS_CORE_SESSION_STATE_SPACE_H_
