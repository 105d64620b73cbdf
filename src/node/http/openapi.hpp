// The OpenAPI 3.1 description of the HTTP interface, built into the program from share/ration/openapi.json and its
// schemas (openapi.py, target ration_openapi).
// Promises: it names exactly the daemon's routes (tests/unit/contract), and answers are as described
// (tests/system/contract).
#pragma once

#include <string_view>

namespace ration::node {

/// Returns the document as a gzip file. Equal sources give equal bytes.
[[nodiscard]] std::string_view openapi_gzip() noexcept;

}  // namespace ration::node
