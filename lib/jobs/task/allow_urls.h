#pragma once

#include <initializer_list>
#include <string>

#include "dgx/core/job_context.h"
#include "dgx/core/result.h"

namespace dgx::jobs {

/// Lets this process read from servers those of these paths that are URLs: values of options, which the user
/// has named. Opens libdgx_http.so for them: $DGX_HTTP_MODULE, else in ../lib/dgx from the program's folder.
/// kUsage for a URL that parse_url() refuses, plain http from another machine unless `insecure`, and
/// `insecure` without a URL; kInternal with a hint if the module or libcurl is missing. Opens no connection.
[[nodiscard]] Status allow_urls(std::initializer_list<std::string> named, bool insecure,
                                const JobContext& context);

}  // namespace dgx::jobs
