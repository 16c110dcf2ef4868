#pragma once

#include <string_view>

namespace dgx::jobs {

/// The style of a story's page. Every colour of text (--ink, --muted, --good, --bad, --warn, --accent) has a
/// contrast of at least 4.5 to both grounds (--paper, --card), on light and on dark screens and on paper;
/// tests/interop/report.py computes them. Nothing is told by colour alone.
inline constexpr std::string_view kPageStyle = R"css(:root {
  color-scheme: light dark;
  --paper: #ffffff; --card: #f4f6f8; --line: #b6c0ca;
  --ink: #1b1f24; --muted: #57606a; --good: #116329; --bad: #a40e26; --warn: #7d4e00; --accent: #0b4f9e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #0d1117; --card: #161b22; --line: #3d444d;
    --ink: #e6edf3; --muted: #9da7b1; --good: #56d364; --bad: #ff7b72; --warn: #e3b341; --accent: #79c0ff;
  }
}
@media print {
  :root {
    --paper: #ffffff; --card: #ffffff; --line: #8c959f;
    --ink: #000000; --muted: #424a53; --good: #0a4a1c; --bad: #8a0b1f; --warn: #5f3b00; --accent: #083b77;
  }
  section, table, figure, li { break-inside: avoid; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 1rem; }
h2 { font-size: 1.3rem; margin: 2.5rem 0 0.6rem; padding-top: 0.8rem; border-top: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.6rem 0 0.4rem; }
.lead { font-size: 1.1rem; margin: 0 0 0.5rem; }
.muted, figcaption, caption { color: var(--muted); }
.good { color: var(--good); } .bad { color: var(--bad); } .warn { color: var(--warn); }
.verdict { font-weight: 600; padding: 0.6rem 0.9rem; background: var(--card); border-left: 0.3rem solid currentColor; }
table { border-collapse: collapse; width: 100%; margin: 0.4rem 0 1rem; }
caption { text-align: left; padding-bottom: 0.3rem; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.9rem 0.3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 600; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.rows td:not(:last-child) { overflow-wrap: break-word; }
.rows td[data-label="when"] { white-space: nowrap; }
.facts td:first-child { width: 30%; color: var(--muted); }
@media (max-width: 40rem) {
  .rows thead { position: absolute; clip-path: inset(50%); }
  .rows tr { display: block; padding: 0.4rem 0; border-bottom: 1px solid var(--line); }
  .rows td, .rows td.number, .rows td[data-label="when"] {
    display: block; padding: 0; border: 0; text-align: left; white-space: normal;
  }
  .rows td::before { content: attr(data-label) ": "; color: var(--muted); }
  .rows td:empty { display: none; }
}
code, pre { font: 0.86rem/1.5 ui-monospace, monospace; }
pre { background: var(--card); padding: 0.6rem 0.9rem; margin: 0.2rem 0 1rem; white-space: pre-wrap; }
ol.funnel { list-style: none; margin: 0; padding: 0; }
ol.funnel li { margin: 0 0 0.9rem; }
.bar { display: block; height: 0.7rem; min-width: 0.4rem; background: var(--accent); margin-bottom: 0.2rem; }
.picked { font-weight: 600; }
.formula { background: var(--card); padding: 0.6rem 0.9rem; font-weight: 600; }
figure { margin: 0 0 1rem; }
svg { display: block; width: 100%; height: auto; background: var(--card); }
svg text { font: 12px system-ui, sans-serif; fill: var(--muted); }
@media (max-width: 40rem) { svg text { font-size: 20px; } }
.axis { stroke: var(--line); stroke-width: 1; }
.curve { fill: none; stroke-width: 2; stroke: var(--accent); }
.curve1 { stroke: var(--warn); stroke-dasharray: 6 3; } .curve2 { stroke: var(--good); stroke-dasharray: 2 3; }
.curve3 { stroke: var(--bad); stroke-dasharray: 9 3 2 3; }
.segment { stroke: var(--card); stroke-width: 0.6; }
.none { fill: var(--line); } .drawn { fill: var(--warn); }
.agrees { fill: var(--good); } .disagrees { fill: var(--bad); }
.fell { fill: var(--bad); } .cleared { fill: var(--accent); }
)css";

}  // namespace dgx::jobs
