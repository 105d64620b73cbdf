// Serves paths of reports in every format, and the path that closes a month.
#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "history/export/writers.hpp"
#include "http/problem.hpp"
#include "machine/user_names.hpp"
#include "node/http/api.hpp"

namespace ration::node {
namespace {

using history::Reader;
using history::ReportQuestion;
using history::TimeMs;
using http::Request;
using http::Responder;
using http::Response;
using nlohmann::json;

/// Parses `24h`, `7d`, `thismonth`, `lastmonth` or `2026-01`.
Result<history::Window> window_of(const std::string& text) {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  const int year = parts.tm_year + 1900, month = parts.tm_mon + 1;
  if (text.empty() || text == "thismonth") return history::Window{history::month_start(year, month), history::now_ms()};
  if (text == "lastmonth")
    return history::Window{month == 1 ? history::month_start(year - 1, 12) : history::month_start(year, month - 1),
                           history::month_start(year, month)};
  if (std::tm given{}; ::strptime(text.c_str(), "%Y-%m", &given) != nullptr && text.size() == 7)
    return history::Window{history::month_start(given.tm_year + 1900, given.tm_mon + 1),
                           history::month_start(given.tm_year + 1900, given.tm_mon + 2)};
  const auto span = config::parse_span(text);
  if (!span)
    return fail("E1916", fmt::format("'{}' is not a window.", text), "Write 24h, 7d, 2026-01, thismonth or lastmonth.",
                2);
  return history::Window{history::now_ms() - std::chrono::duration_cast<std::chrono::milliseconds>(*span).count(),
                         history::now_ms()};
}

/// Parses one price for all tenants: `0.031`, `0.031/GiB·h` or `0.031 EUR/GiB·h`.
Result<void> set_price(const std::string& text, ReportQuestion& question) {
  const auto price = config::parse_price(text.find('/') == std::string::npos ? text + "/GiB·h" : text);
  if (!price)
    return fail("E1916", fmt::format("'{}' is not a price of one GiB·h.", text),
                "Write a number of at most 10000, such as 0.031.", 2);
  question.prices = {price->billionths, {}};
  if (!price->currency.empty()) question.currency = price->currency;
  return {};
}

/// Returns the prices of the configuration.
history::Prices prices_of(const config::Configuration& configuration) {
  history::Prices prices;
  if (const auto& general = configuration.report.price.value) prices.general = general->billionths;
  for (const config::Tenant& tenant : configuration.tenants)
    if (const auto& own = tenant.price.value) prices.of_tenants[tenant.name.value] = own->billionths;
  return prices;
}

Result<ReportQuestion> question_of(const Request& request, const config::Configuration& configuration) {
  const config::Report& settings = configuration.report;
  const auto text = [&](const char* name) {
    const std::string* given = request.parameter(name);
    return given == nullptr ? std::string{} : *given;
  };
  ReportQuestion question;
  RATION_TRY(const auto window, window_of(text("window")));
  question.window = window;
  if (const std::string by = text("by"); !by.empty()) RATION_TRY(history::parse_by(by, question));
  if (const std::string basis = text("basis"); basis == "max") {
    question.basis = history::Basis::kMaxUsedGuarantee;
  } else if (!basis.empty()) {
    RATION_TRY(const auto parsed, history::parse_basis(basis));
    question.basis = parsed;
  } else {
    constexpr history::Basis kInOrder[] = {history::Basis::kUsed, history::Basis::kLimit,
                                           history::Basis::kMaxUsedGuarantee, history::Basis::kPeak};
    question.basis = kInOrder[static_cast<int>(settings.basis.value)];
  }
  question.currency = settings.currency.value;
  question.prices = prices_of(configuration);
  if (const std::string price = text("price"); !price.empty()) RATION_TRY(set_price(price, question));
  const std::string share = text("share_idle");
  using ShareIdle = ReportQuestion::ShareIdle;
  if (share == "even" || share == "weighted")
    question.share_idle = share == "even" ? ShareIdle::kEven : ShareIdle::kWeighted;
  else if (share.empty())
    question.share_idle = static_cast<ShareIdle>(settings.share_idle.value);
  else if (share != "none")
    return fail("E1916", fmt::format("'{}' is not a value of share_idle.", share), "Write none, even or weighted.", 2);
  return question;
}

Response document(const char* type, std::string text) {
  Response response;
  response.content_type = type;
  response.body = std::move(text);
  return response;
}

/// Renders the report in a format other than JSON.
Result<Response> exported(Reader& reader, const ReportQuestion& question, const std::string& format) {
  if (format == "focus" || format == "opencost") {
    RATION_TRY(auto charges, reader.charges(question.window, history::Slice::kDay, question.basis));
    if (question.asker) charges.hide_labels_from(*question.asker);
    const history::ExportFacts facts{machine::host_name(), question.prices, question.currency, question.basis};
    if (format == "focus") return document("text/csv; charset=utf-8", history::to_focus(charges, facts));
    return document("application/json",
                    history::to_opencost(charges, facts).dump(-1, ' ', false, json::error_handler_t::replace));
  }
  RATION_TRY(const auto report, reader.usage(question));
  if (format == "csv") return document("text/csv; charset=utf-8", history::to_csv(report));
  if (format == "md") return document("text/markdown; charset=utf-8", history::to_markdown(report));
  return fail("E1916", fmt::format("'{}' is not a format of a report.", format),
              "Use json, csv, md, focus or opencost.", 2);
}

/// Returns the newest run of the workload. Fails with E1502 if the viewer may not see that run.
Result<history::RunReport> run_for(Reader& reader, const std::string& workload, const Viewer& viewer) {
  auto run = reader.last_run(workload);
  if (!run || viewer.is_operator || (viewer.user && machine::user_name(*viewer.user) == run->run.user)) return run;
  return fail("E1502", fmt::format("that run belongs to {}.", run->run.user),
              "ration report --last NAME   of a workload of yours", 5);
}

json run_json(const history::RunReport& run) {
  return {{"workload", run.run.workload}, {"tenant", run.run.tenant}, {"user", run.run.user},
          {"run", run.run.number},        {"notes", run.notes},       {"text", history::to_text(run)}};
}

}  // namespace

void Api::install_reports() {
  server_.route_deferred("GET", "/api/v1/reports/usage", [this](const Request& request, const Responder& responder) {
    auto question = question_of(request, host_.engine().configuration());
    if (!question) return responder.fail(question.error());
    if (const Viewer viewer = viewer_of(request.peer); !viewer.is_operator)
      question->asker = viewer.user ? machine::user_name(*viewer.user) : "";
    if (question->window.to + history::kMinuteMs > history::now_ms())
      question->problem = host_.recorder().status().problem;
    const std::string* format = request.parameter("format");
    if (format == nullptr || *format == "json") {
      return ask_history(responder, "report", [question = *question](Reader& reader) -> Result<json> {
        RATION_TRY(const auto report, reader.usage(question));
        return history::to_json(report);
      });
    }
    answer_later(responder, [question = *question, format = *format](Reader& reader) {
      return exported(reader, question, format);
    });
  });

  server_.route("POST", "/api/v1/reports/periods/{period}:close", [this](const Request& request) {
    if (!viewer_of(request.peer).is_operator)
      return http::problem({"E1502", "you may not close a period.", "Ask root or a member of group ration.", 5});
    const auto closed = host_.close_period(request.captures.at("period"));
    if (!closed) {
      // A closed or unfinished month (E1914 or E1915 with exit code 1) is a conflict, not an invalid request.
      const bool conflict =
          closed.error().exit_code == 1 && (closed.error().id == "E1914" || closed.error().id == "E1915");
      return http::problem(closed.error(), conflict ? 409 : 0);
    }
    return answer("period",
                  {{"period", closed->name}, {"closed", history::rfc3339(closed->closed)}, {"seal", closed->seal}});
  });

  server_.route_deferred("GET", "/api/v1/runs/last", [this](const Request& request, const Responder& responder) {
    const auto text = [&](const char* name) {
      const std::string* given = request.parameter(name);
      return given == nullptr ? std::string{} : *given;
    };
    const std::string format = text("format");
    const auto read = [workload = text("workload"), viewer = viewer_of(request.peer)](Reader& reader) {
      return run_for(reader, workload, viewer);
    };
    if (format == "md") {
      return answer_later(responder, [read](Reader& reader) -> Result<Response> {
        RATION_TRY(const auto run, read(reader));
        return document("text/markdown; charset=utf-8", history::to_markdown(run));
      });
    }
    if (!format.empty() && format != "json")
      return responder.fail(
          {"E1916", fmt::format("the report of a run has no format '{}'.", format), "Use json or md.", 2});
    ask_history(responder, "last_run", [read](Reader& reader) -> Result<json> {
      RATION_TRY(const auto run, read(reader));
      return run_json(run);
    });
  });
}

}  // namespace ration::node
