#include "node/http/metrics.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "admission/denials.hpp"
#include "base/clock.hpp"
#include "base/labels.hpp"
#include "base/strings.hpp"

namespace ration::node {
namespace {

std::string escaped(const std::string& value) {
  std::string text;
  for (const char letter : value) {
    if (letter == '\\' || letter == '"') text += '\\';
    text += letter == '\n' ? std::string("\\n") : std::string(1, letter);
  }
  return text;
}

/// The text of the metrics: families, each followed by its samples.
class Exposition {
 public:
  void family(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
  }
  template <typename Number>
  void sample(const std::string& labels, Number value, const char* suffix = "") {
    text_ += labels.empty() ? fmt::format("{}{} {}\n", name_, suffix, value)
                            : fmt::format("{}{}{{{}}} {}\n", name_, suffix, labels, value);
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
  const char* name_ = "";
};

std::string label(const char* name, const std::string& value) { return fmt::format("{}=\"{}\"", name, escaped(value)); }
std::string gpu_label(int gpu) { return fmt::format("gpu=\"{}\"", gpu); }
std::string where(const Counters::TenantOnGpu& key) { return label("tenant", key.tenant) + "," + gpu_label(key.gpu); }

struct TenantSums {
  Bytes live, context, pooled, limit, guarantee, peak, used;
};

std::map<Counters::TenantOnGpu, TenantSums> tenant_sums(const Snapshot& snapshot) {
  std::map<Counters::TenantOnGpu, TenantSums> sums;
  for (const AccountView& account : snapshot.accounts) {
    if (!account.gpu) continue;
    TenantSums& sum = sums[{account.tenant, *account.gpu}];
    const Bytes special = account.context + account.pooled;
    sum.live += account.used - std::min(account.used, special);
    sum.context += account.context;
    sum.pooled += account.pooled;
    sum.used += account.used;
    sum.limit += account.limit;
    sum.guarantee += account.guarantee;
    sum.peak += account.peak;
  }
  return sums;
}

void devices(Exposition& out, const Snapshot& snapshot) {
  const auto each = [&](const char* name, const char* help, const auto& samples) {
    out.family(name, "gauge", help);
    for (const DeviceView& device : snapshot.devices) samples(device, gpu_label(device.device.index));
  };
  each("ration_device_memory_total_bytes", "Memory of the device.",
       [&](const DeviceView& view, const std::string& gpu) {
         out.sample(gpu + "," + label("uuid", view.device.uuid) + "," + label("name", view.device.name),
                    view.device.total.count());
       });
  each("ration_device_memory_used_bytes", "Memory in use, according to the driver and according to the books.",
       [&](const DeviceView& view, const std::string& gpu) {
         const std::string labels = gpu + "," + label("uuid", view.device.uuid);
         if (const auto used = view.used()) out.sample(labels + ",source=\"driver\"", used->count());
         out.sample(labels + ",source=\"books\"", view.governed.count());
       });
  each("ration_device_utilisation_ratio", "Share of the time in which the device computed, according to the driver.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.device.utilisation) out.sample(gpu, *view.device.utilisation / 100.0);
       });
  each("ration_device_temperature_celsius", "Temperature of the device, according to the driver.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.device.temperature) out.sample(gpu, *view.device.temperature);
       });
  each("ration_device_time_to_full_seconds", "Time until the device is full if its use keeps growing as it does now.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.seconds_to_full) out.sample(gpu, *view.seconds_to_full);
       });
  each("ration_device_promised_bytes", "Guarantees of tenants and of running workloads.",
       [&](const DeviceView& view, const std::string& gpu) { out.sample(gpu, view.promised.count()); });
  each("ration_device_available_bytes", "Memory free for workloads without a guarantee.",
       [&](const DeviceView& view, const std::string& gpu) { out.sample(gpu, view.available.count()); });
  each("ration_ungoverned_memory_bytes", "Memory of processes that are under no limit.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.device.processes && !view.unknown_reason && view.undecided == Bytes{0})
           out.sample(gpu, view.ungoverned.count());
       });
  each("ration_device_orphaned_bytes", "Memory in use that belongs to no process that the driver lists.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.orphaned) out.sample(gpu, view.orphaned->count());
       });
  each("ration_device_unexplained_bytes", "Memory in use that neither a book nor a process explains.",
       [&](const DeviceView& view, const std::string& gpu) {
         if (view.device.processes && !view.unknown_reason && view.unexplained)
           out.sample(gpu, view.unexplained->count());
       });
}

