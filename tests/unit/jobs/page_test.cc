#include "inspect/page.h"

#include <catch2/catch.hpp>

namespace dgx::jobs {

TEST_CASE("text cannot become markup") {
  CHECK(Page::escaped("<script>alert('x')</script>") == "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;");
  CHECK(Page::escaped("\" onclick=\"x") == "&quot; onclick=&quot;x");
  CHECK(Page::escaped("&lt;") == "&amp;lt;");
  Page page;
  page.element("p", "</p><b>", {{"class", "\"><b>"}});
  CHECK(std::move(page).finish() ==
        "<!DOCTYPE html>\n<p class=\"&quot;&gt;&lt;b&gt;\">&lt;/p&gt;&lt;b&gt;</p>\n");
}

TEST_CASE("characters that hide or turn text are shown") {
  CHECK(Page::escaped("a\x1b[31m\n\x7f") == "a\\x1b[31m\\x0a\\x7f");
  CHECK(Page::escaped("a\xe2\x80\xae"
                      "b") == "a\\u{202e}b");
}

}  // namespace dgx::jobs
