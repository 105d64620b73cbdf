#include "cli/verbs.hpp"
namespace ration::cli {
Result<int> demo(const Session&, const DemoOptions&) { return 0; }
}
