// Labels of a workload, as people type them and as books, accounts and rules keep them: `team=nlp,stage=train`. The
// same rules apply everywhere: the first `=` ends the name; a text without `=`, or without a name before it, is no
// label and is skipped; if a name occurs twice the last value counts; a value may be empty.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ration {

/// Parses any text at all: books are untrusted.
[[nodiscard]] std::map<std::string, std::string> parse_labels(std::string_view text);

/// Returns true for a label that remains one wherever it is stored: a name, `=` and a value, printable and without a
/// comma.
[[nodiscard]] bool is_label(std::string_view text);

/// The label of a Slurm job, by which `ration report --slurm` finds it.
inline constexpr const char* kSlurmJobLabel = "slurm_job";

/// The most bytes that a book holds for a workload's labels, commas included.
inline constexpr std::size_t kMaxLabels = 255;

/// Makes one label from an untrusted value: characters that would end it, or are not printable, become `_`.
[[nodiscard]] std::string label_of(std::string_view name, std::string value);
/// Returns the labels that fit into a book; earlier ones take precedence.
[[nodiscard]] std::vector<std::string> fitting_labels(std::vector<std::string> wanted);

}  // namespace ration
