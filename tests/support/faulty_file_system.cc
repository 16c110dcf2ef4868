#include "faulty_file_system.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

namespace dgx::test {
namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string& path) { return fs::path(path).parent_path().string(); }

std::string read_all(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

/// splitmix64.
std::uint64_t draw(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

}  // namespace

FaultyFileSystem::FaultyFileSystem(std::string folder, Fault fault, std::int64_t at)
    : folder_(std::move(folder)), fault_(fault), at_(at) {
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    const std::string path = entry.path().string();
    if (entry.is_directory()) {
      names_[path] = kFolder;
    } else {
      names_[path] = static_cast<int>(nodes_.size());
      Node node{read_all(path), {}, 0};
      node.size = node.durable.size();
      nodes_.push_back(std::move(node));
    }
  }
  durable_names_ = names_;
  before_ = use_file_system(this);
}

FaultyFileSystem::~FaultyFileSystem() { use_file_system(before_); }

bool FaultyFileSystem::go_on(bool takes_space) {
  const std::int64_t call = calls_++;
  const bool fails = (fault_ == Fault::kCut && call >= at_) || (fault_ == Fault::kIo && call == at_) ||
                     (fault_ == Fault::kNoSpace && call >= at_ && takes_space);
  errno = fault_ == Fault::kNoSpace ? ENOSPC : EIO;
  return !fails;
}

std::size_t FaultyFileSystem::shortened(std::size_t size) const {
  return fault_ == Fault::kShort && calls_ - 1 == at_ ? (size + 1) / 2 : size;
}

void FaultyFileSystem::name(std::string comes, int node, std::string goes) {
  pending_names_.push_back({std::move(comes), node, std::move(goes)});
  apply(names_, pending_names_.back());
}

void FaultyFileSystem::apply(Names& names, const Naming& naming) {
  if (!naming.goes.empty()) names.erase(naming.goes);
  if (!naming.comes.empty()) names[naming.comes] = naming.node;
}

int FaultyFileSystem::open(const char* path, int flags, unsigned mode) {
  const bool makes = (flags & (O_CREAT | O_TRUNC)) != 0;
  const bool gone = fault_ == Fault::kCut && calls_ >= at_;
  if (makes && !go_on(true)) return -1;
  if (!makes && gone) return errno = EIO, -1;
  const int file = FileSystem::open(path, flags, mode);
  if (file < 0) return file;
  Opened opened{kFolder, path, (flags & O_APPEND) != 0, 0};
  if (!fs::is_directory(path)) {
    if (!names_.contains(path)) {
      nodes_.emplace_back();
      name(path, static_cast<int>(nodes_.size()) - 1, {});
    }
    opened.node = names_.at(path);
    Node& node = nodes_[static_cast<std::size_t>(opened.node)];
    if ((flags & O_TRUNC) != 0 && node.size > 0) {
      node.pending.push_back({0, {}, true});
      node.size = 0;
    }
  }
  open_[file] = std::move(opened);
  return file;
}

int FaultyFileSystem::close(int file) {
  open_.erase(file);
  return FileSystem::close(file);
}

void FaultyFileSystem::note_write(int file, const void* bytes, std::size_t size, std::size_t at) {
  Node& node = nodes_[static_cast<std::size_t>(open_.at(file).node)];
  node.pending.push_back({at, std::string(static_cast<const char*>(bytes), size), false});
  node.size = std::max(node.size, at + size);
}

ssize_t FaultyFileSystem::write(int file, const void* bytes, std::size_t size) {
  if (!open_.contains(file)) return FileSystem::write(file, bytes, size);  // a stream, not a file
  if (!go_on(true)) return -1;
  const ssize_t done = FileSystem::write(file, bytes, shortened(size));
  if (done <= 0) return done;
  Opened& opened = open_.at(file);
  if (opened.append) opened.position = nodes_[static_cast<std::size_t>(opened.node)].size;
  note_write(file, bytes, static_cast<std::size_t>(done), opened.position);
  opened.position += static_cast<std::size_t>(done);
  return done;
}

ssize_t FaultyFileSystem::pwrite(int file, const void* bytes, std::size_t size, off_t at) {
  if (!go_on(true)) return -1;
  const ssize_t done = FileSystem::pwrite(file, bytes, shortened(size), at);
  if (done > 0) note_write(file, bytes, static_cast<std::size_t>(done), static_cast<std::size_t>(at));
  return done;
}