/// Writes what is set for tenants themselves, which run workloads or do not.
void tenant_shares(Exposition& out, const TenantShares& shares) {
  out.family("ration_tenant_configured_limit_bytes", "gauge",
             "Limit of the tenant, as the configuration, a schedule or a person set it.");
  for (const auto& [key, share] : shares)
    if (share.limit < kUnlimited) out.sample(where({key.first, key.second}), share.limit.count());
  out.family("ration_tenant_configured_guarantee_bytes", "gauge",
             "Guarantee of the tenant, as the configuration or a person set it.");
  for (const auto& [key, share] : shares)
    if (share.guarantee > Bytes{0}) out.sample(where({key.first, key.second}), share.guarantee.count());
}

void tenants(Exposition& out, const Snapshot& snapshot) {
  const auto sums = tenant_sums(snapshot);
  out.family("ration_tenant_memory_bytes", "gauge",
             "Memory charged to the tenant; kind live includes the caches of its frameworks.");
  for (const auto& [key, sum] : sums) {
    out.sample(where(key) + ",kind=\"live\"", sum.live.count());
    out.sample(where(key) + ",kind=\"pooled\"", sum.pooled.count());
    out.sample(where(key) + ",kind=\"context\"", sum.context.count());
  }
  const auto each = [&](const char* name, const char* help, const auto& value) {
    out.family(name, "gauge", help);
    for (const auto& [key, sum] : sums) out.sample(where(key), value(sum).count());
  };
  each("ration_tenant_limit_bytes", "Sum of the limits of the tenant's running workloads.",
       [](const TenantSums& sum) { return sum.limit; });
  each("ration_tenant_guarantee_bytes", "Sum of the guarantees of the tenant's running workloads.",
       [](const TenantSums& sum) { return sum.guarantee; });
  each("ration_tenant_peak_bytes", "Sum of the peaks of the tenant's running workloads.",
       [](const TenantSums& sum) { return sum.peak; });
  each("ration_tenant_headroom_bytes",
       "Memory that the tenant's workloads can still take before they reach their limits.",
       [](const TenantSums& sum) { return sum.limit - std::min(sum.limit, sum.used); });
  out.family("ration_time_to_limit_seconds", "gauge",
             "Time until the tenant reaches the limits of its workloads if its use keeps growing as it does now.");
  for (const auto& [place, seconds] : snapshot.seconds_to_limit)
    out.sample(where({place.first, place.second}), seconds);
  out.family("ration_guard_up", "gauge",
             "Running workloads of the tenant; workloads with unreadable books are left out.");
  std::map<std::string, std::map<std::string, std::uint64_t>> guarded;  // unlisted functions by tenant and book
  for (const AccountView& account : snapshot.accounts) guarded[account.tenant][account.path] = account.unlisted_count;
  for (const auto& [tenant, books] : guarded) out.sample(label("tenant", tenant), books.size());
  out.family("ration_unlisted_functions", "gauge",
             "Functions of the driver that running workloads called and that ration does not know.");
  for (const auto& [tenant, books] : guarded) {
    std::uint64_t count = 0;
    for (const auto& [path, unlisted] : books) count += unlisted;
    out.sample(label("tenant", tenant), count);
  }
}

/// Writes the pinned host memory of tenants. Counts each workload once, since this memory belongs to no device.
void pinned(Exposition& out, const Snapshot& snapshot) {
  std::map<std::string, std::map<std::string, const HostView*>> hosts;  // by tenant and book
  for (const AccountView& account : snapshot.accounts)
    if (account.host.counted) hosts[account.tenant][account.path] = &account.host;
  const auto each = [&](const char* name, const char* help, const auto& value) {
    out.family(name, "gauge", help);
    for (const auto& [tenant, workloads] : hosts) {
      Bytes sum;
      for (const auto& [path, host] : workloads) sum += value(*host);
      out.sample(label("tenant", tenant), sum.count());
    }
  };
  each("ration_tenant_host_memory_bytes", "Pinned host memory of the tenant's running workloads.",
       [](const HostView& host) { return host.used; });
  each("ration_tenant_host_peak_bytes", "Sum of the peaks of pinned host memory of the tenant's running workloads.",
       [](const HostView& host) { return host.peak; });
  each("ration_tenant_host_limit_bytes",
       "Sum of the limits of pinned host memory of the tenant's workloads that have such a limit.",
       [](const HostView& host) { return host.limit < kUnlimited ? host.limit : Bytes{0}; });
}

