#include "trace/import/imported.hpp"

#include <algorithm>
#include <filesystem>

#include "base/utf8.hpp"

namespace ration::trace {

Imported::Imported(const std::string& path) {
  const std::string name = valid_utf8(std::filesystem::path(path).stem().string());
  header_.workload = name;
  header_.deep = true;
  header_.booked = false;
  header_.complete = true;
  header_.processes.push_back({0, 0, name});
  header_.sites.emplace_back();
  need_device(0);
}

void Imported::need_device(std::size_t index) {
  if (header_.devices.size() <= index) header_.devices.resize(index + 1);
}

std::uint32_t Imported::site(std::string_view text) {
  if (text.empty()) return 0;
  const auto known = sites_.find(text);
  if (known != sites_.end()) return known->second;
  header_.sites.push_back(valid_utf8(text));
  return sites_[std::string(text)] = static_cast<std::uint32_t>(header_.sites.size() - 1);
}

std::unique_ptr<MemoryRecording> Imported::finish() {
  std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
  return std::make_unique<MemoryRecording>(std::move(header_), std::move(events_));
}

}  // namespace ration::trace
