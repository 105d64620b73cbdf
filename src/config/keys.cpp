#include "config/keys.hpp"

#include <algorithm>

namespace ration::config {

const std::vector<Section>& sections() {
  static const std::vector<Section> all{
      {"daemon", nullptr, false, "The node's daemon, rationd."},
      {"defaults", nullptr, false,
       "What ration run does where nothing else is typed, and what holds for a workload that no tenant or policy "
       "says more about."},
      {"device", "match", true, "A GPU, or several alike. The first that fits a GPU holds for it."},
      {"tenant", "name", true,
       "Who is charged. A workload belongs to the first tenant that fits it; without a fit, to its user. A tenant "
       "without match is entered by asking for it: ration run --tenant NAME."},
      {"policy", nullptr, true,
       "Limits for all workloads that fit. The first policy that fits a workload holds for it."},
      {"schedule", nullptr, true,
       "Limits of tenants that change with the hour. Where several schedules hold at once and name the same tenant, "
       "the "
       "first holds."},
      {"alerts", nullptr, false, "What the daemon raises an alert for."},
      {"report", nullptr, false, "How use is counted and charged."},
      {"containers", nullptr, false, "How container engines are told of this node."},
      {"compat", nullptr, false, "Habits of other programs."},
  };
  return all;
}

const Section* find_section(const std::string& name) {
  for (const Section& section : sections()) {
    if (name == section.name) return &section;
  }
  return nullptr;
}

const std::vector<Key>& keys() {
  // What a match can ask for is the same for tenants and policies.
  static const std::vector<Key> all = [] {
    std::vector<Key> made{
        {"daemon", "socket", Shape::kText, "/run/ration/ration.sock", "Unix socket that the command line talks to.",
         "\"/run/ration/ration.sock\""},
        {"daemon", "listen", Shape::kListen, "127.0.0.1:7077",
         "Address and port of HTTP; empty: none. Beyond this machine a token_file is needed.", "\"127.0.0.1:7077\""},
        {"daemon", "token_file", Shape::kText, "", "File whose content makes an operator of whoever sends it.",
         "\"/etc/ration/token\""},
        {"daemon", "state", Shape::kText, "/var/lib/ration", "Folder of what the daemon keeps.", "\"/var/lib/ration\""},
        {"daemon", "sample", Shape::kDuration, "500ms", "How often the books and the driver are read.", "\"500ms\""},
        {"daemon", "sample_idle", Shape::kDuration, "5s", "How often while nobody looks and nothing changes.",
         "\"5s\""},
        {"daemon", "metrics_processes", Shape::kFlag, "false",
         "Metrics of single processes too: many series, and command lines in them.", "false"},

        {"defaults", "limit", Shape::kSize, "unlimited", "Bytes a workload can never exceed.", "\"50%\""},
        {"defaults", "guarantee", Shape::kSize, "", "Bytes kept for it.", "\"2GiB\""},
        {"defaults", "gpu", Shape::kText, "", "Which GPU: index, UUID, auto, or several: 0,1.", "\"auto\""},
        {"defaults", "on_deny", Shape::kOnDeny, "fail", "What a denied allocation does.", "\"wait:30s\""},
        {"defaults",
         "account",
         Shape::kChoice,
         "device",
         "What counts: device, all that nvidia-smi counts; heap, allocations only.",
         "\"device\"",
         {"device", "heap"}},
        {"defaults",
         "managed",
         Shape::kChoice,
         "resident",
         "What of managed memory counts: resident, what may be on the device, while the rest stays on the host; "
         "charge, "
         "all of it; ignore, nothing.",
         "\"charge\"",
         {"resident", "charge", "ignore"}},
        {"defaults", "tenant", Shape::kName, "", "Who is charged where nothing else says.", "\"nlp\""},
        {"defaults", "summary", Shape::kSummary, "auto", "The closing line of ration run.", "\"auto\""},
        {"defaults", "growth", Shape::kFlag, "false", "TensorFlow and JAX start small, whatever their variables say.",
         "false"},
        {"defaults", "framework_hints", Shape::kFlag, "true", "Frameworks start small unless told otherwise.", "true"},
        {"defaults", "require_enforced", Shape::kFlag, "false", "Start nothing that the limit would not hold for.",
         "false"},
        {"defaults",
         "ungoverned",
         Shape::kChoice,
         "report",
         "What happens to a process on a GPU that is under no limit: it is shown; an alert is raised as well; it is "
         "ended after the grace.",
         "\"report\"",
         {"report", "warn", "terminate"}},
        {"defaults", "grace", Shape::kDuration, "30s", "Time between the warning and the end of an ungoverned process.",
         "\"30s\""},

        {"device", "match", Shape::kText, "", "Its index, UUID or name; * stands for any letters.", "\"GPU-5fd4*\""},
        {"device", "keep_free", Shape::kSize, "", "Bytes that nobody is given.", "\"256MiB\""},
        {"device", "slices", Shape::kSizes, "",
         "Slices that the daemon cuts it into for programs of its own user, as ration split does; one cut by hand "
         "stays.",
         "[\"6GiB\", \"6GiB\", \"rest\"]"},

        {"tenant", "name", Shape::kName, "", "Its name.", "\"nlp\""},
        {"tenant", "guarantee", Shape::kSize, "", "Bytes of each GPU kept for it.", "\"8GiB\""},
        {"tenant", "limit", Shape::kSize, "unlimited",
         "Bytes of each GPU that its workloads together can never exceed.", "\"16GiB\""},
        {"tenant", "soft", Shape::kShare, "", "Share of its limit from which on it is warned.", "\"90%\""},
        {"tenant", "priority", Shape::kWhole, "0", "Who is served first in the queue: the higher.", "10"},
        {"tenant", "price", Shape::kPrice, "", "What a GiB costs it for an hour.", "\"0.031 EUR/GiB·h\""},

        {"policy",
         "per",
         Shape::kChoice,
         "workload",
         "Whom the limit is for: each user, each workload, all together.",
         "\"user\"",
         {"workload", "user", "all"}},
        {"policy", "limit", Shape::kSize, "", "Bytes of each GPU.", "\"8GiB\""},
        {"policy", "idle.after", Shape::kDuration, "", "Idle for so long, a workload is acted on.", "\"30m\""},
        {"policy", "idle.below", Shape::kActivity, "0% activity", "What counts as idle.", "\"1% activity\""},
        {"policy",
         "idle.action",
         Shape::kChoice,
         "report",
         "It is shown; asked to give memory back; stopped, with its memory moved to the host.",
         "\"trim\"",
         {"report", "trim", "suspend"}},

        {"schedule", "when", Shape::kHours, "", "From, to; past midnight if the end is before the begin.",
         "\"22:00-07:00\""},
        {"schedule", "days", Shape::kDays, "mon-sun", "Days on which it begins.", "\"mon-fri\""},
        {"schedule", "set.*", Shape::kSize, "", "A tenant's limit in that time.", "\"90%\""},

        {"alerts", "rules", Shape::kRules, "", "What to watch: subject, comparison, value, how long.",
         "[\"tenant.used > 90% for 5m\", \"device.time_to_full < 10m\", \"guard.lost\"]"},
        {"alerts", "webhook", Shape::kUrl, "", "Where each alert is sent as JSON. Redirects are not followed.",
         "\"https://hooks.example.org/ration\""},

        {"report",
         "basis",
         Shape::kChoice,
         "used",
         "What is charged for.",
         "\"used\"",
         {"used", "limit", "max(used,guarantee)", "peak"}},
        {"report", "currency", Shape::kText, "EUR", "Of all prices.", "\"EUR\""},
        {"report",
         "share_idle",
         Shape::kChoice,
         "none",
         "Who pays for what nobody used.",
         "\"none\"",
         {"none", "even", "weighted"}},
        {"report", "retention", Shape::kDuration, "400d", "How long use is kept.", "\"400d\""},
        {"report", "price", Shape::kPrice, "", "What a GiB costs for an hour where the tenant has no price of its own.",
         "\"0.031 EUR/GiB·h\""},

        {"containers", "cdi", Shape::kText, "auto",
         "Folder of the CDI specifications that name each tenant and slice as a device of containers; auto: "
         "/var/run/cdi, where the daemon runs as root with the books in /run/ration; none.",
         "\"/var/run/cdi\""},

        {"compat", "hami", Shape::kFlag, "false", "Read CUDA_DEVICE_MEMORY_LIMIT as a limit.", "false"},
    };
    for (const char* section : {"tenant", "policy"}) {
      const std::vector<Key> match{
          {section, "match.users", Shape::kTexts, "", "Names of users.", "[\"alice\", \"bob\"]"},
          {section, "match.groups", Shape::kTexts, "", "Names of groups of users.", "[\"ml-*\"]"},
          {section, "match.cgroup", Shape::kTexts, "", "Its control group.", "\"*/nlp/*\""},
          {section, "match.service", Shape::kTexts, "", "The systemd unit it belongs to.", "\"jupyterhub\""},
          {section, "match.image", Shape::kTexts, "", "Its container's image.", "\"nlp-*\""},
          {section, "match.label.*", Shape::kTexts, "", "A label. Whoever starts a workload chooses its labels.",
           "\"nlp\""},
          {section, "match.any", Shape::kFlag, "false", "One of these is enough; false: all that are written.",
           "false"}};
      const auto first = std::find_if(made.begin(), made.end(), [&](const Key& key) {
        return std::string(key.section) == section && std::string(key.name) != "name";
      });
      made.insert(first, match.begin(), match.end());
    }
    return made;
  }();
  return all;
}

const Key* find_key(const std::string& section, const std::string& name) {
  for (const Key& key : keys()) {
    if (section != key.section) continue;
    const std::string known = key.name;
    const bool family = known.back() == '*';
    if (name == known ||
        (family && name.size() >= known.size() && name.compare(0, known.size() - 1, known, 0, known.size() - 1) == 0))
      return &key;
  }
  return nullptr;
}

std::vector<std::string> known_below(const std::string& section, const std::string& prefix) {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    const std::string name = key.name;
    if (section != key.section || name.rfind(prefix, 0) != 0) continue;
    const std::string rest = name.substr(prefix.size());
    const std::string next = rest.substr(0, rest.find('.'));
    if (std::find(names.begin(), names.end(), next) == names.end()) names.push_back(next);
  }
  return names;
}

const char* shape_name(Shape shape) {
  switch (shape) {
    case Shape::kText:
      return "text";
    case Shape::kTexts:
      return "text, or list of texts";
    case Shape::kFlag:
      return "true or false";
    case Shape::kWhole:
      return "integer";
    case Shape::kName:
      return "name";
    case Shape::kChoice:
      return "one of";
    case Shape::kSize:
      return "size";
    case Shape::kSizes:
      return "list of sizes";
    case Shape::kShare:
      return "percentage";
    case Shape::kDuration:
      return "duration";
    case Shape::kOnDeny:
      return "fail, wait or wait:DURATION";
    case Shape::kSummary:
      return "auto, always, never or json:FILE";
    case Shape::kListen:
      return "address:port";
    case Shape::kUrl:
      return "URL";
    case Shape::kPrice:
      return "price";
    case Shape::kActivity:
      return "percentage of activity";
    case Shape::kHours:
      return "HH:MM-HH:MM";
    case Shape::kDays:
      return "days";
    case Shape::kRules:
      return "list of rules";
  }
  return "";
}

}  // namespace ration::config
