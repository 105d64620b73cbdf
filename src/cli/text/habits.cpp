// Words that people know from docker, kubectl, systemctl, nvidia-smi or a shell, and what ration calls the same.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.hpp"
#include "cli/text/reference.hpp"

namespace ration::cli {

const std::vector<Habit>& verb_habits() {
  static const std::vector<Habit> all{
      {"kill", "ration stop NAME"},
      {"rm", "ration stop NAME"},
      {"remove", "ration stop NAME"},
      {"delete", "ration stop NAME"},
      {"terminate", "ration stop NAME"},
      {"pause", "ration suspend NAME"},
      {"freeze", "ration suspend NAME"},
      {"unpause", "ration resume NAME"},
      {"logs", "ration events -f"},
      {"log", "ration events -f"},
      {"journal", "ration events -f"},
      {"history", "ration events"},
      {"status", "ration ps"},
      {"list", "ration ps"},
      {"ls", "ration ps"},
      {"get", "ration ps"},
      {"free", "ration ps"},
      {"usage", "ration ps"},
      {"queue", "ration ps"},
      {"squeue", "ration ps"},
      {"smi", "ration top"},
      {"stats", "ration top"},
      {"monitor", "ration top"},
      {"watch", "ration top"},
      {"htop", "ration top"},
      {"nvtop", "ration top"},
      {"describe", "ration explain NAME"},
      {"show", "ration explain NAME"},
      {"info", "ration explain NAME"},
      {"limit", "ration set NAME --limit SIZE"},
      {"limits", "ration ps"},
      {"update", "ration set NAME --limit SIZE"},
      {"resize", "ration set NAME --limit SIZE"},
      {"scale", "ration set NAME --limit SIZE"},
      {"start", "ration run --limit SIZE -- PROGRAM"},
      {"exec", "ration run --limit SIZE -- PROGRAM"},
      {"create", "ration run --limit SIZE -- PROGRAM"},
      {"launch", "ration run --limit SIZE -- PROGRAM"},
      {"submit", "ration run --wait --limit SIZE -- PROGRAM"},
      {"daemon", "ration serve"},
      {"server", "ration serve"},
      {"profile", "ration record -o FILE -- PROGRAM"},
      {"trace", "ration record -o FILE -- PROGRAM"},
      {"replay", "ration whatif FILE"},
      {"plan", "ration whatif NAME=SIZE"},
      {"slice", "ration split GPU --into 4"},
      {"partition", "ration split GPU --into 4"},
      {"cost", "ration report --price 0.03"},
      {"check", "ration doctor"},
      {"diagnose", "ration doctor"},
      {"man", "ration help"},
      {"documentation", "ration docs"},
  };
  return all;
}

const std::vector<Habit>& topic_habits() {
  static const std::vector<Habit> all{
      {"oom", "out-of-memory"},
      {"memory", "out-of-memory"},
      {"denied", "out-of-memory"},
      {"tf", "tensorflow"},
      {"keras", "tensorflow"},
      {"torch", "pytorch"},
      {"docker", "containers"},
      {"podman", "containers"},
      {"container", "containers"},
      {"compose", "containers"},
      {"k8s", "kubernetes"},
      {"helm", "kubernetes"},
      {"limits", "limit"},
      {"sizes", "units"},
      {"size", "units"},
      {"variables", "env"},
      {"environment", "env"},
      {"configuration", "config"},
      {"tenants", "tenant"},
      {"guarantees", "guarantee"},
      {"simulator", "simulated"},
      {"shim", "enforcement"},
      {"exit", "exit-codes"},
      {"exitcodes", "exit-codes"},
      {"json", "schema"},
      {"ration.toml", "config"},
      {"error", "errors"},
      {"notebook", "jupyter"},
      {"notebooks", "jupyter"},
      {"memory_limit", "tensorflow"},
      {"growth", "tensorflow"},
      {"set_memory_growth", "tensorflow"},
      {"fraction", "tensorflow"},
      {"logicaldeviceconfiguration", "tensorflow"},
      {"per_process_gpu_memory_fraction", "tensorflow"},
      {"gpu", "run"},
      {"gpus", "run"},
  };
  return all;
}

std::string meant_option(const std::string& name, const std::vector<std::string>& options) {
  static const std::vector<Habit> all{
      {"--memory-limit", "--limit"}, {"--memory_limit", "--limit"}, {"--gpu-memory", "--limit"},
      {"--memory", "--limit"},       {"--mem", "--limit"},          {"-m", "--limit"},
      {"--max-memory", "--limit"},   {"--max", "--limit"},          {"--gpus", "--gpu"},
      {"--device", "--gpu"},         {"--devices", "--gpu"},        {"--reserve", "--guarantee"},
  };
  const char* meant = meant_by(all, name);
  if (meant != nullptr && std::find(options.begin(), options.end(), meant) != options.end()) return meant;
  return nearest(name, options);
}

std::string option_suggestion(const std::string& typed, const std::vector<std::string>& options) {
  const std::string meant = meant_option(typed.substr(0, typed.find('=')), options);
  return meant.empty() ? "" : fmt::format(" Did you mean '{}'?", meant);
}

const char* meant_by(const std::vector<Habit>& habits, std::string_view word) {
  const auto found = std::find_if(habits.begin(), habits.end(), [&](const Habit& each) { return word == each.word; });
  return found == habits.end() ? nullptr : found->meant;
}

}  // namespace ration::cli
