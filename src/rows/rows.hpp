// The rows of a node as plain values, read from the snapshot and the events of the HTTP interface. Used by filters and
// by the live view. Promises: any JSON may be given; a missing field, or one of another type, is unknown, never 0;
// texts are kept unchanged.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.hpp"

namespace ration::rows {

struct Process {
  std::optional<std::int64_t> pid;
  std::string user, command, state;
  std::optional<Bytes> used;
};

/// One workload on one device, or one process without a book.
struct Row {
  bool governed = false;
  bool unknown = false;  ///< true if only a daemon of root sees whether the process is governed
  std::string tenant, name, user, command, labels, state, slice, where, enforced_by, held_back_by, last_denial, device;
  std::string book_altered;  ///< the change that somebody made to its book; empty if none
  std::optional<int> gpu;
  std::optional<Bytes> used, limit, configured_limit, guarantee, peak, context, pooled;
  std::optional<Bytes> pinned, host_limit;  ///< pinned host memory of the workload, and its limit
  std::optional<std::uint64_t> run, denials, idle_seconds, limit_changes;
  std::vector<Process> processes;   ///< some or all of its processes
  std::uint64_t process_count = 0;  ///< total number of its processes

  /// Returns a key that identifies the same row in every snapshot.
  [[nodiscard]] std::string key() const;
  /// Returns `nlp/train`, or `?/python` for a process without a book.
  [[nodiscard]] std::string title() const;
  /// Returns true if less than a granule is left under the limit.
  [[nodiscard]] bool full() const;
  [[nodiscard]] bool limited() const { return limit && *limit < kUnlimited; }
};

struct Device {
  int gpu = 0;
  std::string name;
  std::optional<Bytes> total, used, free, ungoverned, unexplained;
  std::optional<Bytes> available;  ///< what a workload without a guarantee can take now
  std::optional<std::uint64_t> utilisation, temperature, seconds_to_full;
};

/// A tenant's limit on one device; exists only if the daemon has tenants.
struct TenantAccount {
  std::string tenant;
  int gpu = 0;
  std::optional<Bytes> limit;
};

struct Waiting {
  std::string lease, tenant, name, user, gpu, reason;
  std::optional<Bytes> bytes;
  std::optional<std::uint64_t> position, of, waited_seconds;
};

struct Event {
  std::int64_t id = 0;
  std::string time, type, tenant, workload, text, denial, fix;
  std::optional<int> gpu;  ///< absent if it concerns no GPU, or any
};

struct Model {
  std::vector<Device> devices;
  std::vector<Row> rows;
  std::vector<TenantAccount> accounts;
  std::vector<Waiting> queue;
  std::string problem;  ///< reason why no device could be queried; empty if devices were queried

  [[nodiscard]] const Device* device(std::optional<int> gpu) const;
};

/// Reads the snapshot's `data`.
[[nodiscard]] Model read_snapshot(const nlohmann::json& data);
[[nodiscard]] Event read_event(const nlohmann::json& event);

/// Returns a field of any JSON; absent if it is missing or of another type.
[[nodiscard]] std::optional<std::uint64_t> number_in(const nlohmann::json& row, const char* field);
[[nodiscard]] std::optional<Bytes> bytes_in(const nlohmann::json& row, const char* field);
[[nodiscard]] std::string text_in(const nlohmann::json& row, const char* field);

}  // namespace ration::rows
