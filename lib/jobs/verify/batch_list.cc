#include "verify/batch_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>

#include "dgx/core/json_document.h"
#include "dgx/core/remote.h"
#include "dgx/jobs/task_folder.h"

namespace dgx::jobs {
namespace {

/// The fields of a line that are paths, in their order between tabs.
std::array<std::string*, 5> paths_of(VerifyOptions& options, std::string& beacon) {
  return {&options.task, &options.proof, &options.from, &options.data, &beacon};
}

/// Puts `text` into the place of the `*`, if there is one.
std::string filled(std::string path, const std::string& text) {
  const std::size_t star = path.find('*');
  return star == std::string::npos ? path : path.replace(star, 1, text);
}

/// The texts that the `*` of a path stands for, so that there is such a file or folder: ascending.
std::vector<std::string> fits_of(const std::string& path) {
  const std::size_t star = path.find('*');
  const std::size_t begin = path.rfind('/', star) + 1;  // 0 if there is no '/'
  const std::size_t end = std::min(path.find('/', star), path.size());
  const std::string_view before = std::string_view(path).substr(begin, star - begin);
  const std::string_view after = std::string_view(path).substr(star + 1, end - star - 1);
  std::vector<std::string> out;
  std::error_code failed;
  for (const auto& entry :
       std::filesystem::directory_iterator(begin == 0 ? "." : path.substr(0, begin), failed)) {
    const std::string name = entry.path().filename().string();
    if (name.size() < before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after))
      continue;
    if (before.empty() && name.starts_with('.')) continue;
    std::string fit = name.substr(before.size(), name.size() - before.size() - after.size());
    std::error_code ignored;
    if (std::filesystem::exists(filled(path, fit), ignored)) out.push_back(std::move(fit));
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<VerifyOptions> parse_tabs(std::string_view line, VerifyOptions options) {
  std::string beacon;
  const auto fields = paths_of(options, beacon);
  for (std::size_t n = 0;; ++n) {
    if (n == fields.size()) return usage_error(fmt::format("has more than {} fields", fields.size()));
    const std::size_t tab = std::min(line.find('\t'), line.size());
    if (tab > 0) *fields[n] = line.substr(0, tab);
    if (tab == line.size()) break;
    line.remove_prefix(tab + 1);
  }
  if (!beacon.empty()) options.beacon = beacon;
  return options;
}

Result<VerifyOptions> parse_object(std::string_view line, VerifyOptions options) {
  DGX_TRY(const json::Document document, json::parse_document(line, {}));
  const auto* const object = document.as_object();
  if (object == nullptr) return usage_error("is not an object");
  std::string beacon;
  std::string program;
  const std::map<std::string_view, std::string*> known{{"task", &options.task}, {"proof", &options.proof},
                                                       {"from", &options.from}, {"data", &options.data},
                                                       {"beacon", &beacon},     {"program", &program}};
  for (const auto& [key, value] : *object) {
    const auto found = known.find(key);
    if (found == known.end()) return usage_error(fmt::format("has the unknown key \"{}\"", key));
    const std::string* const text = value.as_string();
    if (text == nullptr) return usage_error(fmt::format("\"{}\" is not a string", key));
    *found->second = *text;
  }
  if (!beacon.empty()) options.beacon = beacon;
  if (!program.empty()) options.program = program;
  return options;
}

/// The options of a line whose `*` stands for `fit`.
VerifyOptions with_fit(VerifyOptions options, const std::string& fit) {
  for (std::string* const path : {&options.task, &options.proof, &options.from, &options.data})
    *path = filled(std::move(*path), fit);
  for (std::optional<std::string>* const path : {&options.beacon, &options.program})
    if (*path) *path = filled(**path, fit);
  return options;
}

/// kUsage if a line names a URL that the command line does not: whoever wrote the list is not asked which
/// servers this machine talks to.
Result<VerifyOptions> without_urls(VerifyOptions options, const VerifyOptions& defaults) {
  const bool from = is_url(options.from) && options.from != defaults.from;
  const bool data = is_url(options.data) && options.data != defaults.data;
  const bool other = is_url(options.task) || is_url(options.proof) || is_url(options.beacon.value_or("")) ||
                     is_url(options.program.value_or(""));
  if (!from && !data && !other) return options;
  return usage_error("names a URL", "--from and --data name those of all lines");
}

void add_line(std::int64_t number, std::string_view line, const VerifyOptions& defaults,
              std::vector<ListedProof>& out) {
  auto options = line.starts_with('{') ? parse_object(line, defaults) : parse_tabs(line, defaults);
  if (options.ok() && options->task.empty()) options = usage_error("names no task");
  if (options.ok()) options = without_urls(*std::move(options), defaults);
  if (!options.ok())
    return void(out.push_back({number, std::string(line.substr(0, 80)), std::move(options)}));
  if (options->task.find('*') == std::string::npos) {
    const std::string task = options->task;
    return void(out.push_back({number, task, std::move(options)}));
  }
  const std::vector<std::string> fits = fits_of(options->task);
  for (const std::string& fit : fits) {
    VerifyOptions one = with_fit(*options, fit);
    out.push_back({number, one.task, std::move(one)});
  }
  if (fits.empty())
    out.push_back({number, options->task, Error{ErrorCode::kMissing, options->task + ": nothing fits", {}}});
}

}  // namespace

std::vector<ListedProof> parse_list(std::string_view text, const VerifyOptions& defaults) {
  std::vector<ListedProof> out;
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with('#')) add_line(number, line, defaults, out);
  }
  return out;
}

}  // namespace dgx::jobs
