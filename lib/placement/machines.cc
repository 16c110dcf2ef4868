#include "dgx/placement/machines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dgx/core/json.h"
#include "dgx/core/text.h"

namespace dgx::placement {
namespace {

constexpr std::int64_t kMaxInteger = std::int64_t{1} << 53;
constexpr std::int64_t kMaxMicroseconds = 3'600'000'000;

using Pair = std::pair<std::string, std::string>;

/// Two places in one order, as a connection is the same from both sides.
Pair both(const std::string& a, const std::string& b) { return a < b ? Pair(a, b) : Pair(b, a); }

Result<std::string> read_name(const json::Value& value, const std::string& where) {
  const std::string* text = value.as_string();
  if (text == nullptr || !is_name(*text))
    return malformed(
        fmt::format("{}: is no name, 1 to {} printable characters without space", where, kMaxNameBytes));
  return *text;
}

Result<Machine> read_machine(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  Machine out;
  DGX_TRY(out.name, read_name(in.value("name"), where + ".name"));
  DGX_TRY(out.region, read_name(in.value("region"), where + ".region"));
  out.operations_per_second = in.integer("operations_per_second", 1, kMaxInteger);
  out.memory_bytes = in.integer("memory_bytes", 1, kMaxInteger);
  DGX_CHECK(in.finish());
  return out;
}

Result<Connection> read_connection(const json::Value& value, const std::string& where) {
  json::Fields in(value, where);
  Connection out;
  const json::Array& between = in.array("between", 2);
  out.link.bits_per_second = in.integer("bits_per_second", 1, kMaxInteger);
  out.link.microseconds = in.integer("microseconds", 0, kMaxMicroseconds);
  DGX_CHECK(in.finish());
  if (between.size() != 2) return malformed(where + ".between: is not two places");
  DGX_TRY(out.a, read_name(between[0], where + ".between"));
  DGX_TRY(out.b, read_name(between[1], where + ".between"));
  return out;
}

/// Names that fit together: of machines, of their regions, and of both in connections.
Status check_names(const Machines& machines) {
  std::set<std::string> names, regions;
  for (const Machine& machine : machines.machines) {
    if (!names.insert(machine.name).second)
      return malformed(fmt::format("machines: two are named '{}'", machine.name));
    regions.insert(machine.region);
  }
  const auto shared =
      std::ranges::find_if(regions, [&](const std::string& name) { return names.contains(name); });
  if (shared != regions.end())
    return malformed(fmt::format("machines: '{}' is a machine and a region", *shared));
  std::set<Pair> connected;
  for (std::size_t n = 0; n < machines.connections.size(); ++n) {
    const Connection& each = machines.connections[n];
    for (const std::string& place : {each.a, each.b}) {
      if (!names.contains(place) && !regions.contains(place))
        return malformed(fmt::format("links[{}].between: there is no machine or region '{}'", n, place));
    }
    if (each.a == each.b && names.contains(each.a))
      return malformed(fmt::format("links[{}].between: '{}' is one machine", n, each.a));
    if (!connected.insert(both(each.a, each.b)).second)
      return malformed(
          fmt::format("links[{}].between: '{}' and '{}' have a link already", n, each.a, each.b));
  }
  return {};
}

/// The links of some machines, found by the names of both sides.
class Links {
 public:
  explicit Links(const Machines& machines) {
    for (const Connection& each : machines.connections) of_.emplace(both(each.a, each.b), each.link);
  }

  [[nodiscard]] Result<exchange::Link> between(const Machine& a, const Machine& b) const {
    if (const auto link = find(a.name, b.name)) return *link;
    const auto one = find(a.name, b.region), other = find(a.region, b.name);
    if (one && other)
      return usage_error(
          fmt::format("'{}' and '{}': a link of the one to the other's region and one of the other", a.name,
                      b.name),
          "say what connects the two machines");
    if (one || other) return one ? *one : *other;
    if (const auto link = find(a.region, b.region)) return *link;
    return usage_error(fmt::format("'{}' and '{}' are not connected", a.name, b.name),
                       a.region == b.region
                           ? fmt::format(R"(add a link with "between":["{0}","{0}"])", a.region)
                           : fmt::format(R"(add a link with "between":["{}","{}"])", a.region, b.region));
  }

 private:
  [[nodiscard]] std::optional<exchange::Link> find(const std::string& a, const std::string& b) const {
    const auto found = of_.find(both(a, b));
    return found == of_.end() ? std::nullopt : std::optional(found->second);
  }

  std::map<Pair, exchange::Link> of_;
};

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kMaxNameBytes &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

Result<Machines> parse_machines(std::string_view text) {
  DGX_TRY(const json::Value value, json::parse(text, {kMaxMachinesBytes, 8}));
  json::Fields in(value, "machines file");
  const json::Array& machines = in.array("machines", kMaxMachines);
  const json::Array& links = in.array("links", kMaxConnections);
  DGX_CHECK(in.finish());
  if (machines.empty()) return malformed("machines: is empty");
  Machines out;
  for (const json::Value& each : machines) {
    DGX_TRY(Machine machine, read_machine(each, fmt::format("machines[{}]", out.machines.size())));
    out.machines.push_back(std::move(machine));
  }
  for (const json::Value& each : links) {
    DGX_TRY(Connection connection, read_connection(each, fmt::format("links[{}]", out.connections.size())));
    out.connections.push_back(std::move(connection));
  }
  DGX_CHECK(check_names(out));
  return out;
}

std::string print_machines(const Machines& machines) {
  json::Array all, links;
  for (const Machine& each : machines.machines)
    all.emplace_back(json::Object{{"memory_bytes", each.memory_bytes},
                                  {"name", each.name},
                                  {"operations_per_second", each.operations_per_second},
                                  {"region", each.region}});
  for (const Connection& each : machines.connections)
    links.emplace_back(json::Object{{"between", json::Array{each.a, each.b}},
                                    {"bits_per_second", each.link.bits_per_second},
                                    {"microseconds", each.link.microseconds}});
  return json::Value(json::Object{{"links", std::move(links)}, {"machines", std::move(all)}}).dump() + "\n";
}

Result<exchange::Network> network_of(const Machines& machines, std::span<const std::size_t> ranks) {
  const Links links(machines);
  exchange::Network out;
  out.ranks = static_cast<int>(ranks.size());
  out.links.resize(ranks.size() * ranks.size());
  for (std::size_t a = 0; a < ranks.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      DGX_TRY(const exchange::Link link,
              links.between(machines.machines[ranks[a]], machines.machines[ranks[b]]));
      out.links[a * ranks.size() + b] = out.links[b * ranks.size() + a] = link;
    }
  }
  return out;
}

}  // namespace dgx::placement
