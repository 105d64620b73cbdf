// How many instructions a library takes, counted by callgrind: unlike a time, the same on every day. Used by
// ration-bench.
#pragma once

#include <string>

namespace ration::bench {

/// The instructions of the library itself, without those of the functions of others that it calls, as a file of
/// callgrind has them. 0: it has none of the library.
double instructions_of(const std::string& callgrind_file, const std::string& library);

}  // namespace ration::bench
