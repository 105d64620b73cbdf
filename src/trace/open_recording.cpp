#include "trace/open_recording.hpp"

#include "trace/history_csv.hpp"

namespace ration::trace {

Result<std::unique_ptr<Recording>> open_recording(const std::string& path) { return read_history_csv(path); }

}  // namespace ration::trace
