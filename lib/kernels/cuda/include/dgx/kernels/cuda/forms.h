#pragma once

#include <algorithm>
#include <cstdint>

#include "dgx/core/host_device.h"
#include "dgx/kernels/fold_order.h"

namespace dgx::kernels::cuda {

/// The form in which a product or a dot is launched: the outputs that a block of threads makes, and whether
/// the depth is cut. The form changes no bit.

/// Outputs of a block of threads, rows × columns. A fine tile has more threads with fewer outputs each.
enum class Tile : std::uint8_t {
  kAny,
  k128x128,
  k128x64,
  k64x128,
  k64x64,
  k64x64Fine,
  k32x128,
  k16x256,
  k32x32Fine
};
inline constexpr Tile kTiles[] = {Tile::k128x128,   Tile::k128x64, Tile::k64x128, Tile::k64x64,
                                  Tile::k64x64Fine, Tile::k32x128, Tile::k16x256, Tile::k32x32Fine};

struct TileForm {
  Tile tile = Tile::kAny;  ///< kAny: choose_tile() decides
  /// 0, or 4,096 or 256: positions of a piece; the sums of pieces have memory of their own.
  std::int64_t piece = 0;
};

struct TileExtent {
  std::int64_t rows = 0, columns = 0;
  std::int64_t threads = 0;
  /// Cycles that a scheduler takes for 16 positions of a warp, beside other warps: of products as fitted to
  /// 256 launches on an H200, of dots in the proportion of the two loops' instructions.
  std::int64_t product_cycles = 0, dot_cycles = 0;
};

[[nodiscard]] constexpr TileExtent extent_of(Tile tile) {
  switch (tile) {
    case Tile::k128x128: return {128, 128, 256, 1524, 1597};
    case Tile::k128x64: return {128, 64, 128, 1628, 1739};
    case Tile::k64x128: return {64, 128, 128, 1569, 1676};
    case Tile::k64x64: return {64, 64, 64, 1628, 1820};
    case Tile::k64x64Fine: return {64, 64, 256, 462, 462};
    case Tile::k32x128: return {32, 128, 128, 902, 780};  // products: at any strides only
    case Tile::k16x256: return {16, 256, 128, 1053, 784};
    default: return {32, 32, 256, 224, 224};
  }
}

[[nodiscard]] constexpr std::int64_t tiles_of(const TileExtent& tile, std::int64_t rows,
                                              std::int64_t columns) {
  return (rows + tile.rows - 1) / tile.rows * ((columns + tile.columns - 1) / tile.columns);
}
[[nodiscard]] DGX_HOST_DEVICE constexpr std::int64_t pieces_of(std::int64_t depth, std::int64_t piece) {
  return piece == 0 || depth == 0 ? 1 : (depth + piece - 1) / piece;
}

/// A product or dot to be launched.
struct TileWanted {
  std::int64_t rows = 0, columns = 0, depth = 0, batch = 1;
  bool is_dot = false;  ///< a Dot, not a Product
};

/// Number of sums that the pieces leave in memory.
[[nodiscard]] constexpr std::int64_t piece_numbers(const TileWanted& wanted, const TileForm& form) {
  return form.piece == 0 ? 0
                         : wanted.rows * wanted.columns * wanted.batch * pieces_of(wanted.depth, form.piece);
}

/// An estimate, in cycles of an H100 or H200, of a launch's time: of its busiest multiprocessor. Blocks of
/// threads share a multiprocessor as far as its registers reach; they take as long as all their instructions,
/// or as long as a single warp with its waits, whichever is more. The constants are those with which the
/// estimates come nearest to the times of 19 products in all their forms on an H200 (`gpu_product_bench
/// --forms` at commit 497198d7): the form with the least estimate then takes at most 7 % longer than the
/// fastest one.
[[nodiscard]] constexpr double tile_cycles(const TileWanted& wanted, const TileForm& form) {
  // kThreads: those that share a multiprocessor.
  constexpr std::int64_t kProcessors = 132, kSchedulers = 4, kThreads = 512;
  constexpr double kStart = 1700;   // cycles to start a kernel
  constexpr double kWaits = 208;    // cycles per round: the barrier, and the first reads after it
  constexpr double kAround = 588;   // cycles before and after the rounds
  constexpr double kBegins = 6310;  // cycles until the first numbers arrive, and the last are stored
  // Cycles to start the kernel that adds pieces, and bytes of them that it reads in a cycle. That they are
  // written takes no time: it happens beside the next block's arithmetic.
  constexpr double kAddition = 8979, kBytesACycle = 3074;
  const TileExtent tile = extent_of(form.tile);
  const std::int64_t pieces = pieces_of(wanted.depth, form.piece);
  const std::int64_t blocks = tiles_of(tile, wanted.rows, wanted.columns) * wanted.batch * pieces;
  const std::int64_t most = (blocks + kProcessors - 1) / kProcessors, together = kThreads / tile.threads;
  const double rounds =
      static_cast<double>(((form.piece == 0 ? wanted.depth : std::min(form.piece, wanted.depth)) + 15) / 16);
  const auto cycles = static_cast<double>(wanted.is_dot ? tile.dot_cycles : tile.product_cycles);
  const auto at_once = [&](std::int64_t count) {
    if (count == 0) return 0.0;
    // Per scheduler.
    const double warps = static_cast<double>(count * tile.threads / 32) / static_cast<double>(kSchedulers);
    return rounds * std::max(warps * cycles, cycles + kWaits) + kAround * std::max(warps, 1.0) + kBegins;
  };
  const double total =
      kStart + static_cast<double>(most / together) * at_once(together) + at_once(most % together);
  if (form.piece == 0) return total;
  return total + kAddition + static_cast<double>(piece_numbers(wanted, form) * 4) / kBytesACycle;
}

/// The tile with the least estimated time, for a depth cut into pieces of `piece` positions.
[[nodiscard]] constexpr Tile choose_tile(const TileWanted& wanted, std::int64_t piece) {
  Tile best = Tile::k32x32Fine;
  for (const Tile tile : kTiles) {
    if (tile_cycles(wanted, {tile, piece}) < tile_cycles(wanted, {best, piece})) best = tile;
  }
  return best;
}

/// True if a form comes into question: it is not cut, or into several pieces whose sums take 256 MiB at most.
[[nodiscard]] constexpr bool is_sensible(const TileWanted& wanted, const TileForm& form) {
  constexpr std::int64_t kMostNumbers = std::int64_t{1} << 26;
  return form.piece == 0 ||
         (pieces_of(wanted.depth, form.piece) > 1 && piece_numbers(wanted, form) <= kMostNumbers);
}

/// The sensible form with the least estimated time.
[[nodiscard]] constexpr TileForm choose_form(const TileWanted& wanted) {
  TileForm best{choose_tile(wanted, 0), 0};
  for (const std::int64_t piece : {kDotGroupPositions, kDotBlock}) {
    const TileForm form{choose_tile(wanted, piece), piece};
    if (is_sensible(wanted, form) && tile_cycles(wanted, form) < tile_cycles(wanted, best)) best = form;
  }
  return best;
}

}  // namespace dgx::kernels::cuda
