#include "http/problem.hpp"

#include <http_parser.h>

#include <nlohmann/json.hpp>

#include "base/message_json.hpp"

namespace ration::http {

int status_of(const Error& error) noexcept {
  switch (error.exit_code) {
    case 2:
      return 400;
    case 3:
      return 404;
    case 4:
      return 409;
    case 5:
      return 403;
    default:
      return 500;
  }
}

const char* reason_phrase(int status) noexcept {
  return status >= 100 && status < 600 ? http_status_str(static_cast<http_status>(status)) : "Unknown";
}

Response problem(const Error& error, int status) {
  if (status == 0) status = status_of(error);
  nlohmann::ordered_json body{{"type", "https://ration.invalid/errors/" + error.id},
                              {"title", reason_phrase(status)},
                              {"status", status},
                              {"detail", error.what},
                              {"fix", error.fix},
                              {"id", error.id}};
  put_message(body, "detail", error.what);
  if (error.exit_code > 1) body["exit_code"] = error.exit_code;
  // Names in an error may come from anywhere, so invalid UTF-8 is replaced and does not throw.
  return {.status = status,
          .content_type = "application/problem+json",
          .body = body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

}  // namespace ration::http
