#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dgx/bundle/format.h"
#include "dgx/bundle/state.h"
#include "dgx/core/bytes.h"
#include "dgx/core/files.h"

namespace dgx::bundle {

/// A sample's attributes. None is believed: the verifier compares them with their own task and proof.
struct SampleHeader {
  Digest task;
  Digest proof;                  ///< the proof's statement id
  std::int64_t checkpoints = 0;  ///< leaves of the proof's tree of committed states
  bool operator==(const SampleHeader&) const = default;
};

/// One drawn segment: the committed digest of its start state, and that leaf's audit path to the proof's
/// root.
struct SampleSegment {
  std::int64_t segment = 0;  ///< also the leaf's index
  Digest start;
  std::vector<Digest> path;
};

/// Writes start states one by one, so that only one is in memory; the entries in `constants`, which all of
/// them must have, once, with the first. The target does not exist before commit().
class SampleWriter {
 public:
  /// kIo.
  [[nodiscard]] static Result<SampleWriter> create(AtomicFile target, const SampleHeader& header,
                                                   Effort effort = {}, Constants constants = {});
  /// To a target that was not created before the work. Errors of AtomicFile::create, kIo.
  [[nodiscard]] static Result<SampleWriter> create(const std::string& path, const SampleHeader& header,
                                                   Clobber clobber, Effort effort = {},
                                                   Constants constants = {});
  SampleWriter(SampleWriter&&) noexcept;
  SampleWriter& operator=(SampleWriter&&) = delete;
  ~SampleWriter();

  /// kUsage if the segments do not ascend or are not below the header's checkpoints; kMalformed as
  /// digests_of; kIo.
  [[nodiscard]] Status add(const SampleSegment& segment, const State& start, const StateDigests& digests);
  [[nodiscard]] Status commit();

 private:
  struct Impl;
  explicit SampleWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class SampleReader {
 public:
  /// Reads everything but the numbers. kMissing, kMalformed, kIo.
  [[nodiscard]] static Result<SampleReader> open(const std::string& path);
  SampleReader(SampleReader&&) noexcept;
  SampleReader& operator=(SampleReader&&) = delete;
  ~SampleReader();

  [[nodiscard]] const SampleHeader& header() const;
  /// In ascending order.
  [[nodiscard]] const std::vector<SampleSegment>& segments() const;
  /// The names of the entries that the start states share, ascending. start() reads them with the first
  /// state, and keeps them in memory.
  [[nodiscard]] const std::vector<std::string>& constants() const;
  /// The start state of segments()[position]; with kDigests it is checked against the digest that the sample
  /// gives for it.
  [[nodiscard]] Result<StoredState> start(std::size_t position, Check check = Check::kDigests,
                                          Effort effort = {}) const;

 private:
  struct Impl;
  explicit SampleReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace dgx::bundle
