// SPDX-License-Identifier: Apache-2.0
#include "plugin_host/plugin_notes.h"

#include <elf.h>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/error.h"
#include "base/math.h"
#include "inflight/plugin.h"

namespace inflight {
namespace {

constexpr size_t kSegmentsMax = 256;
constexpr size_t kNoteBytesMax = size_t{1} << 20;

class ElfFile {
 public:
  ElfFile(const std::string& path, const std::string& shown_as)
      : path_(shown_as), stream_(path, std::ios::binary | std::ios::ate) {
    if (!stream_) fail(ErrorCode::NotFound, "{}: cannot be opened", shown_as);
    byte_count_ = static_cast<uint64_t>(stream_.tellg());
  }

  template <typename T>
  T read_at(uint64_t offset) {
    T value{};
    read_at(offset, reinterpret_cast<char*>(&value), sizeof value);
    return value;
  }
  void read_at(uint64_t offset, char* bytes, size_t count) {
    require_inside(offset, count);
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(bytes, static_cast<std::streamsize>(count));
    if (!stream_) damaged("it cannot be read");
  }
  void require_inside(uint64_t offset, uint64_t count) const {
    if (offset <= byte_count_ && count <= byte_count_ - offset) return;
    damaged(fmt::format("it ends early: has {} bytes, speaks of {} at {}", byte_count_, count, offset));
  }
  [[noreturn]] void damaged(const std::string& why) const {
    fail(ErrorCode::Plugin, "{}: is no plugin: {}", path_, why);
  }

 private:
  const std::string& path_;
  std::ifstream stream_;
  uint64_t byte_count_ = 0;
};

// "sched org.example.vtc" -> a note; nullopt-like empty id when it is malformed.
PluginNote parse_text(std::string_view text) {
  text = text.substr(0, text.find('\0'));
  if (text.starts_with("sched ")) return {INFLIGHT_KIND_SCHED, std::string(text.substr(6))};
  if (text.starts_with("evict ")) return {INFLIGHT_KIND_EVICT, std::string(text.substr(6))};
  return {};
}

void collect(std::string_view segment, std::vector<PluginNote>& notes) {
  while (segment.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, segment.data(), sizeof header);
    segment.remove_prefix(sizeof header);
    const size_t name_bytes = align_up<size_t>(header.n_namesz, 4), text_bytes = align_up<size_t>(header.n_descsz, 4);
    if (name_bytes + text_bytes > segment.size()) return;
    const std::string_view name = segment.substr(0, header.n_namesz);
    if (name == std::string_view("inflight", 9) && header.n_type == INFLIGHT_PLUGIN_ABI_MAJOR) {
      PluginNote note = parse_text(segment.substr(name_bytes, header.n_descsz));
      if (!note.id.empty()) notes.push_back(std::move(note));
    }
    segment.remove_prefix(name_bytes + text_bytes);
  }
}

}  // namespace

std::vector<PluginNote> read_plugin_notes(const std::string& path) { return read_plugin_notes(path, path); }

std::vector<PluginNote> read_plugin_notes(const std::string& path, const std::string& shown_as) {
  static_assert(std::endian::native == std::endian::little && sizeof(void*) == 8);
  ElfFile file(path, shown_as);
  const auto header = file.read_at<Elf64_Ehdr>(0);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) file.damaged("not an ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    file.damaged("an ELF file of another kind of machine");
  }
  if (header.e_phnum > kSegmentsMax || header.e_phentsize != sizeof(Elf64_Phdr)) file.damaged("odd program headers");
  // What is mapped but not there would be a SIGBUS in the loader. The table of sections, which nobody needs to run it,
  // is at the end of most files: without it something is missing.
  if (header.e_shoff != 0) file.require_inside(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize);
  std::vector<PluginNote> notes;
  std::string segment;
  for (size_t i = 0; i < header.e_phnum; ++i) {
    const auto program = file.read_at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr));
    if (program.p_type == PT_LOAD) file.require_inside(program.p_offset, program.p_filesz);
    if (program.p_type != PT_NOTE) continue;
    if (program.p_filesz > kNoteBytesMax) file.damaged("notes of more than 1 MiB");
    segment.resize(program.p_filesz);
    file.read_at(program.p_offset, segment.data(), segment.size());
    collect(segment, notes);
  }
  return notes;
}

}  // namespace inflight
