#include "adapters/containers/snippet.hpp"

#include <fmt/args.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "adapters/containers/compose.hpp"
#include "base/command.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"

namespace ration::adapters {
namespace {

struct Text {
  SnippetKind kind;
  bool takes_command, is_server;
  /// The text with placeholders. Values are quoted for a shell in {ration} {limit} {command}; for systemd in
  /// {unit_ration} {unit_limit} {unit_command}; for Python in {listed_ration} {listed_limit}; and not at all in
  /// {device} {devices} {name} {memory} {mebibytes} {fraction} {pool}.
  const char* text;
};

/// The lines around the command of a model server that is told how much memory it may take.
constexpr const char* kServer = R"({{ration}} run {{limit}} --name {0} -- \
  {1}
# check: {{ration}} ps   shows no more than the limit, and no denial
)";

const std::vector<Text>& texts() {
  static const std::vector<Text> all{
      {{"docker", "a container, by Docker 25 and newer or Podman", "IMAGE"},
       false,
       false,
       R"(docker run --rm --device nvidia.com/gpu=all --device {device} {name}
# check: the total is the limit
docker run --rm --device nvidia.com/gpu=all --device {device} {name} nvidia-smi
)"},
      {{"compose", "a service of a compose file", "IMAGE"},
       false,
       false,
       R"(services:
  gpu-program:
    image: "{name}"
{devices}# check: docker compose run --rm gpu-program nvidia-smi   shows the limit as the total
)"},
      {{"kubernetes", "a pod with a claim on GPU memory", "IMAGE"},
       false,
       false,
       R"(# {memory} of a GPU
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: gpu-memory
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu-memory.ration.sh
          capacity:
            requests:
              memory: {mebibytes}Mi
---
apiVersion: v1
kind: Pod
metadata:
  name: gpu-program
spec:
  restartPolicy: Never
  resourceClaims:
  - name: gpu
    resourceClaimTemplateName: gpu-memory
  containers:
  - name: main
    image: "{name}"
    resources:
      claims:
      - name: gpu
# check: kubectl exec gpu-program -- nvidia-smi   shows the limit as the total
)"},
      {{"systemd", "a service: a drop-in for its unit; its command follows --", "UNIT"},
       true,
       false,
       R"(# /etc/systemd/system/{name}.d/ration.conf
[Service]
ExecStart=
ExecStart={unit_ration} run {unit_limit} --name %N --summary never -- {unit_command}
# check: systemctl daemon-reload && systemctl restart {name} && {ration} ps
)"},
      {{"systemd-user", "all programs of a user's systemd under one limit; the user types nothing", "USER"},
       false,
       false,
       R"(# /etc/systemd/system/user@$(id -u {name}).service.d/ration.conf
[Service]
# Programs that the user manager starts inherit the guard: services, and terminals of a desktop. Logins over ssh do not.
ExecStart=
ExecStart={unit_ration} run {unit_limit} --name user-{name} --summary never -- /lib/systemd/systemd --user
# The manager reports that it is ready, and is now a child of ration.
NotifyAccess=all
# check: systemctl daemon-reload; log {name} out and in again; {ration} ps   shows user-{name}
)"},
      {{"slurm", "a job's script; its command follows --", ""},
       true,
       false,
       R"(#!/bin/sh
#SBATCH --gres=gpu:1
srun {ration} run {limit} --name "slurm-$SLURM_JOB_ID" --summary never -- {command}
# check: sbatch FILE; on its node, {ration} ps   shows slurm-JOB and no more than the limit
)"},
      {{"jupyterhub", "each user's notebook server: lines of jupyterhub_config.py", ""},
       false,
       false,
       R"(# jupyterhub_config.py
c.Spawner.cmd = [{listed_ration}, "run", {listed_limit}, "--summary", "never", "--", "jupyterhub-singleuser"]
# check: in a notebook, !nvidia-smi shows the limit as the total; on the server, {ration} ps
)"},
      {{"tf-serving", "TensorFlow Serving: several servers (--instances) share the limit", ""},
       false,
       true,
       R"(tensorflow_model_server --model_base_path=/models/m --model_name=m --per_process_gpu_memory_fraction={fraction:.2f})"},
      {{"triton", "Triton with its TensorFlow back end: several servers (--instances) share the limit", ""},
       false,
       true,
       R"(tritonserver --model-repository=/models --cuda-memory-pool-byte-size=0:{pool} \
    --backend-config=tensorflow,gpu-memory-fraction={fraction:.2f})"},
      {{"vllm", "vLLM: several servers (--instances) share the limit", ""},
       false,
       true,
       "vllm serve MODEL --gpu-memory-utilization {fraction:.2f}"},
  };
  return all;
}

constexpr std::uint64_t kTritonPool = std::uint64_t{64} << 20;  // the default in NVIDIA's documentation of the server

tl::unexpected<Error> missing(const SnippetKind& kind, const std::string& what) {
  return fail("E1708", fmt::format("{} needs {}.", kind.name, what), "ration snippet --help", 2);
}

/// Returns true for a name of an image, unit or user in which no character has a special meaning for a shell, YAML or
/// systemd.
bool is_plain_name(const std::string& name) {
  return !name.starts_with('-') && std::all_of(name.begin(), name.end(), [](unsigned char letter) {
    return letter < 0x80 && (std::isalnum(letter) != 0 || std::strchr("._/:@-", letter) != nullptr);
  });
}

/// Quotes a word for a unit's command (systemd.service(5), "Command lines"): `%` begins a specifier, `$` a variable,
/// and in quotes a backslash begins an escape.
std::string unit_word(const std::string& word) {
  std::string escaped;
  bool plain = !word.empty();
  const bool shown = is_printable(word);
  for (const char letter : word) {
    const auto byte = static_cast<unsigned char>(letter);
    plain = plain && (std::isalnum(byte) != 0 || byte >= 0x80 || std::strchr("._/:=,+@-%$", letter) != nullptr);
    if (letter == '%' || letter == '$' || letter == '\\') escaped += letter;
    if (letter == '"') escaped += '\\';
    if (byte < 0x20 || byte == 0x7f || (!shown && byte >= 0x80))
      escaped += fmt::format("\\x{:02x}", byte);
    else
      escaped += letter;
  }
  return plain && shown ? escaped : "\"" + escaped + "\"";
}

/// Quotes a text for Python.
std::string python_text(const std::string& word) {
  return nlohmann::json(word).dump(-1, ' ', !is_printable(word), nlohmann::json::error_handler_t::replace);
}

template <class Quote>
std::string quoted(const std::vector<std::string>& words, Quote quote, const char* between = " ") {
  std::vector<std::string> all;
  for (const std::string& word : words) all.push_back(quote(word));
  return fmt::format("{}", fmt::join(all, between));
}

/// The placeholder for the program's words while options are added to the commands of the text. No quoted word contains
/// this character.
constexpr const char* kProgramsPlace = "\x01";

}  // namespace

