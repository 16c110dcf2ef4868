#include "dgx/bundle/sample.h"

#include <fmt/format.h>

#include "container.h"
#include "shared_entries.h"
#include "state_group.h"

namespace dgx::bundle {
namespace {

constexpr std::int64_t kMaxSegments = std::int64_t{1} << 24;
/// A path in a tree of 2^24 leaves has 24 digests, and no valid path has more than 64.
constexpr std::size_t kMaxPath = 64;
constexpr std::size_t kMaxSampled = 65536;
constexpr const char* kConstant = "constant";

/// Ten digits, so that names sort as numbers do.
std::string group_of(std::int64_t segment) { return fmt::format("segments/{:010}", segment); }

Result<std::int64_t> segment_from(const std::string& name) {
  std::int64_t segment = 0;
  for (const char c : name)
    segment = c >= '0' && c <= '9' && segment <= kMaxSegments ? segment * 10 + (c - '0') : -1;
  if (segment >= 0 && segment <= kMaxSegments && "segments/" + name == group_of(segment)) return segment;
  return malformed(fmt::format("\"{}\" is not a segment number", name));
}

Result<SampleSegment> read_segment(const Reader& reader, const std::string& name) {
  SampleSegment out;
  const auto number = segment_from(name);
  if (!number.ok()) return reader.in_file(number.error());
  out.segment = *number;
  const std::string group = group_of(out.segment);
  DGX_CHECK(reader.expect_attributes(group, {"start"}));
  DGX_CHECK(reader.expect_children(group, {"path", "state"}));
  DGX_TRY(out.start, reader.digest(group, "start"));
  DGX_TRY(out.path, reader.digests(group + "/path", kMaxPath));
  return out;
}

}  // namespace

struct SampleWriter::Impl {
  Writer writer;
  SampleHeader header;
  Constants constants;
  std::int64_t last = -1;
};

SampleWriter::SampleWriter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SampleWriter::SampleWriter(SampleWriter&&) noexcept = default;
SampleWriter::~SampleWriter() = default;

Result<SampleWriter> SampleWriter::create(AtomicFile target, const SampleHeader& header, Effort effort,
                                          Constants constants) {
  if (header.checkpoints < 1 || header.checkpoints > kMaxSegments) {
    return usage_error(
        fmt::format("a sample has 1 to {} checkpoints, not {}", kMaxSegments, header.checkpoints));
  }
  DGX_TRY(Writer writer, Writer::create(std::move(target), Kind::kSample, effort));
  DGX_CHECK(writer.digest("", "task", header.task));
  DGX_CHECK(writer.digest("", "proof", header.proof));
  DGX_CHECK(writer.integer("", "checkpoints", header.checkpoints));
  DGX_CHECK(writer.group("segments"));
  return SampleWriter(std::make_unique<Impl>(Impl{std::move(writer), header, std::move(constants)}));
}

Result<SampleWriter> SampleWriter::create(const std::string& path, const SampleHeader& header,
                                          Clobber clobber, Effort effort, Constants constants) {
  DGX_TRY(AtomicFile target, AtomicFile::create(path, clobber));
  return create(std::move(target), header, effort, std::move(constants));
}

Status SampleWriter::add(const SampleSegment& segment, const State& start, const StateDigests& digests) {
  if (segment.segment <= impl_->last || segment.segment >= impl_->header.checkpoints) {
    return usage_error(fmt::format("segment {} is not after {} and below {}", segment.segment, impl_->last,
                                   impl_->header.checkpoints));
  }
  if (segment.path.size() > kMaxPath)
    return usage_error(fmt::format("a path has {} digests", segment.path.size()));
  const bool is_first = impl_->last < 0;
  if (is_first && !impl_->constants.empty())
    DGX_CHECK(put_constants(impl_->writer, kConstant, start, digests, impl_->constants));
  impl_->last = segment.segment;
  const std::string group = group_of(segment.segment);
  DGX_CHECK(impl_->writer.group(group));
  DGX_CHECK(impl_->writer.digest(group, "start", segment.start));
  DGX_CHECK(impl_->writer.digests(group + "/path", segment.path));
  return put_state(impl_->writer, group + "/state", start, digests, impl_->constants);
}

Status SampleWriter::commit() { return impl_->writer.commit(); }

struct SampleReader::Impl {
  Reader reader;
  SampleHeader header;
  std::vector<SampleSegment> segments;
  std::vector<std::string> constants;
  mutable SharedEntries shared = {};

  Impl(Reader reader, const SampleHeader& header, std::vector<SampleSegment> segments,
       std::vector<std::string> constants)
      : reader(std::move(reader)),
        header(header),
        segments(std::move(segments)),
        constants(std::move(constants)) {}
};

SampleReader::SampleReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SampleReader::SampleReader(SampleReader&&) noexcept = default;
SampleReader::~SampleReader() = default;

Result<SampleReader> SampleReader::open(const std::string& path) {
  DGX_TRY(Reader reader, Reader::open(path, Kind::kSample));
  DGX_CHECK(reader.expect_attributes("", {"checkpoints", "proof", "task"}));
  const bool shares = reader.has_child(kConstant);
  DGX_CHECK(reader.expect_children(
      "", shares ? std::vector<std::string>{kConstant, "segments"} : std::vector<std::string>{"segments"}));
  std::vector<std::string> constants;
  if (shares) {
    DGX_CHECK(reader.expect_attributes(kConstant, {}));
    DGX_TRY(constants, reader.datasets_below(kConstant));
  }
  SampleHeader header;
  DGX_TRY(header.task, reader.digest("", "task"));
  DGX_TRY(header.proof, reader.digest("", "proof"));
  DGX_TRY(header.checkpoints, reader.integer("", "checkpoints", 1, kMaxSegments));
  DGX_CHECK(reader.expect_attributes("segments", {}));
  DGX_TRY(const std::vector<std::string> names, reader.children("segments", kMaxSampled));
  std::vector<SampleSegment> segments;
  for (const std::string& name : names) {
    DGX_TRY(SampleSegment segment, read_segment(reader, name));
    if (segment.segment >= header.checkpoints) {
      return reader.in_file(malformed(fmt::format("segment {} is beyond the proof's", segment.segment)));
    }
    segments.push_back(std::move(segment));
  }
  return SampleReader(
      std::make_unique<Impl>(std::move(reader), header, std::move(segments), std::move(constants)));
}

const SampleHeader& SampleReader::header() const { return impl_->header; }
const std::vector<SampleSegment>& SampleReader::segments() const { return impl_->segments; }
const std::vector<std::string>& SampleReader::constants() const { return impl_->constants; }

Result<StoredState> SampleReader::start(std::size_t position, Check check, Effort effort) const {
  if (position >= impl_->segments.size()) {
    return usage_error(
        fmt::format("a sample of {} segments has no segment at {}", impl_->segments.size(), position));
  }
  const SampleSegment& segment = impl_->segments[position];
  const std::string group = group_of(segment.segment) + "/state";
  if (impl_->constants.empty()) return take_state(impl_->reader, group, segment.start, check, effort);
  const auto shared = impl_->shared.of_group(impl_->reader, kConstant, check, effort);
  if (!shared.ok()) return shared.error();
  return take_state(impl_->reader, group, segment.start, check, effort, shared->get());
}

}  // namespace dgx::bundle
