#include "rows/filter_fields.hpp"

#include <algorithm>

namespace ration::rows {
namespace {

using Number = std::optional<std::uint64_t>;

Number count(const std::optional<Bytes>& bytes) { return bytes ? Number(bytes->count()) : std::nullopt; }

Number left(const Row& row) {
  if (!row.used || !row.limited()) return std::nullopt;
  return (*row.limit - std::min(*row.limit, *row.used)).count();
}

std::string join(const Row& row, std::string Process::*part) {
  std::string all;
  for (const Process& process : row.processes) all += (all.empty() ? "" : " ") + process.*part;
  return all;
}

Number first_pid(const Row& row) {
  if (row.processes.empty() || !row.processes.front().pid) return std::nullopt;
  return static_cast<std::uint64_t>(*row.processes.front().pid);
}

Field size(const char* name, Number (*number)(const Row&)) { return {name, FieldKind::kSize, number, nullptr}; }
Field text(const char* name, std::string (*text)(const Row&)) { return {name, FieldKind::kText, nullptr, text}; }

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> all{
      size("used", [](const Row& row) { return count(row.used); }),
      size("limit", [](const Row& row) { return row.limited() ? count(row.limit) : std::nullopt; }),
      size("guarantee", [](const Row& row) { return count(row.guarantee); }),
      size("peak", [](const Row& row) { return count(row.peak); }),
      size("context", [](const Row& row) { return count(row.context); }),
      size("pooled", [](const Row& row) { return count(row.pooled); }),
      size("pinned", [](const Row& row) { return count(row.pinned); }),
      size("host_limit", [](const Row& row) { return count(row.host_limit); }),
      size("left", left),
      {"denied", FieldKind::kCount, [](const Row& row) { return row.denials; }, nullptr},
      {"pid", FieldKind::kCount, first_pid, nullptr},
      {"gpu", FieldKind::kCount,
       [](const Row& row) { return row.gpu ? Number(static_cast<std::uint64_t>(*row.gpu)) : std::nullopt; }, nullptr},
      {"run", FieldKind::kCount, [](const Row& row) { return row.run; }, nullptr},
      {"changes", FieldKind::kCount, [](const Row& row) { return row.limit_changes; }, nullptr},
      {"idle", FieldKind::kDuration, [](const Row& row) { return row.idle_seconds; }, nullptr},
      {"governed", FieldKind::kYesNo, [](const Row& row) { return Number(row.governed ? 1 : 0); }, nullptr},
      {"full", FieldKind::kYesNo, [](const Row& row) { return Number(row.full() ? 1 : 0); }, nullptr},
      text("name", [](const Row& row) { return row.governed ? row.name : row.title().substr(2); }),
      text("workload", [](const Row& row) { return row.name; }),
      text("device", [](const Row& row) { return row.device; }),
      text("tenant", [](const Row& row) { return row.tenant; }),
      text("user", [](const Row& row) { return row.user; }),
      text("state", [](const Row& row) { return row.state; }),
      text("label", [](const Row& row) { return row.labels; }),
      text("slice", [](const Row& row) { return row.slice; }),
      text("where", [](const Row& row) { return row.where; }),
      text("command", [](const Row& row) { return row.command + " " + join(row, &Process::command); })};
  return all;
}

const Field* field_named(std::string_view name) {
  const auto found =
      std::find_if(fields().begin(), fields().end(), [&](const Field& field) { return name == field.name; });
  return found == fields().end() ? nullptr : &*found;
}

std::string field_names() {
  std::string names;
  for (const Field& field : fields()) names += (names.empty() ? "" : ", ") + std::string(field.name);
  return names;
}

}  // namespace ration::rows
