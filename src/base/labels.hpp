// Labels of a workload, as people type them and as books, accounts and rules keep them: `team=nlp,stage=train`.
// The rules, everywhere the same: the first `=` ends the name; what has no `=` or no name before it is no label and is
// passed over; of a name that comes twice the last value counts; a value may be empty.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ration {

/// Of any text at all: books are written by strangers.
[[nodiscard]] std::map<std::string, std::string> parse_labels(std::string_view text);

/// One label that stays one wherever it is kept: a name, `=` and a value, printable and without a comma.
[[nodiscard]] bool is_label(std::string_view text);

/// The label that a job of Slurm has, by which `ration report --slurm` finds it.
inline constexpr const char* kSlurmJobLabel = "slurm_job";

/// As many bytes as a book has for the labels of a workload, with the commas between them.
inline constexpr std::size_t kMaxLabels = 255;

/// One label of a value that anybody may have written: what would end it, or is not printable, becomes `_`.
[[nodiscard]] std::string label_of(std::string_view name, std::string value);
/// Those that fit into a book, the first before the later ones.
[[nodiscard]] std::vector<std::string> fitting_labels(std::vector<std::string> wanted);

}  // namespace ration