/// Writes the denied requests. Each configured tenant has samples on each device before its first denial, because
/// Prometheus sees no increase in a series that begins with 1.
void denials(Exposition& out, const Snapshot& snapshot, const Counters& counted,
             const std::vector<std::string>& configured) {
  auto denied = counted.denied;
  auto bytes_denied = counted.denied_bytes;
  for (const std::string& tenant : configured) {
    for (const DeviceView& device : snapshot.devices) {
      const Counters::TenantOnGpu key{tenant, device.device.index};
      bytes_denied.try_emplace(key, 0);
      for (const char* reason : admission::denial_names()) denied.try_emplace({key, reason}, 0);
    }
  }
  out.family("ration_denied_total", "counter", "Requests for memory that were denied.");
  for (const auto& [kind, count] : denied) out.sample(where(kind.where) + "," + label("reason", kind.reason), count);
  out.family("ration_denied_bytes_total", "counter", "Bytes of requests that were denied.");
  for (const auto& [key, bytes] : bytes_denied) out.sample(where(key), bytes);
}

void counters(Exposition& out, const Counters& counted) {
  out.family("ration_trimmed_bytes_total", "counter", "Bytes that workloads gave back when they were asked to trim.");
  for (const auto& [key, bytes] : counted.trimmed_bytes) out.sample(where(key), bytes);
  out.family("ration_byte_seconds_total", "counter",
             "Memory multiplied by time; the label basis shows which memory is charged.");
  for (const auto& [key, sums] : counted.byte_seconds) {
    out.sample(where(key) + ",basis=\"used\"", sums.used);
    out.sample(where(key) + ",basis=\"limit\"", sums.limit);
    out.sample(where(key) + ",basis=\"guarantee\"", sums.guarantee);
  }
  out.family("ration_limit_changes_total", "counter", "Changes of limits by people.");
  for (const auto& [key, count] : counted.limit_changes)
    out.sample(label("tenant", key.first) + "," + label("by", key.second), count);
  out.family("ration_violations_total", "counter",
             "Books altered by their owners, and processes that held more than their books show.");
  for (const auto& [tenant, count] : counted.violations) out.sample(label("tenant", tenant), count);
}

void ticks(Exposition& out, const Counters& counted) {
  out.family("ration_looks_total", "counter", "How often the daemon compared the books with the driver.");
  out.sample("", counted.ticks);
  out.family("ration_look_seconds_total", "counter", "Time spent on comparing the books with the driver.");
  out.sample("", counted.tick_seconds);
}

void waits(Exposition& out, const WaitHistogram& queue, const WaitHistogram& denied) {
  out.family("ration_wait_seconds", "histogram",
             "Length of waits. kind queue: a request for a lease waited until the lease was granted; kind denied: a "
             "request for memory waited until it was denied.");
  for (const auto& [kind, waited] : {std::pair{"kind=\"queue\"", &queue}, {"kind=\"denied\"", &denied}}) {
    for (std::size_t i = 0; i < std::size(WaitHistogram::kBounds); ++i)
      out.sample(fmt::format("{},le=\"{}\"", kind, WaitHistogram::kBounds[i]), waited->within[i], "_bucket");
    out.sample(fmt::format("{},le=\"+Inf\"", kind), waited->count, "_bucket");
    out.sample(kind, waited->seconds, "_sum");
    out.sample(kind, waited->count, "_count");
  }
}

/// Returns the labels that name a Kubernetes container, from the label that the hook enters
/// (`container=NAMESPACE/POD/CONTAINER`). Returns an empty text for any other workload, and if a user wrote the label,
/// since a user could name any pod.
std::string pod_labels(const AccountView& account) {
  if (account.owner != 0 && account.owner != ::getuid()) return "";
  const auto labels = parse_labels(account.labels);
  const auto engine = labels.find("engine"), name = labels.find("container");
  if (engine == labels.end() || engine->second != "kubernetes" || name == labels.end()) return "";
  const auto parts = split(name->second, '/');
  if (parts.size() != 3) return "";
  return fmt::format(",{},{},{}", label("namespace", std::string(parts[0])), label("pod", std::string(parts[1])),
                     label("container", std::string(parts[2])));
}

struct WorkloadSums {
  Bytes used, limit, guarantee;
  std::uint64_t idle_ns = UINT64_MAX;
  bool waiting = false;
};

