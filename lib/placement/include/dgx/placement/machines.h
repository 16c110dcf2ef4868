#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dgx/core/result.h"
#include "dgx/exchange/delayed.h"

namespace dgx::placement {

/// True for a name of a machine or a region: 1 to kMaxNameBytes printable ASCII characters without space.
inline constexpr std::size_t kMaxNameBytes = 64;
[[nodiscard]] bool is_name(std::string_view text);

inline constexpr std::size_t kMaxMachines = 10'000;
inline constexpr std::size_t kMaxConnections = 100'000;
inline constexpr std::size_t kMaxMachinesBytes = std::size_t{16} << 20;

/// A place for one rank.
struct Machine {
  std::string name;                        ///< unique; 1 to 64 printable ASCII characters without space
  std::string region;                      ///< in which machines are connected alike; as a name
  std::int64_t operations_per_second = 1;  ///< scalar operations of a step, as dgx-money(7) counts them
  std::int64_t memory_bytes = 1;
  bool operator==(const Machine&) const = default;
};

/// A network's links between the machines of two places, in both directions: machines, or regions.
struct Connection {
  std::string a, b;
  exchange::Link link;
};

/// Machines and their network (dgx-plan(1), MACHINES).
struct Machines {
  std::vector<Machine> machines;  ///< at least one
  std::vector<Connection> connections;
};

/// Reads a file of machines. kMalformed, with the field or the place, for: another form, caps, a number out
/// of range, a name that is used twice or for a region too, a connection of a place that there is not, or of
/// two places that have one. Not every two machines need to be connected.
[[nodiscard]] Result<Machines> parse_machines(std::string_view text);
/// Canonical text that parse_machines() reads, and a newline.
[[nodiscard]] std::string print_machines(const Machines& machines);

/// The network between these machines, of which the nth is rank n: what connects two machines by their names,
/// else a machine and a region, else two regions, or one with itself. kUsage, naming them, if nothing
/// connects two of them, or if two connections of a machine and a region do.
[[nodiscard]] Result<exchange::Network> network_of(const Machines& machines,
                                                   std::span<const std::size_t> ranks);

}  // namespace dgx::placement
