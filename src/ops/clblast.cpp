// SPDX-License-Identifier: Apache-2.0
#include "ops/clblast.h"

#include <clblast_c.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <filesystem>

#include "base/error.h"

namespace inflight {
namespace {

constexpr const char* kLibraryName = "libclblast.so.1";

// It stays when closed: programs that it compiled are released by its own exit handlers.
void* open_library() { return dlopen(kLibraryName, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE); }

}  // namespace

struct Clblast::Library {
  struct Close {
    void operator()(void* handle) const noexcept { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle;
  decltype(&CLBlastSgemm) sgemm = nullptr;
  decltype(&CLBlastOverrideParameters) override_parameters = nullptr;
};

bool Clblast::available() {
  const std::unique_ptr<void, Library::Close> handle(open_library());
  return handle != nullptr;
}

std::string Clblast::identity() {
  const std::unique_ptr<void, Library::Close> handle(open_library());
  const link_map* map = nullptr;
  if (handle == nullptr || dlinfo(handle.get(), RTLD_DI_LINKMAP, static_cast<void*>(&map)) != 0) return {};
  std::error_code error;  // a file that was deleted meanwhile has neither
  const uintmax_t bytes = std::filesystem::file_size(map->l_name, error);
  const std::filesystem::file_time_type changed = std::filesystem::last_write_time(map->l_name, error);
  return fmt::format("{} {} {}", map->l_name, bytes, changed.time_since_epoch().count());
}

Clblast::Clblast() : library_(std::make_unique<Library>()) {
  library_->handle.reset(open_library());
  if (library_->handle == nullptr) {
    fail(ErrorCode::Unsupported, "{} was not found; install it (Debian: libclblast1) or choose another linear_backend",
         kLibraryName);
  }
  library_->sgemm = reinterpret_cast<decltype(library_->sgemm)>(dlsym(library_->handle.get(), "CLBlastSgemm"));
  library_->override_parameters = reinterpret_cast<decltype(library_->override_parameters)>(
      dlsym(library_->handle.get(), "CLBlastOverrideParameters"));
  if (library_->sgemm == nullptr || library_->override_parameters == nullptr) {
    fail(ErrorCode::Unsupported, "{} lacks CLBlastSgemm or CLBlastOverrideParameters", kLibraryName);
  }
}

Clblast::~Clblast() = default;

void Clblast::configure(const Device& device, const ClblastParameters& parameters) const {
  const auto set = [&](const char* kernel, const std::vector<const char*>& names, const std::vector<size_t>& values) {
    // CLBlast does not write to the names.
    const CLBlastStatusCode status =
        library_->override_parameters(device.raw_id(), kernel, CLBlastPrecisionSingle, names.size(),
                                      const_cast<const char**>(names.data()), values.data());
    if (status != CLBlastSuccess) {
      fail(ErrorCode::Device, "CLBlast refuses the parameters of {}: status {}", kernel, static_cast<int>(status));
    }
  };
  set("GemmRoutine", {"XGEMM_MIN_INDIRECT_SIZE"}, {0});
  if (parameters.empty()) return;
  std::vector<const char*> names;
  std::vector<size_t> values;
  for (const auto& [name, value] : parameters) {
    names.push_back(name.c_str());
    values.push_back(value);
  }
  set("Xgemm", names, values);
}

void Clblast::multiply(Device& device, const ClblastProduct& product) const {
  cl_command_queue queue = device.queue();
  cl_event event = nullptr;
  const auto size = [](int32_t number) { return static_cast<size_t>(number); };
  // Column-major: y^T [outputs, rows] = weights^T [outputs, depth] * x^T [depth, rows].
  const CLBlastStatusCode status = library_->sgemm(
      CLBlastLayoutColMajor, CLBlastTransposeNo, CLBlastTransposeNo, size(product.outputs), size(product.rows),
      size(product.depth), 1.0F, product.weights->raw(), 0, size(product.outputs), product.x->raw(), product.x_offset,
      size(product.depth), 0.0F, product.y->raw(), 0, size(product.outputs), &queue, &event);
  if (status != CLBlastSuccess) fail(ErrorCode::Device, "CLBlastSgemm: status {}", static_cast<int>(status));
  device.note_launch("clblast_sgemm", event);
}

}  // namespace inflight
