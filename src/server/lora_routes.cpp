// SPDX-License-Identifier: Apache-2.0
#include "server/lora_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "server/api_error.h"

namespace inflight::server {
namespace {

// Texts that are not empty, and no other fields but vLLM's number of the adapter, which has no effect here.
Json read_text_fields(const std::string& text, std::initializer_list<std::string_view> names) {
  Json body = parse_json_object(text);
  body.erase("lora_int_id");
  check_names(body, names);
  for (const std::string_view name : names) {
    const std::string field(name);
    const auto value = body.find(field);
    if (value == body.end() || !value->is_string() || value->get_ref<const std::string&>().empty()) {
      throw ApiError(
          400, fmt::format("'{}' is {}, a text is expected", field, value == body.end() ? "missing" : describe(*value)),
          field);
    }
    refuse_nul(field, value->get_ref<const std::string&>());
  }
  return body;
}

std::string success(const std::string& name, const char* done) {
  return to_text(Json{{"message", fmt::format("Success: LoRA adapter '{}' {} successfully.", name, done)}});
}

}  // namespace

Json loaded_loras(Engine& engine) { return Json::parse(engine.info_json())["loras"]; }

void check_lora_name(const std::string& name, const std::vector<std::string>& served) {
  if (name != "default" && std::find(served.begin(), served.end(), name) == served.end()) return;
  throw ApiError(400, fmt::format("an adapter cannot be named '{}', which is a name of the model itself", name),
                 "lora_name");
}

std::string load_lora_answer(Engine& engine, const std::string& body, const std::vector<std::string>& served) {
  const Json given = read_text_fields(body, {"lora_name", "lora_path"});
  const std::string name = given["lora_name"];
  check_lora_name(name, served);
  try {
    engine.load_lora_adapter(name, given["lora_path"]);
  } catch (const Failure& failure) {
    if (failure.status() != INFLIGHT_ERROR_CORRUPT_FILE && failure.status() != INFLIGHT_ERROR_IO) throw;
    throw ApiError(400, failure.what());  // the client names the file
  }
  return success(name, "added");
}

std::string unload_lora_answer(Engine& engine, const std::string& body) {
  const std::string name = read_text_fields(body, {"lora_name"})["lora_name"];
  engine.unload_lora_adapter(name);
  return success(name, "removed");
}

}  // namespace inflight::server
