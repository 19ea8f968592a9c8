// SPDX-License-Identifier: Apache-2.0
#include "server/openapi.h"

#include <initializer_list>
#include <string_view>

#include "inflight/version.h"
#include "server/request_fields.h"

namespace inflight::server {
namespace {

Json reference(const char* name) { return Json{{"$ref", std::string("#/components/schemas/") + name}}; }

Json content(const char* type, Json schema) {
  Json json;
  json[type]["schema"] = std::move(schema);
  return json;
}

Json answer(const char* description, const char* type, Json schema) {
  return Json{{"description", description}, {"content", content(type, std::move(schema))}};
}

void add_errors(Json& responses, std::initializer_list<const char*> statuses) {
  for (const char* const status : statuses) {
    responses[status] = answer("The error object says what is wrong", "application/json", reference("Error"));
  }
}

Json get_operation(const char* summary, const char* type, Json schema) {
  Json operation;
  operation["summary"] = summary;
  operation["responses"]["200"] = answer("OK", type, std::move(schema));
  operation["security"] = Json::array();
  return operation;
}

Json post_operation(const char* summary, Json request, Json response) {
  Json operation;
  operation["summary"] = summary;
  operation["requestBody"]["required"] = true;
  operation["requestBody"]["content"] = content("application/json", std::move(request));
  operation["responses"]["200"] = answer("OK", "application/json", std::move(response));
  add_errors(operation["responses"], {"400", "401", "403", "404", "413", "415", "429", "500", "503", "504"});
  return operation;
}

Json generation(const char* summary, const char* request, const char* response) {
  Json operation = post_operation(summary, reference(request), reference(response));
  operation["responses"]["200"]["content"]["text/event-stream"]["schema"] =
      Json{{"description", "Server-sent events, with 'stream': true"}};
  return operation;
}

Json paths(const SchemaLimits& limits) {
  const Json object{{"type", "object"}};
  const Json text{{"type", "string"}};
  Json paths;
  paths["/v1/completions"]["post"] = generation("Continue a text", "CompletionRequest", "Completion");
  paths["/v1/chat/completions"]["post"] = generation("Answer a conversation", "ChatRequest", "ChatCompletion");
  paths["/v1/responses"]["post"] = generation("Answer a conversation (responses)", "ResponseRequest", "Response");
  paths["/v1/messages"]["post"] =
      generation("Answer a conversation (Anthropic's form)", "MessagesRequest", "MessagesAnswer");
  Json count = object;
  count["properties"]["input_tokens"]["type"] = "integer";
  paths["/v1/messages/count_tokens"]["post"] =
      post_operation("Tokens of a conversation (Anthropic's form)", reference("MessagesRequest"), count);
  paths["/v1/responses/input_tokens"]["post"] =
      post_operation("Tokens of a conversation (responses)", reference("ResponseRequest"), std::move(count));
  paths["/v1/embeddings"]["post"] =
      post_operation("Texts as vectors", reference("EmbeddingRequest"), reference("EmbeddingList"));
  if (limits.reranks) {
    paths["/v1/rerank"]["post"] =
        post_operation("Texts by relevance", reference("RerankRequest"), reference("RerankList"));
  }
  paths["/v1/models"]["get"] = get_operation("The served model", "application/json", reference("ModelList"));
  paths["/v1/models"]["get"].erase("security");
  add_errors(paths["/v1/models"]["get"]["responses"], {"401"});
  const auto texts = [&](std::initializer_list<const char*> names) {
    Json schema = object;
    schema["properties"]["lora_int_id"] = Json{{"type", "integer"}, {"description", "Accepted, without effect"}};
    for (const char* const name : names) {
      schema["properties"][name] = Json{{"type", "string"}, {"minLength", 1}};
      schema["required"].push_back(name);
    }
    return schema;
  };
  for (const char* const path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    const bool load = std::string_view(path) == "/v1/load_lora_adapter";
    paths[path]["post"] = load ? post_operation("Load a LoRA adapter", texts({"lora_name", "lora_path"}), object)
                               : post_operation("Unload a LoRA adapter", texts({"lora_name"}), object);
    add_errors(paths[path]["post"]["responses"], {"403"});
  }
  Json& one_model = paths["/v1/models/{model}"]["get"];
  one_model = get_operation("A served model", "application/json", reference("Model"));
  one_model["operationId"] = "get_model";
  one_model.erase("security");
  one_model["parameters"] =
      Json::array({Json{{"name", "model"}, {"in", "path"}, {"required", true}, {"schema", Json{{"type", "string"}}}}});
  add_errors(one_model["responses"], {"400", "401", "404"});
  paths["/v1/models"]["get"]["responses"]["200"]["links"]["model"] =
      Json{{"operationId", "get_model"}, {"parameters", Json{{"model", "$response.body#/data/0/id"}}}};
  Json& reset = paths["/reset_prefix_cache"]["post"];
  reset = get_operation("Forget the stored prefixes that no running request uses", "application/json", object);
  reset.erase("security");
  add_errors(reset["responses"], {"401", "403"});
  paths["/tokenize"]["post"] = post_operation("Text to token ids", reference("TokenizeRequest"), reference("Tokens"));
  paths["/tokenize"]["post"]["responses"]["200"]["links"]["text"] =
      Json{{"operationId", "detokenize"}, {"requestBody", Json{{"tokens", "$response.body#/tokens"}}}};
  paths["/detokenize"]["post"] = post_operation("Token ids to text", reference("DetokenizeRequest"), object);
  paths["/detokenize"]["post"]["operationId"] = "detokenize";
  Json& tokenizer = paths["/tokenizer_info"]["get"];
  tokenizer = get_operation("The vocabulary's special tokens and the chat template", "application/json", object);
  tokenizer.erase("security");
  add_errors(tokenizer["responses"], {"401", "404"});
  paths["/"]["get"] = get_operation("The web page", "text/html", text);
  paths["/widget"]["get"] = get_operation("The page of what batching does", "text/html", text);
  paths["/inflight/simulate"]["post"] =
      post_operation("Run the simulator, within bounds", reference("SimulateRequest"), object);
  Json& stats = paths["/inflight/stats"]["get"];
  stats = get_operation("The latest steps of the batch and figures of now", "application/json", object);
  stats.erase("security");
  stats["parameters"] =
      Json::array({Json{{"name", "since"},
                        {"in", "query"},
                        {"description", "Only steps after this number"},
                        {"schema", Json{{"type", "integer"}, {"minimum", 0}, {"maximum", 9007199254740991}}}}});
  add_errors(stats["responses"], {"400", "401"});
  paths["/health"]["get"] = get_operation("Does the engine work?", "application/json", object);
  add_errors(paths["/health"]["get"]["responses"], {"503"});
  paths["/ready"]["get"] = get_operation("Are requests accepted?", "application/json", object);
  add_errors(paths["/ready"]["get"]["responses"], {"503"});
  paths["/metrics"]["get"] = get_operation("Prometheus metrics", "text/plain; version=0.0.4", text);
  paths["/version"]["get"] = get_operation("Version of the server", "application/json", object);
  paths["/openapi.json"]["get"] = get_operation("This document", "application/json", object);
  return paths;
}

// The shapes that are not made from the table, with the numbers of with_limits().
constexpr std::string_view kFixedSchemas = R"json({
    "Error": {"type": "object", "required": ["type", "error"], "properties": {"type": {"enum": ["error"]},
      "error": {"type": "object",
      "required": ["message", "type", "param", "code"], "properties": {"message": {"type": "string"},
      "type": {"type": "string"}, "param": {"type": ["string", "null"]}, "code": {"type": ["string", "null"]}}}}},
    "TokenIds": {"type": "array", "minItems": 1, "maxItems": $PROMPT_TOKENS,
      "items": {"type": "integer", "minimum": 0, "maximum": $LAST_TOKEN}},
    "Prompt": {"anyOf": [{"type": "string", "minLength": 1}, {"$ref": "#/components/schemas/TokenIds"}]},
    "TextParts": {"type": "array", "items": {"type": "object", "required": ["type"], "anyOf": [
      {"required": ["text"], "properties": {"type": {"enum": ["text", "input_text", "output_text"]},
        "text": {"type": "string"}}},
      {"required": ["refusal"], "properties": {"type": {"enum": ["refusal"]}, "refusal": {"type": "string"}}}]}},
    "Message": {"type": "object", "required": ["role"], "properties": {
      "role": {"type": "string", "enum": ["system", "developer", "user", "assistant", "tool", "function"]},
      "content": {"anyOf": [{"type": "string"}, {"type": "null"}, {"$ref": "#/components/schemas/TextParts"}]},
      "tool_calls": {"type": ["array", "null"], "items": {"type": "object", "required": ["function"], "properties": {
        "id": {"type": ["string", "null"]}, "type": {"enum": ["function", null]}, "function": {"type": "object",
        "required": ["name"], "properties": {"name": {"type": "string"}, "arguments": {}}}}}},
      "name": {"type": ["string", "null"]}, "tool_call_id": {"type": ["string", "null"]},
      "reasoning_content": {"type": ["string", "null"]}, "reasoning": {"type": ["string", "null"]}},
      "if": {"properties": {"role": {"const": "assistant"}}}, "else": {"required": ["content"],
        "properties": {"content": {"type": ["string", "array"]}}}},
    "InputItem": {"type": "object", "anyOf": [
      {"$ref": "#/components/schemas/Message", "properties": {"type": {"enum": ["message", null]}}},
      {"required": ["type", "call_id", "name"], "properties": {"type": {"enum": ["function_call"]},
        "call_id": {"type": "string"}, "name": {"type": "string"}, "arguments": {}}},
      {"required": ["type", "call_id"], "properties": {"type": {"enum": ["function_call_output"]},
        "call_id": {"type": "string"},
        "output": {"anyOf": [{"type": ["string", "null"]}, {"$ref": "#/components/schemas/TextParts"}]}}},
      {"required": ["type"], "properties": {"type": {"enum": ["reasoning"]},
        "content": {"$ref": "#/components/schemas/ReasoningParts"},
        "summary": {"$ref": "#/components/schemas/ReasoningParts"}}}]},
    "ReasoningParts": {"type": ["array", "null"], "items": {"type": "object", "required": ["text"],
      "properties": {"text": {"type": "string"}}}},
    "Function": {"type": "object", "required": ["name"], "properties": {
      "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,128}$"}, "description": {"type": ["string", "null"]},
      "parameters": {"type": ["object", "null"]}, "strict": {"type": ["boolean", "null"]}}},
    "Tool": {"type": "object", "required": ["type"], "properties": {"type": {"type": "string", "enum": ["function"]}},
      "anyOf": [
        {"required": ["function"], "properties": {"function": {"$ref": "#/components/schemas/Function"}}},
        {"$ref": "#/components/schemas/Function", "properties": {"function": {"type": "null"}}}]},
    "AllowedTools": {"type": "object", "required": ["mode", "tools"], "properties": {
      "mode": {"enum": ["auto", "required"]},
      "tools": {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/Tool"}}}},
    "ToolChoice": {"anyOf": [{"type": "string", "enum": ["none", "auto", "required"]},
      {"type": "object", "required": ["type", "function"], "properties": {"type": {"enum": ["function"]},
        "function": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}},
      {"type": "object", "required": ["type", "name"], "properties": {"type": {"enum": ["function"]},
        "name": {"type": "string"}, "function": {"type": "null"}}},
      {"type": "object", "required": ["type", "allowed_tools"], "properties": {"type": {"enum": ["allowed_tools"]},
        "allowed_tools": {"$ref": "#/components/schemas/AllowedTools"}}},
      {"$ref": "#/components/schemas/AllowedTools", "required": ["type"], "properties": {
        "type": {"enum": ["allowed_tools"]}, "allowed_tools": {"type": "null"}}}]},
    "SchemaHolder": {"type": "object", "required": ["schema"], "properties": {"schema": {"type": "object"},
      "strict": {"type": ["boolean", "null"]}}},
    "ResponseFormat": {"type": "object", "required": ["type"], "anyOf": [
      {"properties": {"type": {"enum": ["text", "json_object"]}}},
      {"required": ["json_schema"], "properties": {"type": {"enum": ["json_schema"]},
        "json_schema": {"$ref": "#/components/schemas/SchemaHolder"}}},
      {"$ref": "#/components/schemas/SchemaHolder", "properties": {"type": {"enum": ["json_schema"]},
        "json_schema": false}}]},
    "StructuredOutputs": {"type": "object", "additionalProperties": false, "properties": {
      "json": {"anyOf": [{"type": ["object", "null"]}, {"type": "string", "minLength": 1}, {"const": true}]},
      "regex": {"type": ["string", "null"], "minLength": 1}, "grammar": {"type": ["string", "null"], "minLength": 1},
      "choice": {"type": ["array", "null"], "minItems": 1, "maxItems": 1024, "items": {"type": "string", "minLength": 1}},
      "json_object": {"type": ["boolean", "null"]}}, "anyOf": [
      {"properties": {"regex": {"const": null}, "grammar": {"const": null}, "choice": {"const": null},
        "json_object": {"enum": [false, null]}}},
      {"properties": {"json": {"const": null}, "grammar": {"const": null}, "choice": {"const": null},
        "json_object": {"enum": [false, null]}}},
      {"properties": {"json": {"const": null}, "regex": {"const": null}, "choice": {"const": null},
        "json_object": {"enum": [false, null]}}},
      {"properties": {"json": {"const": null}, "regex": {"const": null}, "grammar": {"const": null},
        "json_object": {"enum": [false, null]}}},
      {"properties": {"json": {"const": null}, "regex": {"const": null}, "grammar": {"const": null},
        "choice": {"const": null}}}]},
    "TextBlock": {"type": "object", "required": ["type", "text"], "properties": {
      "type": {"type": "string", "enum": ["text"]}, "text": {"type": "string"}}},
    "UserBlock": {"anyOf": [{"$ref": "#/components/schemas/TextBlock"}, {"type": "object",
      "required": ["type", "tool_use_id"], "properties": {"type": {"enum": ["tool_result"]},
      "tool_use_id": {"type": "string"}, "content": {"anyOf": [{"type": ["string", "null"]},
        {"type": "array", "items": {"$ref": "#/components/schemas/TextBlock"}}]}}}]},
    "AssistantBlock": {"anyOf": [{"$ref": "#/components/schemas/TextBlock"}, {"type": "object",
      "required": ["type", "id", "name"], "properties": {"type": {"enum": ["tool_use"]}, "id": {"type": "string"},
        "name": {"type": "string"}, "input": {}}},
      {"type": "object", "required": ["type", "thinking"], "properties": {"type": {"enum": ["thinking"]},
        "thinking": {"type": "string"}}},
      {"type": "object", "required": ["type"], "properties": {"type": {"enum": ["redacted_thinking"]}}}]},
    "AnthropicMessage": {"type": "object", "required": ["role", "content"], "anyOf": [
      {"properties": {"role": {"enum": ["user"]}, "content": {"anyOf": [{"type": "string"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/UserBlock"}}]}}},
      {"properties": {"role": {"enum": ["assistant"]}, "content": {"anyOf": [{"type": "string"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/AssistantBlock"}}]}}},
      {"properties": {"role": {"enum": ["system"]}, "content": {"anyOf": [{"type": "string"},
        {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/TextBlock"}}]}}}]},
    "AnthropicTool": {"type": "object", "required": ["name", "input_schema"], "properties": {
      "name": {"type": "string", "pattern": "^[a-zA-Z0-9_.-]{1,128}$"}, "type": {"enum": ["custom", null]},
      "description": {"type": ["string", "null"]}, "input_schema": {"type": "object"},
      "strict": {"type": ["boolean", "null"]}}},
    "MessagesAnswer": {"type": "object", "required": ["id", "type", "role", "model", "content", "stop_reason",
      "stop_sequence", "usage"], "properties": {"content": {"type": "array", "items": {"type": "object"}},
      "stop_reason": {"type": "string", "enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use",
        "model_context_window_exceeded"]},
      "usage": {"type": "object", "required": ["input_tokens", "cache_read_input_tokens", "output_tokens"]}}},
    "Usage": {"type": "object", "required": ["prompt_tokens", "completion_tokens", "total_tokens"], "properties": {
      "prompt_tokens": {"type": "integer"}, "completion_tokens": {"type": "integer"},
      "total_tokens": {"type": "integer"}, "prompt_tokens_details": {"type": "object"},
      "completion_tokens_details": {"type": "object", "properties": {"reasoning_tokens": {"type": "integer"}}}}},
    "Completion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"], "properties": {
      "choices": {"type": "array", "items": {"type": "object", "required": ["index", "text", "finish_reason"]}},
      "usage": {"$ref": "#/components/schemas/Usage"}}},
    "ChatCompletion": {"type": "object", "required": ["id", "object", "created", "model", "choices", "usage"],
      "properties": {"choices": {"type": "array", "items": {"type": "object",
      "required": ["index", "message", "finish_reason"], "properties": {"message": {"type": "object", "properties": {
      "content": {"type": ["string", "null"]}, "reasoning_content": {"type": "string",
        "description": "What the model thinks before it answers, where it marks that"}}}}}},
      "usage": {"$ref": "#/components/schemas/Usage"}}},
    "Response": {"type": "object", "required": ["id", "object", "created_at", "status", "model", "output", "usage"]},
    "EmbeddingList": {"type": "object", "required": ["object", "data", "model", "usage"], "properties": {
      "data": {"type": "array", "items": {"type": "object", "required": ["object", "index", "embedding"], "properties": {
      "embedding": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "number"}}]}}}}}},
    "RerankList": {"type": "object", "required": ["id", "object", "model", "usage", "results"], "properties": {
      "results": {"type": "array", "items": {"type": "object", "required": ["index", "relevance_score"], "properties": {
      "relevance_score": {"type": "number", "minimum": 0, "maximum": 1}}}}}},
    "ModelList": {"type": "object", "required": ["object", "data"], "properties": {
      "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}}},
    "Model": {"type": "object", "required": ["id", "object", "created", "owned_by"]},
    "TokenizeRequest": {"type": "object", "additionalProperties": false, "anyOf": [
      {"required": ["prompt"], "properties": {"prompt": {"type": "string"}}},
      {"required": ["content"], "properties": {"content": {"type": "string"}}},
      {"required": ["messages"], "properties": {"messages": {"type": "array"}}}], "properties": {
      "model": {"type": ["string", "null"]}, "prompt": {"type": ["string", "null"]},
      "content": {"type": ["string", "null"]},
      "messages": {"type": ["array", "null"], "minItems": 1, "maxItems": 10000,
        "items": {"$ref": "#/components/schemas/Message"}},
      "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Tool"}},
      "chat_template_kwargs": {"type": ["object", "null"]}, "add_generation_prompt": {"type": ["boolean", "null"]},
      "continue_final_message": {"type": ["boolean", "null"]},
      "add_special_tokens": {"type": ["boolean", "null"]}, "return_token_strs": {"type": ["boolean", "null"]}},
      "if": {"required": ["messages", "continue_final_message"], "properties": {"messages": {"type": "array"},
        "continue_final_message": {"const": true}}},
      "then": {"required": ["add_generation_prompt"], "properties": {"add_generation_prompt": {"const": false}}}},
    "Tokens": {"type": "object", "required": ["count", "tokens", "max_model_len"], "properties": {
      "count": {"type": "integer"}, "max_model_len": {"type": "integer"},
      "tokens": {"type": "array", "items": {"type": "integer"}}}},
    "DetokenizeRequest": {"type": "object", "additionalProperties": false, "required": ["tokens"], "properties": {
      "model": {"type": ["string", "null"]},
      "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": $LAST_TOKEN}}}},
    "SimulateRequest": {"type": "object", "additionalProperties": false, "required": ["workload"], "properties": {
      "workload": {"type": "string", "maxLength": 500, "allOf": [
        {"pattern": "^(bimodal|closed|uniform|poisson|gamma|ramp|lognormal|prefix|multiturn|branches|tenants)(,|$)"},
        {"pattern": "^[a-z]+(,requests=[1-9][0-9]{0,2})?(,seed=[0-9]{1,4})?$"}],
        "description": "KIND,key=value,...: these, and what else `inflight sim --help` tells"},
      "device": {"type": "string", "enum": ["unit", "pocl-135m", "pocl-tinyworld", "gpu-7b", "gpu-8b"]},
      "policy": {"type": "string", "pattern": "^[a-z0-9_-]+$", "description": "A scheduling policy; 404: no such one"},
      "evict": {"type": "string", "pattern": "^[a-z0-9_-]+$", "description": "An eviction strategy; 404: no such one"},
      "batching": {"type": "string", "enum": ["continuous", "prefill_first", "dynamic", "static"]},
      "preempt_victim": {"type": "string",
        "enum": ["last_admitted", "lowest_priority", "fewest_output", "most_freeable", "cheapest"]},
      "prefix_caching": {"type": "string", "enum": ["on", "off"]}, "overlap": {"type": "string", "enum": ["on", "off"]},
      "timeline": {"type": "string", "enum": ["on", "off"]},
      "max_num_seqs": {"type": "integer", "minimum": 1, "maximum": 1024},
      "max_num_batched_tokens": {"type": "integer", "minimum": 1, "maximum": 65536,
        "description": "At least max_num_seqs"},
      "kv_blocks": {"type": "integer", "minimum": 1, "maximum": 65536,
        "description": "Must hold the longest request, 16 tokens each"},
      "max_batch_delay_ms": {"type": "number", "minimum": 0, "maximum": 3600000},
      "schedule_conservativeness": {"type": "number", "minimum": 0, "maximum": 10}}}
  })json";

}  // namespace

std::string openapi_document(const Json& engine_info) {
  const SchemaLimits limits{.vocabulary_size = engine_info["model"]["vocabulary_size"],
                            .max_model_len = engine_info["limits"]["max_model_len"],
                            .embedding_length = engine_info["model"]["embedding_length"],
                            .infill = engine_info["model"]["infill"],
                            .reranks = !engine_info["model"]["labels"].empty()};
  Json document;
  document["openapi"] = "3.1.0";
  document["info"] = Json{{"title", "inflight"},
                          {"description", "Continuous batching for language models on any OpenCL device"},
                          {"version", INFLIGHT_VERSION_STRING},
                          {"license", Json{{"name", "Apache-2.0"}, {"identifier", "Apache-2.0"}}}};
  document["security"] = Json::array({Json{{"key", Json::array()}}, Json::object()});
  document["paths"] = paths(limits);
  document["components"]["securitySchemes"]["key"] = Json{{"type", "http"}, {"scheme", "bearer"}};
  document["components"]["schemas"] = Json::parse(with_limits(kFixedSchemas, limits));
  document["components"]["schemas"]["CompletionRequest"] = request_schema(kCompletions, limits);
  document["components"]["schemas"]["ChatRequest"] = request_schema(kChat, limits);
  document["components"]["schemas"]["ResponseRequest"] = request_schema(kResponses, limits);
  document["components"]["schemas"]["MessagesRequest"] = request_schema(kMessages, limits);
  document["components"]["schemas"]["EmbeddingRequest"] = request_schema(kEmbeddings, limits);
  document["components"]["schemas"]["RerankRequest"] = request_schema(kRerank, limits);
  return to_text(document);
}

}  // namespace inflight::server
