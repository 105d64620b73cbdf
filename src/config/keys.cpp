#include "config/keys.hpp"

#include <algorithm>

#include "config/shapes.hpp"

namespace ration::config {
namespace rows {
namespace {

using namespace shapes;

std::vector<std::string> one_of(auto... names) { return {names...}; }

/// Returns `keys`, followed by the keys of a match, which tenants and policies have in common, and by `more`.
template <auto match>
std::vector<Key> with_match(std::vector<Key> keys, const std::vector<Key>& more) {
  keys.insert(
      keys.end(),
      {
          {"match.users", field<kTexts, match, &Match::users>, "", "Names of users.", "[\"alice\", \"bob\"]"},
          {"match.groups", field<kTexts, match, &Match::groups>, "", "Names of groups of users.", "[\"ml-*\"]"},
          {"match.cgroup", field<kTexts, match, &Match::cgroup>, "", "Control group of the process.", "\"*/nlp/*\""},
          {"match.service", field<kTexts, match, &Match::service>, "", "Systemd unit that the process belongs to.",
           "\"jupyterhub\""},
          {"match.image", field<kTexts, match, &Match::image>, "", "Image of the process's container.", "\"nlp-*\""},
          {"match.label.*", field<kTexts, match, &Match::labels>, "",
           "A label of the workload. The user who starts the workload chooses its labels.", "\"nlp\""},
          {"match.any", field<kFlag, match, &Match::any>, "false",
           "true: one matching entry is enough; false: all must match.", "false"},
      });
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::vector<Key> daemon_keys() {
  return {
      {"socket", field<kText, &Daemon::socket>, "/run/ration/ration.sock",
       "Unix socket of the daemon, for the command line.", "\"/run/ration/ration.sock\""},
      {"listen", field<kListen, &Daemon::listen>, "127.0.0.1:7077",
       "Address and port for HTTP; empty: no port. An address that other machines can reach needs a token_file.",
       "\"127.0.0.1:7077\""},
      {"token_file", field<kText, &Daemon::token_file>, "",
       "File with the token that gives a request an operator's rights.", "\"/etc/ration/token\""},
      {"state", field<kText, &Daemon::state>, "/var/lib/ration", "Folder of the daemon's database and state.",
       "\"/var/lib/ration\""},
      {"sample", field<kDuration, &Daemon::sample>, "500ms",
       "Time between two ticks, which read the books and the driver.", "\"500ms\""},
      {"sample_idle", field<kDuration, &Daemon::sample_idle>, "5s",
       "Time between two ticks while no client watches and nothing changes.", "\"5s\""},
      {"metrics_processes", field<kFlag, &Daemon::metrics_processes>, "false",
       "true: /metrics also has a series for each governed process.", "false"},
  };
}

std::vector<Key> defaults_keys() {
  return {
      {"limit", field<kSize, &Defaults::limit>, "unlimited", "Limit of a workload on each GPU.", "\"50%\""},
      {"host_limit", field<kSize, &Defaults::host_limit>, "unlimited",
       "Limit of a workload's pinned host memory; 50% is half of the machine's memory.", "\"16GiB\""},
      {"guarantee", field<kFinite, &Defaults::guarantee>, "", "Bytes of each GPU kept for a workload.", "\"2GiB\""},
      {"gpu", field<kText, &Defaults::gpu>, "", "GPU: index, UUID, auto, or several: 0,1.", "\"auto\""},
      {"on_deny", field<kOnDeny, &Defaults::on_deny>, "fail", "What a denied allocation does.", "\"wait:30s\""},
      {"account", field<kWord, &Defaults::account>, "device",
       "Memory that counts against the limit. device: all that nvidia-smi counts; heap: allocations only.",
       "\"device\"", one_of("device", "heap")},
      {"managed", field<kWord, &Defaults::managed>, "resident",
       "Managed memory that counts against the limit. resident: the part that may be on the GPU, while the rest stays "
       "on the host; "
       "charge: all of it; ignore: none.",
       "\"charge\"", one_of("resident", "charge", "ignore")},
      {"tenant", field<kName, &Defaults::tenant>, "", "Tenant that is charged if nothing else names a tenant.",
       "\"nlp\""},
      {"summary", field<kSummary, &Defaults::summary>, "auto",
       "Summary that ration run prints at the end; auto: on a terminal, or if the program failed after a denial.",
       "\"auto\""},
      {"growth", field<kFlag, &Defaults::growth>, "false",
       "TensorFlow and JAX start small, whatever their variables say.", "false"},
      {"framework_hints", field<kFlag, &Defaults::framework_hints>, "true",
       "Frameworks start small, and TensorFlow leaves 128 MiB unused, unless their variables say otherwise.", "true"},
      {"require_enforced", field<kFlag, &Defaults::require_enforced>, "false",
       "Start no program on which the limit cannot be enforced.", "false"},
      {"ungoverned", field<kOneOf<Ungoverned>, &Defaults::ungoverned>, "report",
       "Treatment of a process that holds GPU memory under no limit. report: show it; warn: also raise an alert; "
       "terminate: end it after the grace period.",
       "\"report\"", one_of("report", "warn", "terminate")},
      {"grace", field<kDuration, &Defaults::grace>, "30s",
       "Time between the warning and the end of an ungoverned process.", "\"30s\""},
  };
}

std::vector<Key> device_keys() {
  return {
      {"match", field<kText, &DeviceRule::match>, "", "Index, UUID or name of the GPU; * stands for any characters.",
       "\"GPU-5fd4*\""},
      {"keep_free", field<kFinite, &DeviceRule::keep_free>, "", "Bytes that no workload gets.", "\"256MiB\""},
      {"slices", field<kSizes, &DeviceRule::slices>, "",
       "Slices into which the daemon cuts the GPU for programs of its own user. Slices made by ration split stay.",
       "[\"6GiB\", \"6GiB\", \"rest\"]"},
  };
}

std::vector<Key> tenant_keys() {
  return with_match<&Tenant::match>(
      {{"name", field<kName, &Tenant::name>, "", "Name of the tenant.", "\"nlp\""}},
      {
          {"guarantee", field<kFinite, &Tenant::guarantee>, "", "Bytes of each GPU kept for the tenant.", "\"8GiB\""},
          {"limit", field<kSize, &Tenant::limit>, "unlimited",
           "Limit on each GPU for all workloads of the tenant together.", "\"16GiB\""},
          {"soft", field<kShare, &Tenant::soft>, "", "Share of the limit above which the daemon warns the tenant.",
           "\"90%\""},
          {"priority", field<kWhole, &Tenant::priority>, "0", "Place in the queue: a higher number goes first.", "10"},
          {"price", field<kPrice, &Tenant::price>, "", "Price of a GiB for an hour.", "\"0.031 EUR/GiB·h\""},
      });
}

std::vector<Key> policy_keys() {
  return with_match<&Policy::match>(
      {}, {
              {"per", field<kOneOf<Per>, &Policy::per>, "workload",
               "Who has the limit: each user, each workload, or all together.", "\"user\"",
               one_of("workload", "user", "all")},
              {"limit", field<kSize, &Policy::limit>, "", "Limit on each GPU.", "\"8GiB\""},
              {"host_limit", field<kSize, &Policy::host_limit>, "",
               "Limit of a workload's pinned host memory; 50% is half of the machine's memory.", "\"16GiB\""},
              {"record", field<kFlag, &Policy::record>, "false",
               "Keep a recording of each run that ration run starts, in the folder recordings of the daemon's state.",
               "true"},
              {"idle.after", field<kDuration, &Policy::idle, &Idle::after>, "",
               "Time for which a workload must be idle before the action.", "\"30m\""},
              {"idle.below", field<kActivity, &Policy::idle, &Idle::below>, "0% activity",
               "Highest activity that counts as idle.", "\"1% activity\""},
              {"idle.action", field<kOneOf<IdleAction>, &Policy::idle, &Idle::action>, "report",
               "Action. report: show the workload as idle; trim: ask it to give memory back; suspend: stop it and move "
               "its memory to the host.",
               "\"trim\"", one_of("report", "trim", "suspend")},
              {"idle.suspend_after", field<kDuration, &Policy::idle, &Idle::suspend_after>, "",
               "Time after which a workload that is still idle is suspended.", "\"2h\""},
          });
}

std::vector<Key> schedule_keys() {
  return {
      {"when", field<kHours, &Schedule::when>, "",
       "Start and end; if the end is earlier than the start, the end is on the next day.", "\"22:00-07:00\""},
      {"days", field<kDays, &Schedule::days>, "mon-sun", "Days on which the schedule begins.", "\"mon-fri\""},
      {"set.*", field<kSize, &Schedule::set>, "", "Limit of a tenant during that time.", "\"90%\""},
  };
}

std::vector<Key> alerts_keys() {
  return {
      {"rules", field<kRules, &AlertSettings::rules>, "", "Conditions to watch: subject, comparison, value, duration.",
       "[\"tenant.used > 90% for 5m\", \"device.time_to_full < 10m\", \"guard.lost\"]"},
      {"webhook", field<kUrl, &AlertSettings::webhook>, "",
       "URL that receives each alert as JSON. Redirects are not followed.", "\"https://hooks.example.org/ration\""},
  };
}

std::vector<Key> report_keys() {
  return {
      {"basis", field<kOneOf<Basis>, &Report::basis>, "used", "Memory that is charged.", "\"used\"",
       one_of("used", "limit", "max(used,guarantee)", "peak")},
      {"currency", field<kText, &Report::currency>, "EUR", "Currency of all prices.", "\"EUR\""},
      {"share_idle", field<kOneOf<ShareIdle>, &Report::share_idle>, "none",
       "Division of the cost of unused memory among tenants.", "\"none\"", one_of("none", "even", "weighted")},
      {"retention", field<kDuration, &Report::retention>, "400d",
       "Time for which records of use are kept, at least a day.", "\"400d\""},
      {"price", field<kPrice, &Report::price>, "", "Price of a GiB for an hour if the tenant has no price of its own.",
       "\"0.031 EUR/GiB·h\""},
  };
}

std::vector<Key> recordings_keys() {
  return {
      {"keep", field<kFinite, &Configuration::recordings, &Recordings::keep>, "1GiB",
       "Most bytes of recordings that are kept for each user. Only recordings that policies asked for count; the "
       "oldest is removed first. 50% is half of the file system.",
       "\"1GiB\""},
  };
}

std::vector<Key> http_keys() {
  return {
      {"anonymous", field<kOneOf<Anonymous>, &Configuration::http, &Http::anonymous>, "totals",
       "Data that a request with neither a user nor a token may read. totals: the totals of the GPUs; all: everything "
       "except command lines, labels and processes. The daemon reads this key only when it starts.",
       "\"all\"", one_of("totals", "all")},
  };
}

std::vector<Key> containers_keys() {
  return {
      {"cdi", field<kText, &Configuration::containers, &Containers::cdi>, "auto",
       "Folder of the CDI specifications that describe each tenant and slice as a device to container engines; auto: "
       "/var/run/cdi if the daemon runs as root with its books in /run/ration; none: no specifications.",
       "\"/var/run/cdi\""},
  };
}

std::vector<Key> compat_keys() {
  return {
      {"hami", field<kFlag, &Configuration::compat_hami>, "false", "Read CUDA_DEVICE_MEMORY_LIMIT as a limit.",
       "false"},
  };
}

}  // namespace
}  // namespace rows

const Table& sections() {
  static const Table all{
      {"daemon", nullptr, nullptr, "The daemon, rationd.", rows::daemon_keys()},
      {"defaults", nullptr, nullptr,
       "Values of ration run if no option is given, and of workloads if no tenant or policy gives other values.",
       rows::defaults_keys()},
      {"device", "match", add<&Configuration::devices>,
       "A GPU, or all GPUs that match. The first [[device]] that matches a GPU applies to it.", rows::device_keys()},
      {"tenant", "name", add<&Configuration::tenants>,
       "A tenant that is charged. A workload belongs to the first tenant that matches it, else to its user. A tenant "
       "without match is chosen by name: ration run --tenant NAME.",
       rows::tenant_keys()},
      {"policy", nullptr, add<&Configuration::policies>,
       "Limits for all workloads that match. The first policy that matches a workload applies to it.",
       rows::policy_keys()},
      {"schedule", nullptr, add<&Configuration::schedules>,
       "Limits of tenants that change with the hour. If several schedules apply at once and name the same tenant, the "
       "first one wins.",
       rows::schedule_keys()},
      {"alerts", nullptr, nullptr, "Conditions for which the daemon raises alerts.", rows::alerts_keys()},
      {"report", nullptr, nullptr, "Records of use and their charges.", rows::report_keys()},
      {"recordings", nullptr, nullptr, "Recordings that policies asked for.", rows::recordings_keys()},
      {"http", nullptr, nullptr, "Answers of the HTTP interface.", rows::http_keys()},
      {"containers", nullptr, nullptr, "Descriptions of this node for container engines.", rows::containers_keys()},
      {"compat", nullptr, nullptr, "Variables of other programs.", rows::compat_keys()},
  };
  return all;
}

const Section* find_section(const Table& table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Section& section) { return name == section.name; });
  return found == table.end() ? nullptr : &*found;
}

const Key* find_key(const Section& section, const std::string& name) {
  for (const Key& key : section.keys) {
    const std::string_view known = key.name;
    if (name == known ||
        (key.any_names() && name.size() >= known.size() && name.starts_with(known.substr(0, known.size() - 1))))
      return &key;
  }
  return nullptr;
}

std::vector<std::string> known_below(const Section& section, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Key& key : section.keys) {
    const std::string name = key.name;
    if (name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    const std::string next = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), next) == names.end()) names.push_back(next);
  }
  return names;
}

}  // namespace ration::config
