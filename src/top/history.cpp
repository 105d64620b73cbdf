#include "top/history.hpp"

#include <algorithm>

namespace ration::top {
namespace {

constexpr auto kSpan = static_cast<std::int64_t>(History::kSteps);

std::size_t place(std::int64_t step) { return static_cast<std::size_t>(step % kSpan); }

}  // namespace

void History::Line::advance(std::int64_t step) {
  if (step - newest >= kSpan) steps.fill(std::nullopt);
  for (std::int64_t each = std::max(newest + 1, step - kSpan + 1); each <= step; ++each) steps[place(each)].reset();
  newest = std::max(newest, step);
}

void History::Line::put(std::int64_t step, Bytes used) {
  if (step <= newest - kSpan || step > newest || step < 0) return;
  auto& here = steps[place(step)];
  here = std::max(here.value_or(Bytes{0}), used);
}

void History::add(const Model& model, std::int64_t now) {
  const std::int64_t step = now / kStep;
  for (const Row& row : model.rows) {
    if (!row.used) continue;
    Line& line = lines_[row.key()];
    line.advance(step);
    line.put(step, *row.used);
  }
  std::erase_if(lines_, [&](const auto& each) { return each.second.newest <= step - kSpan; });
}

void History::fill(const nlohmann::json& series, const Model& model, std::int64_t now) {
  const auto seconds = series.is_object() ? series.find("step_seconds") : series.end();
  const auto lines = series.is_object() ? series.find("lines") : series.end();
  if (!series.is_object() || seconds == series.end() || !seconds->is_number() || lines == series.end() ||
      !lines->is_array())
    return;
  const double width = seconds->get<double>();
  if (!(width > 0) || width > 600) return;
  const auto gpu = number_in(series, "gpu");
  std::map<std::string, std::vector<const Row*>> rows;
  for (const Row& row : model.rows)
    if (row.governed && (!gpu || (row.gpu && static_cast<std::uint64_t>(*row.gpu) == *gpu)))
      rows[row.tenant + "/" + row.name].push_back(&row);
  for (const auto& line : *lines) {
    const auto found = rows.find(text_in(line, "name"));
    if (found == rows.end() || found->second.size() != 1 || !line.contains("maximum") || !line["maximum"].is_array())
      continue;
    Line& mine = lines_[found->second.front()->key()];
    mine.advance(now / kStep);
    const auto& maxima = line["maximum"];
    for (std::size_t i = 0; i < maxima.size(); ++i) {
      if (!maxima[i].is_number_unsigned()) continue;
      // A step of the daemon's answer may be longer than kStep, and then fills all steps that it covers.
      const double from = static_cast<double>(now) - static_cast<double>(maxima.size() - i) * width;
      for (double second = from; second < from + width; second += static_cast<double>(kStep))
        if (second >= 0) mine.put(static_cast<std::int64_t>(second) / kStep, Bytes{maxima[i].get<std::uint64_t>()});
    }
  }
}

std::vector<std::optional<Bytes>> History::last(const std::string& row, int columns, std::int64_t now) const {
  const std::int64_t count = std::clamp<std::int64_t>(columns, 0, kSpan);
  std::vector<std::optional<Bytes>> result(static_cast<std::size_t>(count));
  const auto found = lines_.find(row);
  if (found == lines_.end()) return result;
  const Line& line = found->second;
  const std::int64_t end = now / kStep + 1;
  for (std::int64_t i = 0; i < kSpan; ++i) {
    const std::int64_t step = end - kSpan + i;
    if (step < 0 || step > line.newest || step <= line.newest - kSpan || count == 0) continue;
    const auto& seen = line.steps[place(step)];
    auto& column = result[static_cast<std::size_t>(i * count / kSpan)];
    if (seen) column = std::max(column.value_or(Bytes{0}), *seen);
  }
  return result;
}

}  // namespace ration::top