void workloads(Exposition& out, const Snapshot& snapshot, std::size_t most) {
  std::map<std::string, std::string> pods;  // by tenant and workload, because users may choose equal names
  std::map<std::pair<std::string, std::string>, WorkloadSums> on_gpus;  // by tenant, workload and GPU
  std::size_t left_out = 0;
  for (const AccountView& account : snapshot.accounts) {
    const std::string who = label("tenant", account.tenant) + "," + label("workload", account.workload);
    if (pods.size() >= most && pods.count(who) == 0) {
      ++left_out;
      continue;
    }
    pods.emplace(who, pod_labels(account));
    if (!account.gpu) continue;
    WorkloadSums& sum = on_gpus[{who, gpu_label(*account.gpu)}];
    sum.used += account.used;
    sum.limit += account.limit;
    sum.guarantee += account.guarantee;
    sum.idle_ns = std::min(sum.idle_ns, account.idle_ns.value_or(0));
    sum.waiting = sum.waiting || account.waiting;
  }
  out.family("ration_workload_info", "gauge",
             "Always 1; the labels name a running workload and, if it is a container of a pod, that pod.");
  for (const auto& [who, pod] : pods) out.sample(who + pod, 1);
  const auto each = [&](const char* name, const char* help, const auto& value) {
    out.family(name, "gauge", help);
    for (const auto& [key, sum] : on_gpus) out.sample(key.first + "," + key.second, value(sum));
  };
  each("ration_workload_memory_bytes", "Memory charged to the workload.",
       [](const WorkloadSums& sum) { return sum.used.count(); });
  each("ration_workload_limit_bytes", "Limit in force of the workload.",
       [](const WorkloadSums& sum) { return sum.limit.count(); });
  each("ration_workload_guarantee_bytes", "Guarantee of the workload.",
       [](const WorkloadSums& sum) { return sum.guarantee.count(); });
  each("ration_workload_idle_seconds", "Time since the workload last allocated or freed memory.",
       [](const WorkloadSums& sum) { return static_cast<double>(sum.idle_ns) / kSecond; });
  each("ration_workload_waiting", "1 if one of the workload's processes waits for memory, else 0.",
       [](const WorkloadSums& sum) { return sum.waiting ? 1 : 0; });
  out.family("ration_workloads_truncated", "gauge", "Accounts without a sample, because there are too many accounts.");
  out.sample("", left_out);
}

void processes(Exposition& out, const Snapshot& snapshot, std::size_t most) {
  std::size_t shown = 0, all = 0;
  out.family("ration_process_memory_bytes", "gauge", "Memory of a governed process, according to its book.");
  for (const AccountView& account : snapshot.accounts) {
    for (const ProcessView& process : account.processes) {
      ++all;
      if (shown >= most || !account.gpu) continue;
      ++shown;
      out.sample(where({account.tenant, *account.gpu}) + "," + label("workload", account.workload) +
                     fmt::format(",pid=\"{}\"", process.pid),
                 process.used.count());
    }
  }
  out.family("ration_processes_truncated", "gauge",
             "Processes without a sample, because there are too many processes.");
  out.sample("", all - shown);
}

}  // namespace

std::string metrics_text(const Snapshot& snapshot, const Counters& counted, const MetricsOptions& options) {
  Exposition out;
  out.family("ration_build_info", "gauge", "Always 1; the labels contain the versions of ration and of the driver.");
  out.sample(label("version", RATION_VERSION) + "," + label("driver", snapshot.driver_version), 1);
  devices(out, snapshot);
  if (!options.totals_only) {
    tenant_shares(out, options.tenant_shares);
    tenants(out, snapshot);
    pinned(out, snapshot);
    workloads(out, snapshot, options.most_workloads);
    denials(out, snapshot, counted, options.tenants);
    counters(out, counted);
    if (options.processes) processes(out, snapshot, options.most_processes);
    out.family("ration_queue_bytes", "gauge", "Memory that the workloads wait for, by tenant.");
    for (const auto& [tenant, bytes] : options.queue_bytes) out.sample(label("tenant", tenant), bytes.count());
  }
  ticks(out, counted);
  out.family("ration_config_last_reload_successful", "gauge",
             "1 if the daemon accepted the configuration when it last read it, else 0.");
  out.sample("", options.reload.rejected.empty() ? 1 : 0);
  out.family("ration_config_last_reload_success_timestamp_seconds", "gauge",
             "Time at which the daemon last accepted a configuration.");
  out.sample("", static_cast<double>(options.reload.accepted_ns / 1'000'000) / 1e3);
  waits(out, options.queue_waits, counted.denied_after);
  out.family("ration_queue_length", "gauge", "Workloads that wait for a lease.");
  out.sample("", options.queue_length);
  out.family("ration_stream_clients", "gauge", "Clients of the event stream.");
  out.sample("", options.stream_clients);
  return out.take();
}

}  // namespace ration::node
