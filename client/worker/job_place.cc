#include "client/worker/job_place.h"

#include <cstdint>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace cpfeed {
namespace {

struct Dimension {
  std::string name;
  int size = 1;
};

absl::StatusOr<std::vector<Dimension>> ParseMesh(absl::string_view text) {
  std::vector<Dimension> mesh;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const std::pair<absl::string_view, absl::string_view> words =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    Dimension dimension{
        .name = std::string(absl::StripAsciiWhitespace(words.first))};
    bool ok = !dimension.name.empty() &&
              absl::SimpleAtoi(words.second, &dimension.size) &&
              dimension.size > 0 && dimension.size <= INT16_MAX;
    for (const Dimension& other : mesh) ok &= other.name != dimension.name;
    if (!ok) {
      return InvalidArgument(
          kBadOption,
          absl::StrCat("CPFEED_MESH is \"", text, "\" and has \"", part,
                       "\"; each part must be a new name, '=' and a size"));
    }
    mesh.push_back(dimension);
  }
  return mesh;
}

// Place and size of one kind of dimensions together.
struct Fold {
  int place = 0;
  int size = 1;

  void Inner(int coordinate, int extent) {
    place = place * extent + coordinate;
    size *= extent;
  }
};

absl::StatusOr<int> Replicas(const Environment& environment) {
  const std::string text = environment("CPFEED_REPLICAS").value_or("1");
  int replicas = 0;
  if (absl::SimpleAtoi(text, &replicas) && replicas > 0) return replicas;
  return InvalidArgument(kBadOption,
                         absl::StrCat("CPFEED_REPLICAS is \"", text,
                                      "\"; must be a number of servers"));
}

// The name of the server that a session lives on.
absl::StatusOr<std::string> ServerOf(const Environment& environment,
                                     int dp_rank) {
  CF_ASSIGN_OR_RETURN(const int replicas, Replicas(environment));
  const std::string pattern =
      environment("CPFEED_SERVER").value_or("127.0.0.1:8470");
  if (replicas > 1 && !absl::StrContains(pattern, "{ordinal}")) {
    return InvalidArgument(
        kBadOption,
        absl::StrCat("CPFEED_SERVER is \"", pattern,
                     "\"; must have {ordinal}, as CPFEED_REPLICAS is ",
                     replicas));
  }
  return absl::StrReplaceAll(pattern,
                             {{"{ordinal}", absl::StrCat(dp_rank % replicas)}});
}

}  // namespace

absl::StatusOr<std::optional<JobPlace>> ReadJobPlace(
    const Environment& environment, int rank, int world_size) {
  const std::optional<std::string> text = environment("CPFEED_MESH");
  if (!text) return std::nullopt;
  CF_ASSIGN_OR_RETURN(const std::vector<Dimension> mesh, ParseMesh(*text));
  int64_t ranks = 1;
  for (const Dimension& dimension : mesh) {
    // Stops at what no job has, before it overflows.
    if (ranks <= INT16_MAX) ranks *= dimension.size;
  }
  if (ranks != world_size) {
    return InvalidArgument(
        kBadOption, absl::StrCat("CPFEED_MESH is \"", *text,
                                 "\"; its sizes must multiply to WORLD_SIZE, ",
                                 world_size));
  }
  Fold dp, cp, consumers;
  int64_t inner = ranks;
  for (const Dimension& dimension : mesh) {
    inner /= dimension.size;
    const int coordinate = static_cast<int>(rank / inner % dimension.size);
    Fold& fold = absl::StartsWith(dimension.name, "dp") ? dp
                 : dimension.name == "cp"               ? cp
                                                        : consumers;
    fold.Inner(coordinate, dimension.size);
  }
  CF_ASSIGN_OR_RETURN(const std::string server,
                      ServerOf(environment, dp.place));
  return JobPlace{
      .cp_rank = cp.place,
      .cp_size = cp.size,
      .consumer = consumers.place,
      .group = dp.place * consumers.size + consumers.place,
      .num_groups = dp.size * consumers.size,
      .session = absl::StrCat(environment("CPFEED_JOB").value_or("train"),
                              "-dp", dp.place),
      .server = server};
}

}  // namespace cpfeed
