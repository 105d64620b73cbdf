#include "top/history.hpp"

#include <algorithm>

namespace ration::top {
namespace {

constexpr auto kSpan = static_cast<std::int64_t>(History::kSteps);
constexpr std::uint64_t kMaxGpu = 1'000'000;  // largest index of a device that an answer may name

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

History::Maxima History::Line::maxima(int columns, std::int64_t now) const {
  Maxima result(static_cast<std::size_t>(std::max(columns, 0)));
  const std::int64_t first = now / kStep + 1 - kSpan;
  for (std::int64_t column = 0; column < columns; ++column) {
    const std::int64_t from = column * kSpan / columns, to = std::max(from + 1, (column + 1) * kSpan / columns);
    auto& most = result[static_cast<std::size_t>(column)];
    for (std::int64_t step = first + from; step < first + to; ++step) {
      if (step < 0 || step > newest || step <= newest - kSpan) continue;
      if (const auto& seen = steps[place(step)]) most = std::max(most.value_or(Bytes{0}), *seen);
    }
  }
  return result;
}

void History::add(const Model& model, std::int64_t now) {
  const std::int64_t step = now / kStep;
  const auto note = [step](Line& line, Bytes used) {
    line.advance(step);
    line.put(step, used);
  };
  std::map<int, std::map<std::string, Bytes>> sums;
  for (const Row& row : model.rows) {
    if (!row.used) continue;
    note(rows_[row.key()], *row.used);
    if (row.governed && row.gpu) sums[*row.gpu][row.tenant] += *row.used;
  }
  for (const auto& [gpu, tenants] : sums)
    for (const auto& [tenant, used] : tenants) note(tenants_[gpu][tenant], used);
  for (const Device& device : model.devices)
    if (device.used) note(devices_[device.gpu], *device.used);
  const auto is_old = [step](const auto& each) { return each.second.newest <= step - kSpan; };
  std::erase_if(rows_, is_old);
  std::erase_if(devices_, is_old);
  for (auto& [gpu, tenants] : tenants_) std::erase_if(tenants, is_old);
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
  const std::string by = text_in(series, "by");
  std::map<std::string, std::vector<const Row*>> rows;
  for (const Row& row : model.rows)
    if (row.governed && (!gpu || (row.gpu && static_cast<std::uint64_t>(*row.gpu) == *gpu)))
      rows[row.tenant + "/" + row.name].push_back(&row);
  const auto line_of = [&](const std::string& name) -> Line* {
    if (by == "workload") {
      const auto found = rows.find(name);
      return found == rows.end() || found->second.size() != 1 ? nullptr : &rows_[found->second.front()->key()];
    }
    if (!gpu || *gpu > kMaxGpu) return nullptr;
    if (by == "device") return &devices_[static_cast<int>(*gpu)];
    return by == "tenant" ? &tenants_[static_cast<int>(*gpu)][name] : nullptr;
  };
  for (const auto& line : *lines) {
    if (!line.is_object() || !line.contains("maximum") || !line["maximum"].is_array()) continue;
    Line* mine = line_of(text_in(line, "name"));
    if (mine == nullptr) continue;
    mine->advance(now / kStep);
    const auto& maxima = line["maximum"];
    for (std::size_t i = 0; i < maxima.size(); ++i) {
      if (!maxima[i].is_number_unsigned()) continue;
      // A step of the daemon's answer may be longer than kStep, and then fills all steps that it covers.
      const double from = static_cast<double>(now) - static_cast<double>(maxima.size() - i) * width;
      for (double second = from; second < from + width; second += static_cast<double>(kStep))
        if (second >= 0) mine->put(static_cast<std::int64_t>(second) / kStep, Bytes{maxima[i].get<std::uint64_t>()});
    }
  }
}

History::Maxima History::of_row(const std::string& key, int columns, std::int64_t now) const {
  const auto found = rows_.find(key);
  return (found == rows_.end() ? Line{} : found->second).maxima(columns, now);
}

History::Maxima History::of_device(int gpu, int columns, std::int64_t now) const {
  const auto found = devices_.find(gpu);
  return (found == devices_.end() ? Line{} : found->second).maxima(columns, now);
}

std::map<std::string, History::Maxima> History::of_tenants(int gpu, int columns, std::int64_t now) const {
  std::map<std::string, Maxima> result;
  if (const auto found = tenants_.find(gpu); found != tenants_.end())
    for (const auto& [tenant, line] : found->second) result[tenant] = line.maxima(columns, now);
  return result;
}

std::optional<int> History::column_of(std::int64_t second, int columns, std::int64_t now) {
  const std::int64_t end = (now / kStep + 1) * kStep, span = kSpan * kStep;
  if (second < end - span || second >= end) return std::nullopt;
  return static_cast<int>((second - (end - span)) * columns / span);
}

}  // namespace ration::top
