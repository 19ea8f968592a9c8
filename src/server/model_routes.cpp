// SPDX-License-Identifier: Apache-2.0
#include "server/model_routes.h"

#include <algorithm>
#include <ctime>

namespace inflight::server {
namespace {

std::string rfc3339(std::time_t time_s) {
  std::tm parts{};
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&time_s, &parts))};
}

Json describe_model(const ServedModels& models, const std::string& name) {
  Json model;
  model["id"] = name;
  model["object"] = "model";
  model["created"] = models.started_s;
  model["owned_by"] = "inflight";
  model["root"] = models.names.front();
  model["max_model_len"] = models.info["limits"]["max_model_len"];
  model["parent"] = nullptr;
  model["type"] = "model";  // from here on what Anthropic's clients read
  model["display_name"] = name;
  model["created_at"] = rfc3339(static_cast<std::time_t>(models.started_s));
  model["max_input_tokens"] = model["max_model_len"];
  const auto most = models.info["limits"]["max_tokens_limit"].get<int32_t>();  // 0: none
  const auto context = model["max_model_len"].get<int32_t>();
  model["max_tokens"] = most > 0 ? std::min(most, context) : context;
  model["lifecycle"] = "active";
  for (const Json& lora : models.loras) {
    if (lora["name"] != name) continue;
    model["root"] = lora["path"];
    model["parent"] = models.names.front();
  }
  return model;
}

}  // namespace

std::string models_answer(const ServedModels& models) {
  Json list;
  list["object"] = "list";
  list["data"] = Json::array();
  for (const std::string& name : models.names) {
    if (name != "default" || models.names.front() == name) list["data"].push_back(describe_model(models, name));
  }
  for (const Json& lora : models.loras) list["data"].push_back(describe_model(models, lora["name"]));
  list["first_id"] = list["data"].front()["id"];
  list["last_id"] = list["data"].back()["id"];
  list["has_more"] = false;
  return to_text(list);
}

std::string model_answer(const ServedModels& models, const std::string& name) {
  return to_text(describe_model(models, name));
}

}  // namespace inflight::server
