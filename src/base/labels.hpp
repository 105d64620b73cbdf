// Parses the labels of a workload, `team=nlp,stage=train`, by the same rules wherever they are typed or stored: the
// first `=` ends the name; a text without `=`, or without a name before it, is no label and is skipped; if a name
// occurs twice, the last value counts; a value may be empty.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ration {

/// Parses labels from any text, since books are untrusted.
[[nodiscard]] std::map<std::string, std::string> parse_labels(std::string_view text);

/// Returns true for a text that is one label wherever it is stored: a name, `=` and a value, all printable and without
/// a comma.
[[nodiscard]] bool is_label(std::string_view text);

/// The name of the label that marks a Slurm job, by which `ration report --slurm` finds the job's runs.
inline constexpr const char* kSlurmJobLabel = "slurm_job";

/// The greatest length of a workload's labels in a book, commas included.
inline constexpr std::size_t kMaxLabels = 255;

/// Makes one label from an untrusted value: a character that would end the label, or is not printable, becomes `_`.
[[nodiscard]] std::string label_of(std::string_view name, std::string value);
/// Returns the labels that fit into a book; earlier ones take precedence.
[[nodiscard]] std::vector<std::string> fitting_labels(std::vector<std::string> wanted);

}  // namespace ration
