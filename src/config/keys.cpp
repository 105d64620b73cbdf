#include "config/keys.hpp"

#include <algorithm>

#include "config/shapes.hpp"

namespace ration::config {
namespace rows {
namespace {

using namespace shapes;

std::vector<std::string> one_of(auto... names) { return {names...}; }

/// The keys of a match are the same for tenants and policies.
template <auto match>
std::vector<Key> with_match(std::vector<Key> keys, const std::vector<Key>& more) {
  keys.insert(keys.end(),
              {
                  {"match.users", field<kTexts, match, &Match::users>, "", "Names of users.", "[\"alice\", \"bob\"]"},
                  {"match.groups", field<kTexts, match, &Match::groups>, "", "Names of groups of users.", "[\"ml-*\"]"},
                  {"match.cgroup", field<kTexts, match, &Match::cgroup>, "", "Its control group.", "\"*/nlp/*\""},
                  {"match.service", field<kTexts, match, &Match::service>, "", "The systemd unit it belongs to.",
                   "\"jupyterhub\""},
                  {"match.image", field<kTexts, match, &Match::image>, "", "Its container's image.", "\"nlp-*\""},
                  {"match.label.*", field<kTexts, match, &Match::labels>, "",
                   "A label. Whoever starts a workload chooses its labels.", "\"nlp\""},
                  {"match.any", field<kFlag, match, &Match::any>, "false",
                   "One of these is enough; false: all that are written.", "false"},
              });
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

std::vector<Key> daemon_keys() {
  return {
      {"socket", field<kText, &Daemon::socket>, "/run/ration/ration.sock",
       "Unix socket that the command line talks to.", "\"/run/ration/ration.sock\""},
      {"listen", field<kListen, &Daemon::listen>, "127.0.0.1:7077",
       "Address and port of HTTP; empty: none. Beyond this machine a token_file is needed.", "\"127.0.0.1:7077\""},
      {"token_file", field<kText, &Daemon::token_file>, "", "File with the token that makes its sender an operator.",
       "\"/etc/ration/token\""},
      {"state", field<kText, &Daemon::state>, "/var/lib/ration", "Folder of what the daemon keeps.",
       "\"/var/lib/ration\""},
      {"sample", field<kDuration, &Daemon::sample>, "500ms", "How often the books and the driver are read.",
       "\"500ms\""},
      {"sample_idle", field<kDuration, &Daemon::sample_idle>, "5s",
       "How often while no client watches and nothing changes.", "\"5s\""},
      {"metrics_processes", field<kFlag, &Daemon::metrics_processes>, "false",
       "Metrics of single processes too: many series, and command lines in them.", "false"},
  };
}

std::vector<Key> defaults_keys() {
  return {
      {"limit", field<kSize, &Defaults::limit>, "unlimited", "Bytes a workload can never exceed.", "\"50%\""},
      {"guarantee", field<kFinite, &Defaults::guarantee>, "", "Bytes kept for it.", "\"2GiB\""},
      {"gpu", field<kText, &Defaults::gpu>, "", "Which GPU: index, UUID, auto, or several: 0,1.", "\"auto\""},
      {"on_deny", field<kOnDeny, &Defaults::on_deny>, "fail", "What a denied allocation does.", "\"wait:30s\""},
      {"account", field<kWord, &Defaults::account>, "device",
       "What counts: device, all that nvidia-smi counts; heap, allocations only.", "\"device\"",
       one_of("device", "heap")},
      {"managed", field<kWord, &Defaults::managed>, "resident",
       "What of managed memory counts: resident, what may be on the device, while the rest stays on the host; charge, "
       "all of it; ignore, nothing.",
       "\"charge\"", one_of("resident", "charge", "ignore")},
      {"tenant", field<kName, &Defaults::tenant>, "", "Who is charged where nothing else says.", "\"nlp\""},
      {"summary", field<kSummary, &Defaults::summary>, "auto", "The closing line of ration run.", "\"auto\""},
      {"growth", field<kFlag, &Defaults::growth>, "false",
       "TensorFlow and JAX start small, whatever their variables say.", "false"},
      {"framework_hints", field<kFlag, &Defaults::framework_hints>, "true",
       "Frameworks start small, and TensorFlow leaves 128 MiB unused, unless their variables say otherwise.", "true"},
      {"require_enforced", field<kFlag, &Defaults::require_enforced>, "false",
       "Start nothing that the limit would not hold for.", "false"},
      {"ungoverned", field<kOneOf<Ungoverned>, &Defaults::ungoverned>, "report",
       "What happens to a process on a GPU that is under no limit: it is shown; an alert is raised as well; it is "
       "ended after the grace.",
       "\"report\"", one_of("report", "warn", "terminate")},
      {"grace", field<kDuration, &Defaults::grace>, "30s",
       "Time between the warning and the end of an ungoverned process.", "\"30s\""},
  };
}

std::vector<Key> device_keys() {
  return {
      {"match", field<kText, &DeviceRule::match>, "", "Its index, UUID or name; * stands for any letters.",
       "\"GPU-5fd4*\""},
      {"keep_free", field<kFinite, &DeviceRule::keep_free>, "", "Bytes that are given to no workload.", "\"256MiB\""},
      {"slices", field<kSizes, &DeviceRule::slices>, "",
       "Slices that the daemon cuts it into for programs of its own user, as ration split does; one cut by hand stays.",
       "[\"6GiB\", \"6GiB\", \"rest\"]"},
  };
}

std::vector<Key> tenant_keys() {
  return with_match<&Tenant::match>(
      {{"name", field<kName, &Tenant::name>, "", "Its name.", "\"nlp\""}},
      {
          {"guarantee", field<kFinite, &Tenant::guarantee>, "", "Bytes of each GPU kept for it.", "\"8GiB\""},
          {"limit", field<kSize, &Tenant::limit>, "unlimited",
           "Bytes of each GPU that its workloads together can never exceed.", "\"16GiB\""},
          {"soft", field<kShare, &Tenant::soft>, "", "Share of its limit from which on it is warned.", "\"90%\""},
          {"priority", field<kWhole, &Tenant::priority>, "0", "Who is served first in the queue: the higher.", "10"},
          {"price", field<kPrice, &Tenant::price>, "", "What a GiB costs it for an hour.", "\"0.031 EUR/GiB·h\""},
      });
}

std::vector<Key> policy_keys() {
  return with_match<&Policy::match>(
      {}, {
              {"per", field<kOneOf<Per>, &Policy::per>, "workload",
               "Whom the limit is for: each user, each workload, all together.", "\"user\"",
               one_of("workload", "user", "all")},
              {"limit", field<kSize, &Policy::limit>, "", "Bytes of each GPU.", "\"8GiB\""},
              {"idle.after", field<kDuration, &Policy::idle, &Idle::after>, "",
               "Idle for so long, a workload is acted on.", "\"30m\""},
              {"idle.below", field<kActivity, &Policy::idle, &Idle::below>, "0% activity", "What counts as idle.",
               "\"1% activity\""},
              {"idle.action", field<kOneOf<IdleAction>, &Policy::idle, &Idle::action>, "report",
               "It is shown; asked to give memory back; stopped, with its memory moved to the host.", "\"trim\"",
               one_of("report", "trim", "suspend")},
              {"idle.suspend_after", field<kDuration, &Policy::idle, &Idle::suspend_after>, "",
               "Still idle after so long, it is suspended.", "\"2h\""},
          });
}

std::vector<Key> schedule_keys() {
  return {
      {"when", field<kHours, &Schedule::when>, "", "From, to; past midnight if the end is before the begin.",
       "\"22:00-07:00\""},
      {"days", field<kDays, &Schedule::days>, "mon-sun", "Days on which it begins.", "\"mon-fri\""},
      {"set.*", field<kSize, &Schedule::set>, "", "A tenant's limit in that time.", "\"90%\""},
  };
}

std::vector<Key> alerts_keys() {
  return {
      {"rules", field<kRules, &AlertSettings::rules>, "", "What to watch: subject, comparison, value, how long.",
       "[\"tenant.used > 90% for 5m\", \"device.time_to_full < 10m\", \"guard.lost\"]"},
      {"webhook", field<kUrl, &AlertSettings::webhook>, "",
       "Where each alert is sent as JSON. Redirects are not followed.", "\"https://hooks.example.org/ration\""},
  };
}

std::vector<Key> report_keys() {
  return {
      {"basis", field<kOneOf<Basis>, &Report::basis>, "used", "What is charged for.", "\"used\"",
       one_of("used", "limit", "max(used,guarantee)", "peak")},
      {"currency", field<kText, &Report::currency>, "EUR", "Of all prices.", "\"EUR\""},
      {"share_idle", field<kOneOf<ShareIdle>, &Report::share_idle>, "none", "How the cost of unused memory is shared.",
       "\"none\"", one_of("none", "even", "weighted")},
      {"retention", field<kDuration, &Report::retention>, "400d", "How long use is kept.", "\"400d\""},
      {"price", field<kPrice, &Report::price>, "",
       "What a GiB costs for an hour where the tenant has no price of its own.", "\"0.031 EUR/GiB·h\""},
  };
}

std::vector<Key> http_keys() {
  return {
      {"anonymous", field<kOneOf<Anonymous>, &Configuration::http, &Http::anonymous>, "totals",
       "What a request sees that shows neither a user nor a token: totals, of devices alone; all, everything but "
       "command lines, labels and processes. Read when the daemon starts.",
       "\"all\"", one_of("totals", "all")},
  };
}

std::vector<Key> containers_keys() {
  return {
      {"cdi", field<kText, &Configuration::containers, &Containers::cdi>, "auto",
       "Folder of the CDI specifications that name each tenant and slice as a device of containers; auto: "
       "/var/run/cdi, where the daemon runs as root with the books in /run/ration; none.",
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
      {"daemon", nullptr, nullptr, "The node's daemon, rationd.", rows::daemon_keys()},
      {"defaults", nullptr, nullptr,
       "What ration run does where nothing else is typed, and what holds for a workload that no tenant or policy "
       "says more about.",
       rows::defaults_keys()},
      {"device", "match", add<&Configuration::devices>,
       "A GPU, or several alike. The first that fits a GPU holds for it.", rows::device_keys()},
      {"tenant", "name", add<&Configuration::tenants>,
       "Who is charged. A workload belongs to the first tenant that fits it; without a fit, to its user. A tenant "
       "without match is entered by asking for it: ration run --tenant NAME.",
       rows::tenant_keys()},
      {"policy", nullptr, add<&Configuration::policies>,
       "Limits for all workloads that fit. The first policy that fits a workload holds for it.", rows::policy_keys()},
      {"schedule", nullptr, add<&Configuration::schedules>,
       "Limits of tenants that change with the hour. Where several schedules hold at once and name the same tenant, "
       "the first holds.",
       rows::schedule_keys()},
      {"alerts", nullptr, nullptr, "What the daemon raises an alert for.", rows::alerts_keys()},
      {"report", nullptr, nullptr, "How use is counted and charged.", rows::report_keys()},
      {"http", nullptr, nullptr, "What the HTTP interface answers.", rows::http_keys()},
      {"containers", nullptr, nullptr, "How container engines learn of this node.", rows::containers_keys()},
      {"compat", nullptr, nullptr, "Habits of other programs.", rows::compat_keys()},
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
