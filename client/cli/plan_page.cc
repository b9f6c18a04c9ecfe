#include "client/cli/plan_page.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "client/cli/metrics_json.h"
#include "client/cli/plan_page_style.h"
#include "core/plan/layout.h"

namespace cpfeed {
namespace {

// Columns of a strip: what a screen can show.
constexpr int64_t kMostColumns = 480;
constexpr int64_t kMostDocuments = 2000;

std::string Escape(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Neighbours differ most: each is a golden angle further.
std::string Colour(int rank) {
  return absl::StrFormat("hsl(%d 62%% %d%%)", rank * 1375 / 10 % 360,
                         42 + rank % 3 * 8);
}

std::string Rect(double x, double y, double width, double height,
                 absl::string_view fill) {
  return absl::StrFormat(
      R"(<rect x="%.6g" y="%.6g" width="%.6g" height="%.6g" fill="%s"/>)", x, y,
      width, height, fill);
}

std::string OpenStrip(double width, int height_px) {
  return absl::StrFormat(
      R"(<svg class="strip" style="height:%dpx" viewBox="0 0 %.6g 1" )"
      R"(preserveAspectRatio="none">)",
      height_px, width);
}

// Real tokens dark and light by turns, slot padding hatched out.
std::string DocumentStrip(const PackedLengths& lengths) {
  const int64_t total =
      std::accumulate(lengths.padded.begin(), lengths.padded.end(), int64_t{0});
  const int64_t count = std::min(lengths.num_sequences(), kMostDocuments);
  std::string svg =
      OpenStrip(static_cast<double>(std::max<int64_t>(total, 1)), 34);
  int64_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    absl::StrAppend(&svg, Rect(static_cast<double>(at), 0,
                               static_cast<double>(lengths.real[i]), 1,
                               i % 2 == 0 ? "#54708c" : "#9db2c6"));
    at += lengths.padded[i];
  }
  absl::StrAppend(&svg, "</svg>\n");
  if (count < lengths.num_sequences()) {
    absl::StrAppend(&svg, "<p class=\"note\">the first ", count,
                    " sequences are drawn</p>\n");
  }
  return svg;
}

// How many of the pack's tokens in each column the rank holds.
std::vector<int64_t> HeldPerColumn(const ShardPlan& plan, int rank,
                                   const std::vector<int64_t>& starts,
                                   int64_t columns) {
  const int64_t total = starts.back();
  std::vector<int64_t> held(columns);
  for (const Segment& segment : plan.ranks[rank].segments) {
    const int64_t slot_end = starts[segment.sequence + 1];
    int64_t at = starts[segment.sequence] + segment.begin;
    // Pad rows of token_multiple lie behind the slot.
    const int64_t end = std::min<int64_t>(at + segment.length, slot_end);
    while (at < end) {
      const int64_t column = at * columns / total;
      const int64_t next = ((column + 1) * total + columns - 1) / columns;
      held[column] += std::min(end, next) - at;
      at = std::min(end, next);
    }
  }
  return held;
}

std::string RankStrip(const std::vector<int64_t>& held, int64_t total,
                      int rank) {
  const auto columns = static_cast<int64_t>(held.size());
  std::string svg = OpenStrip(static_cast<double>(columns), 12);
  const auto share = [&](int64_t c) {
    const int64_t begin = (c * total + columns - 1) / columns;
    const int64_t end = ((c + 1) * total + columns - 1) / columns;
    return std::min<int64_t>(
        8, (8 * held[c] + end - begin - 1) / std::max<int64_t>(end - begin, 1));
  };
  for (int64_t c = 0; c < columns;) {
    const int64_t first = c;
    const int64_t eighths = share(c);
    while (c < columns && share(c) == eighths) ++c;
    if (eighths == 0) continue;
    const double height = static_cast<double>(eighths) / 8;
    absl::StrAppend(&svg,
                    Rect(static_cast<double>(first), 1 - height,
                         static_cast<double>(c - first), height, Colour(rank)));
  }
  return absl::StrCat(svg, "</svg>");
}

std::string RankStrips(const PlanReport& report) {
  const ShardPlan& plan = report.plan;
  std::vector<int64_t> starts = {0};
  for (const int64_t slot : plan.lengths.padded) {
    starts.push_back(starts.back() + slot);
  }
  const int64_t total = starts.back();
  const int64_t columns = std::min(total, kMostColumns);
  const int ranks = std::min(plan.cp_size, kMostDrawnRanks);
  std::string html = "<div class=\"ranks\">\n";
  for (int rank = 0; rank < ranks && total > 0; ++rank) {
    absl::StrAppend(
        &html, "<span>rank ", rank, "</span>",
        RankStrip(HeldPerColumn(plan, rank, starts, columns), total, rank),
        "\n");
  }
  absl::StrAppend(&html, "</div>\n");
  if (ranks < plan.cp_size) {
    absl::StrAppend(&html, "<p class=\"note\">and ", plan.cp_size - ranks,
                    " more ranks</p>\n");
  }
  return html;
}

// A figure that each rank has a bar of.
struct BarKind {
  const char* name;
  int64_t (*value)(const RankMetrics& rank);
  // What the highest bar is at best; 0 where nothing is known.
  double (*bound)(const PlanReport& report);
};

constexpr BarKind kBars[] = {
    {"attention area", [](const RankMetrics& rank) { return rank.area; },
     [](const PlanReport& report) {
       return report.metrics.area.mean * report.bounds.area_imbalance;
     }},
    {"tokens, padding included",
     [](const RankMetrics& rank) { return rank.num_tokens; },
     [](const PlanReport& report) {
       return static_cast<double>(report.bounds.max_tokens);
     }},
    {"padding", [](const RankMetrics& rank) { return rank.padding_rows; },
     [](const PlanReport&) { return 0.0; }},
    {"key-value rows received",
     [](const RankMetrics& rank) { return rank.kv_rows_received; },
     [](const PlanReport& report) { return report.bounds.max_kv_rows; }},
};

double HighestBar(const BarKind& kind, const PlanReport& report) {
  int64_t most = 0;
  for (const RankMetrics& rank : report.metrics.ranks) {
    most = std::max(most, kind.value(rank));
  }
  return static_cast<double>(most);
}

// All cards have the same scale.
double ScaleOf(const BarKind& kind, const std::vector<PlanReport>& reports) {
  double most = 1;
  for (const PlanReport& report : reports) {
    most = std::max({most, HighestBar(kind, report), kind.bound(report)});
  }
  return most * 1.05;
}

// "8623", "10.64 M"
std::string Short(double value) {
  if (value < 1e5) return absl::StrFormat("%.6g", value);
  if (value < 1e6) return absl::StrFormat("%.1f k", value / 1e3);
  if (value < 1e9) return absl::StrFormat("%.2f M", value / 1e6);
  return absl::StrFormat("%.2f G", value / 1e9);
}

// One bar a rank; a dashed line where the best possible maximum lies.
std::string Bars(const BarKind& kind, const PlanReport& report, double scale) {
  const std::vector<RankMetrics>& ranks = report.metrics.ranks;
  const auto count = static_cast<double>(ranks.size());
  const double bound = kind.bound(report);
  double sum = 0;
  std::string bars;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto value = static_cast<double>(kind.value(ranks[rank]));
    sum += value;
    absl::StrAppend(
        &bars, Rect(static_cast<double>(rank) + 0.08, 1 - value / scale, 0.84,
                    value / scale, Colour(static_cast<int>(rank))));
  }
  if (bound > 0) {
    absl::StrAppendFormat(
        &bars,
        R"(<line x1="0" x2="%.6g" y1="%.6g" y2="%.6g" stroke="#1c2733" )"
        R"(stroke-dasharray="4 3" vector-effect="non-scaling-stroke"/>)",
        count, 1 - bound / scale, 1 - bound / scale);
  }
  return absl::StrCat(
      "<div class=\"bars\"><div><span>", kind.name, "</span><span>max ",
      Short(HighestBar(kind, report)), ", mean ", Short(sum / count),
      bound > 0 ? absl::StrCat(", at best ", Short(bound)) : "",
      "</span></div>\n<svg viewBox=\"0 0 ", count,
      " 1\" preserveAspectRatio=\"none\">", bars, "</svg></div>\n");
}

void AddRow(absl::string_view name, const std::string& value,
            const std::string& bound, std::string& html) {
  absl::StrAppend(&html, "<tr><td>", name, "</td><td>", value, "</td><td>",
                  bound, "</td></tr>\n");
}

std::string Figures(const PlanReport& report) {
  const PlanMetrics& metrics = report.metrics;
  const PlanBounds& bounds = report.bounds;
  std::string html =
      "<table><tr><th>figure</th><th>plan</th><th>at best</th></tr>\n";
  AddRow("area, max / mean", absl::StrFormat("%.4f", metrics.area.imbalance()),
         absl::StrFormat("%.4f", bounds.area_imbalance), html);
  AddRow("tiles, max", Short(static_cast<double>(metrics.tiles.max)),
         Short(bounds.max_tiles), html);
  AddRow("tokens, max", absl::StrCat(metrics.tokens.max),
         absl::StrCat(bounds.max_tokens), html);
  AddRow("padding", absl::StrCat(metrics.padding_tokens), "0", html);
  AddRow("KV rows received, mean", Short(metrics.kv_rows_received.mean),
         Short(std::max(bounds.mean_kv_rows, bounds.mean_kv_band)), html);
  AddRow("KV rows received, max", absl::StrCat(metrics.kv_rows_received.max),
         Short(bounds.max_kv_rows), html);
  AddRow("segments, max", absl::StrCat(metrics.slices.max),
         absl::StrCat(bounds.max_slices), html);
  return absl::StrCat(html, "</table>\n");
}

std::string Card(const PlanReport& report, const std::vector<PlanReport>& all) {
  std::string html = absl::StrCat("<section class=\"card\"><h2>",
                                  LayoutName(report.spec.layout), "</h2>\n");
  if (!report.status.ok()) {
    return absl::StrCat(html, "<p class=\"refused\">",
                        Escape(report.status.message()), "</p></section>\n");
  }
  absl::StrAppend(&html, "<p class=\"note\">plan ",
                  DigestText(report.plan.digest), "</p>\n", RankStrips(report));
  for (const BarKind& kind : kBars) {
    absl::StrAppend(&html, Bars(kind, report, ScaleOf(kind, all)));
  }
  return absl::StrCat(html, Figures(report), "</section>\n");
}

}  // namespace

std::string PlanPage(absl::string_view title, const PackedLengths& lengths,
                     const std::vector<PlanReport>& reports) {
  const auto sum = [](const std::vector<int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), int64_t{0});
  };
  const int64_t tokens = sum(lengths.real);
  std::string html = absl::StrCat(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>",
      Escape(title), "</title>\n<style>", kPlanPageStyle,
      "</style></head>\n<body><h1>", Escape(title), "</h1>\n<p class=\"note\">",
      lengths.num_sequences(),
      lengths.num_sequences() == 1 ? " sequence, " : " sequences, ", tokens,
      " tokens, ", sum(lengths.padded) - tokens,
      " of padding. Dashed lines: what no plan can be better than.</p>\n",
      DocumentStrip(lengths), "<div class=\"cards\">\n");
  for (const PlanReport& report : reports) {
    absl::StrAppend(&html, Card(report, reports));
  }
  return absl::StrCat(html, "</div></body></html>\n");
}

absl::Status WritePage(const std::string& path, const std::string& page) {
  std::ofstream file(path, std::ios::binary);
  file << page;
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path));
}

}  // namespace cpfeed