int FaultyFileSystem::ftruncate(int file, off_t size) {
  if (!go_on(false)) return -1;
  const int done = FileSystem::ftruncate(file, size);
  if (done != 0) return done;
  Node& node = nodes_[static_cast<std::size_t>(open_.at(file).node)];
  node.pending.push_back({static_cast<std::size_t>(size), {}, true});
  node.size = static_cast<std::size_t>(size);
  return done;
}

int FaultyFileSystem::fsync(int file) {
  if (!go_on(true)) return -1;
  const Opened& opened = open_.at(file);
  if (opened.node != kFolder) {
    Node& node = nodes_[static_cast<std::size_t>(opened.node)];
    node.durable = content_of(node, true, nullptr);
    node.pending.clear();
    return 0;
  }
  const auto here = [&](const Naming& naming) {
    return parent_of(naming.comes.empty() ? naming.goes : naming.comes) == opened.path;
  };
  for (const Naming& naming : pending_names_) {
    if (here(naming)) apply(durable_names_, naming);
  }
  std::erase_if(pending_names_, here);
  return 0;
}

int FaultyFileSystem::rename(const char* from, const char* to) {
  if (!go_on(true)) return -1;
  const int done = FileSystem::rename(from, to);
  if (done == 0) name(to, names_.at(from), from);
  return done;
}

int FaultyFileSystem::rename_no_replace(const char* from, const char* to) {
  if (!go_on(true)) return -1;
  const int done = FileSystem::rename_no_replace(from, to);
  if (done == 0) name(to, names_.at(from), from);
  return done;
}

int FaultyFileSystem::link(const char* from, const char* to) {
  if (!go_on(true)) return -1;
  const int done = FileSystem::link(from, to);
  if (done == 0) name(to, names_.at(from), {});
  return done;
}

int FaultyFileSystem::unlink(const char* path) {
  if (!go_on(false)) return -1;
  const int done = FileSystem::unlink(path);
  if (done == 0) name({}, kFolder, path);
  return done;
}

int FaultyFileSystem::mkdir(const char* path, unsigned mode) {
  if (!go_on(true)) return -1;
  const int done = FileSystem::mkdir(path, mode);
  if (done == 0) name(path, kFolder, {});
  return done;
}

/// The file's content: with `all` everything written, else what was synced; with `random` also a prefix of
/// the later changes, the last write cut anywhere, perhaps with zeros for the missing bytes.
std::string FaultyFileSystem::content_of(const Node& node, bool all, std::uint64_t* random) {
  std::string out = node.durable;
  const std::size_t count = all       ? node.pending.size()
                            : !random ? 0
                                      : draw(*random) % (node.pending.size() + 1);
  for (std::size_t i = 0; i < count; ++i) {
    const Change& change = node.pending[i];
    if (change.cut) {
      out.resize(change.at);
      continue;
    }
    const bool last = !all && i + 1 == count;
    const std::size_t kept = last ? draw(*random) % (change.bytes.size() + 1) : change.bytes.size();
    const bool zeros = last && draw(*random) % 2 == 0;
    out.resize(std::max(out.size(), change.at + (zeros ? change.bytes.size() : kept)));
    out.replace(change.at, kept, change.bytes, 0, kept);
  }
  return out;
}

void FaultyFileSystem::crash(Survival survival, std::uint64_t seed) {
  std::uint64_t random = seed;
  const bool names_live = survival == Survival::kNames || survival == Survival::kAll;
  const bool bytes_live = survival == Survival::kBytes || survival == Survival::kAll;
  Names names = durable_names_;
  for (const Naming& naming : pending_names_) {
    if (names_live || (survival == Survival::kDrawn && draw(random) % 2 == 0)) apply(names, naming);
  }
  for (const auto& entry : fs::directory_iterator(folder_)) fs::remove_all(entry.path());
  for (const auto& [path, node] : names) {  // folders come before their contents
    if (!fs::is_directory(parent_of(path))) continue;
    if (node == kFolder) {
      fs::create_directory(path);
      continue;
    }
    std::uint64_t* const drawn = survival == Survival::kDrawn ? &random : nullptr;
    std::ofstream(path, std::ios::binary)
        << content_of(nodes_[static_cast<std::size_t>(node)], bytes_live, drawn);
  }
}

}  // namespace dgx::test