std::vector<SnippetKind> snippet_kinds() {
  std::vector<SnippetKind> kinds;
  for (const Text& text : texts()) kinds.push_back(text.kind);
  return kinds;
}

Result<double> instance_fraction(const SnippetFacts& facts) {
  const auto instances = static_cast<std::uint64_t>(facts.instances);
  const Bytes contexts = facts.context * instances;
  if (facts.bytes == Bytes{0} || contexts >= facts.bytes)
    return fail("E1708",
                facts.bytes == Bytes{0}
                    ? std::string("the fraction for each instance needs a limit in bytes.")
                    : fmt::format("the CUDA contexts of {} instances take {}, the whole limit or more.", instances,
                                  format_size(contexts)),
                "ration snippet vllm --limit 20GiB --instances 2", 2);
  const double share = static_cast<double>((facts.bytes - contexts).count()) /
                       static_cast<double>(facts.bytes.count()) / static_cast<double>(instances);
  return std::floor(share * 100) / 100;
}

Result<std::string> snippet(const std::string& kind, const SnippetFacts& facts) {
  const auto found =
      std::find_if(texts().begin(), texts().end(), [&](const Text& text) { return kind == text.kind.name; });
  if (found == texts().end())
    return fail("E1708", fmt::format("there is no snippet '{}'.", kind), "ration snippet --help", 2);
  if (*found->kind.named != '\0' && facts.name.empty()) return missing(found->kind, found->kind.named);
  if (*found->kind.named == '\0' && !facts.name.empty())
    return fail("E1708", fmt::format("{} takes no name, but '{}' is given.", kind, printable(facts.name)),
                "ration snippet --help", 2);
  if (!is_plain_name(facts.name) ||
      (std::strcmp(found->kind.named, "IMAGE") != 0 && facts.name.find('/') != std::string::npos))
    return fail("E1708", fmt::format("'{}' is not a valid {}.", printable(facts.name), found->kind.named),
                "ration snippet --help", 2);
  if (found->takes_command && facts.command.empty()) return missing(found->kind, "the command after --");
  if (std::strstr(found->text, "{memory}") != nullptr && facts.bytes == Bytes{0})
    return missing(found->kind, "a limit in bytes: --limit 4GiB");
  double fraction = 0;
  if (found->is_server) {
    RATION_TRY(const auto share, instance_fraction(facts));
    fraction = share;
  }
  const std::string text = found->is_server ? fmt::format(kServer, kind, found->text) : found->text;
  const bool is_unit = std::strstr(found->text, "{unit_command}") != nullptr;
  const std::string filled = with_command_options(
      fmt::format(fmt::runtime(text), fmt::arg("ration", script_word(facts.ration)),
                  fmt::arg("limit", quoted(facts.limit, script_word)), fmt::arg("command", kProgramsPlace),
                  fmt::arg("unit_ration", unit_word(facts.ration)),
                  fmt::arg("unit_limit", quoted(facts.limit, unit_word)), fmt::arg("unit_command", kProgramsPlace),
                  fmt::arg("listed_ration", python_text(facts.ration)),
                  fmt::arg("listed_limit", quoted(facts.limit, python_text, ", ")), fmt::arg("device", facts.device),
                  fmt::arg("devices", compose_devices({"nvidia.com/gpu=all", facts.device})),
                  fmt::arg("name", facts.name), fmt::arg("fraction", fraction),
                  fmt::arg("memory", exact_size(facts.bytes)), fmt::arg("mebibytes", facts.bytes.count() >> 20),
                  fmt::arg("pool", std::min(kTritonPool, facts.bytes.count() / 16))),
      facts.options);
  const std::size_t place = filled.find(kProgramsPlace);
  if (place == std::string::npos) return filled;
  return filled.substr(0, place) + (is_unit ? quoted(facts.command, unit_word) : quoted(facts.command, script_word)) +
         filled.substr(place + 1);
}

}  // namespace ration::adapters
