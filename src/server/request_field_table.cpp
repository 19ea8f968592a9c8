// SPDX-License-Identifier: Apache-2.0
// The table itself.
#include "server/anthropic_messages.h"
#include "server/field_readers.h"
#include "server/request_fields.h"

namespace inflight::server {
namespace {

using Field = RequestField;
using Kind = Field::Kind;
using Request = GenerationRequest;

constexpr double kInt32Max = 2147483647.0;
constexpr double kTimeMsMax = 1e9;
constexpr double kTokensMax = 1 << 24;
constexpr double kTenantsMax = 4096;  // of the C interface

// In the schemas, $NAME stands for a number of the model, see SchemaLimits.
constexpr std::string_view kPromptSchema =
    R"({"anyOf": [{"type": "string", "minLength": $PROMPT_BYTES},
        {"$ref": "#/components/schemas/TokenIds"},
        {"type": "array", "minItems": 1, "maxItems": 128, "items": {"anyOf": [
          {"type": "string", "minLength": $PROMPT_BYTES}, {"$ref": "#/components/schemas/TokenIds"}]}}]})";
constexpr std::string_view kEmbeddingInputSchema =
    R"({"anyOf": [{"type": "string", "minLength": 1},
        {"$ref": "#/components/schemas/TokenIds"},
        {"type": "array", "minItems": 1, "maxItems": 2048, "items": {"$ref": "#/components/schemas/Prompt"}}]})";

constexpr std::string_view kRerankDocumentsSchema =
    R"({"type": "array", "minItems": 1, "maxItems": 2048, "items": {"anyOf": [{"type": "string"},
        {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}]}})";

constexpr std::string_view kToolsSchema =
    R"({"type": "array", "maxItems": 512, "items": {"$ref": "#/components/schemas/Tool"}})";

constexpr std::string_view kPredictionSchema =
    R"({"type": "object", "required": ["type", "content"], "properties": {"type": {"enum": ["content"]}, "content":
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object", "required": ["type", "text"],
         "properties": {"type": {"enum": ["text"]}, "text": {"type": "string"}}}}]}}})";

constexpr int32_t& max_tokens(Request& request) { return request.max_tokens; }

constexpr Field integer(std::string_view name, unsigned endpoints, double min, double max, int32_t& (*at)(Request&),
                        std::string_view help) {
  return {
      .name = name, .endpoints = endpoints, .kind = Kind::Integer, .help = help, .min = min, .max = max, .integer = at};
}
constexpr Field number(std::string_view name, unsigned endpoints, double min, double max, float& (*at)(Request&),
                       std::string_view help) {
  return {
      .name = name, .endpoints = endpoints, .kind = Kind::Number, .help = help, .min = min, .max = max, .number = at};
}
constexpr Field number_above(std::string_view name, unsigned endpoints, double min, double max, float& (*at)(Request&),
                             std::string_view help) {
  Field field = number(name, endpoints, min, max, at, help);
  field.above_min = true;
  return field;
}
constexpr Field milliseconds(std::string_view name, double& (*at)(Request&), std::string_view help) {
  return {.name = name,
          .endpoints = kEndpoints,
          .kind = Kind::Number,
          .help = help,
          .min = 0,
          .max = kTimeMsMax,
          .wide_number = at};
}
constexpr Field boolean(std::string_view name, unsigned endpoints, bool& (*at)(Request&), std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Boolean, .help = help, .boolean = at};
}
constexpr Field flag(std::string_view name, unsigned endpoints, uint8_t& (*at)(Request&), std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Boolean, .help = help, .flag = at};
}
constexpr Field text(std::string_view name, unsigned endpoints, double max, std::string& (*at)(Request&),
                     std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Text, .help = help, .max = max, .text = at};
}
constexpr Field custom(std::string_view name, unsigned endpoints, void (*read)(const Json&, Request&),
                       std::string_view schema, std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Custom, .help = help, .read = read, .schema = schema};
}
constexpr Field ignored(std::string_view name, unsigned endpoints, std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Ignored, .help = help};
}
constexpr Field unsupported(std::string_view name, unsigned endpoints, std::string_view neutral,
                            std::string_view help) {
  return {.name = name, .endpoints = endpoints, .kind = Kind::Unsupported, .help = help, .schema = neutral};
}

constexpr Field kFields[] = {
    text(
        "model", kAllEndpoints, 1024, [](Request& r) -> std::string& { return r.model; },
        "Name of the served model, see /v1/models; may be left out"),
    custom("prompt", kCompletions, read_prompts, kPromptSchema, "Text, texts, token ids, or lists of token ids"),
    custom("suffix", kCompletions, read_suffix, R"({"type": "$SUFFIX_TYPE"})",
           "The text behind the answer, which stands between 'prompt', a text that may be empty then, and it; "
           "for models that were trained to insert (fill in the middle)"),
    custom("input", kEmbeddings, read_embedding_input, kEmbeddingInputSchema,
           "Text, texts, token ids, or lists of token ids"),
    custom("encoding_format", kEmbeddings, read_encoding_format, R"({"type": "string", "enum": ["float", "base64"]})",
           "Numbers, or their bytes in base 64 (default float)"),
    custom("dimensions", kEmbeddings, read_dimensions, R"({"type": "integer", "enum": [$EMBEDDING_LENGTH]})",
           "The model's own length; embeddings are not shortened"),
    custom("pooling", kEmbeddings, read_pooling, R"({"type": "string", "enum": ["mean", "last"]})",
           "Of which tokens: the mean of all, or the last (default as the model's file states, else mean)"),
    boolean(
        "normalize", kEmbeddings, [](Request& r) -> bool& { return r.normalize; },
        "Bring embeddings to length 1 (default true)"),
    custom("query", kRerank, read_query, R"({"type": "string"})", "What the documents should answer"),
    custom("documents", kRerank, read_rerank_documents, kRerankDocumentsSchema, "Texts to be ordered by relevance"),
    integer(
        "top_n", kRerank, 1, kInt32Max, [](Request& r) -> int32_t& { return r.top_n; },
        "Tell of so many of the most relevant ones (default all)"),
    boolean(
        "return_documents", kRerank, [](Request& r) -> bool& { return r.return_documents; },
        "Repeat the documents' texts (default true)"),
    custom("messages", kChat, read_chat_messages,
           R"({"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/Message"}})",
           "The conversation"),
    custom("input", kResponses, read_input,
           R"({"anyOf": [{"type": "string"}, {"type": "array", "minItems": 1, "maxItems": 10000,
           "items": {"$ref": "#/components/schemas/InputItem"}}]})",
           "Text or a conversation"),
    custom(
        "messages", kMessages, read_anthropic_messages,
        R"({"type": "array", "minItems": 1, "maxItems": 10000, "items": {"$ref": "#/components/schemas/AnthropicMessage"}})",
        "The conversation, in Anthropic's form; an answer that the last message begins goes on"),
    custom("system", kMessages, read_anthropic_system,
           R"({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/components/schemas/TextBlock"}}]})",
           "System message before the conversation"),
    custom("instructions", kResponses, read_instructions, R"({"type": "string"})", "System message before the input"),

    integer(
        "max_tokens", kCompletions, 0, kTokensMax, max_tokens,
        "Output tokens at most (default 16); 0: nothing is generated, 'echo' and 'prompt_logprobs' tell of the prompt"),
    integer("max_tokens", kChat, 1, kTokensMax, max_tokens,
            "Output tokens at most (default: what the context has room for)"),
    integer(
        "max_tokens", kMessages, 0, kTokensMax, max_tokens,
        "Output tokens at most (default: what the context has room for); 0: the prompt is stored, nothing generated"),
    integer("max_completion_tokens", kChat, 1, kTokensMax, max_tokens, "OpenAI's newer name of max_tokens"),
    integer("max_output_tokens", kResponses, 1, kTokensMax, max_tokens, "Output tokens at most"),
    integer(
        "min_tokens", kEndpoints, 0, kTokensMax, [](Request& r) -> int32_t& { return r.params.min_tokens; },
        "No end before so many output tokens"),
    number(
        "temperature", kEndpoints, 0, 100, [](Request& r) -> float& { return r.params.temperature; },
        "0: always the most likely token (default 1)"),
    number(
        "top_p", kEndpoints, 0, 1, [](Request& r) -> float& { return r.params.top_p; },
        "Draw from the smallest set that is this likely (default 1); 0: always the most likely token"),
    number(
        "min_p", kEndpoints, 0, 1, [](Request& r) -> float& { return r.params.min_p; },
        "Drop tokens less likely than this share of the best"),
    custom("top_k", kEndpoints, read_top_k, R"({"type": "integer", "minimum": -1, "maximum": 2147483647})",
           "Draw from the k most likely tokens; 0 or -1: all"),
    number_above(
        "typical_p", kEndpoints, 0, 1, [](Request& r) -> float& { return r.params.typical_p; },
        "Draw from the most typical tokens (default 1: off)"),
    number_above(
        "repetition_penalty", kEndpoints, 0, 10, [](Request& r) -> float& { return r.params.repetition_penalty; },
        "Of tokens in prompt or output (default 1: off)"),
    number(
        "presence_penalty", kEndpoints, -2, 2, [](Request& r) -> float& { return r.params.presence_penalty; },
        "Once for each token that was output"),
    number(
        "frequency_penalty", kEndpoints, -2, 2, [](Request& r) -> float& { return r.params.frequency_penalty; },
        "For each time that a token was output"),
    number(
        "dry_multiplier", kEndpoints, 0, 100, [](Request& r) -> float& { return r.params.dry_multiplier; },
        "DRY: penalty of tokens that continue a repetition; 0: off"),
    number(
        "dry_base", kEndpoints, 1, 100, [](Request& r) -> float& { return r.params.dry_base; },
        "DRY: the penalty's growth with the repetition's length (default 1.75)"),
    integer(
        "dry_allowed_length", kEndpoints, 1, kInt32Max,
        [](Request& r) -> int32_t& { return r.params.dry_allowed_length; },
        "DRY: repetitions up to this length are free (default 2)"),
    integer(
        "dry_penalty_last_n", kEndpoints, -1, kInt32Max,
        [](Request& r) -> int32_t& { return r.params.dry_penalty_last_n; }, "DRY: tokens looked back on; -1: all"),
    custom("dry_sequence_breakers", kEndpoints, read_dry_sequence_breakers,
           R"({"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1}})",
           "DRY: tokens with such a text end repetitions (default newline : \" *)"),
    custom("logit_bias", kEndpoints, read_logit_bias,
           R"({"type": "object", "maxProperties": 4096, "propertyNames": {"pattern": "$TOKEN_PATTERN"},
               "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100}})",
           "Token ids and what is added to their logits; -100 bans, 100 forces"),
    custom("bad_words", kEndpoints, read_bad_words,
           R"({"type": "array", "maxItems": 1024, "items": {"type": "string", "minLength": 1}})",
           "Texts that are never completed"),
    custom("seed", kEndpoints, read_seed, R"({"type": "integer"})", "Equal seeds draw equal answers"),
    integer(
        "n", kCompletions | kChat, 1, kChoicesMax, [](Request& r) -> int32_t& { return r.params.n; },
        "Answers to each prompt"),
    integer(
        "best_of", kCompletions | kChat, 1, kChoicesMax, [](Request& r) -> int32_t& { return r.params.best_of; },
        "Generate so many, give the n of the highest mean log probability"),
    custom("stop_sequences", kMessages, read_stop_sequences,
           R"({"type": "array", "maxItems": 16, "items": {"type": "string", "minLength": 1, "maxLength": 256}})",
           "The answer ends before any of these texts"),
    custom("stop", kEndpoints & ~kMessages, read_stop,
           R"({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 256}, {"type": "array", "maxItems": 16,
               "items": {"type": "string", "minLength": 1, "maxLength": 256}}]})",
           "The answer ends before any of these texts"),
    flag(
        "include_stop_str_in_output", kEndpoints,
        [](Request& r) -> uint8_t& { return r.params.include_stop_str_in_output; },
        "The stop text itself is part of the answer"),
    custom("stop_token_ids", kEndpoints, read_stop_token_ids,
           R"({"type": "array", "maxItems": 64, "items": {"type": "integer", "minimum": 0, "maximum": $LAST_TOKEN}})",
           "The answer ends at these"),
    flag(
        "ignore_eos", kEndpoints, [](Request& r) -> uint8_t& { return r.params.ignore_eos; },
        "Go on through the model's end tokens"),

    custom("skip_special_tokens", kEndpoints, read_skip_special_tokens, R"({"type": "boolean"})",
           "false: the text has control tokens such as <|im_start|> too (default true)"),
    flag(
        "add_special_tokens", kCompletions | kChat, [](Request& r) -> uint8_t& { return r.params.add_special_tokens; },
        "Add the begin token to the prompt (default: completions true; chat false, since the template writes it)"),
    boolean(
        "return_token_ids", kCompletions | kChat, [](Request& r) -> bool& { return r.return_token_ids; },
        "Give the ids of prompt and answer as prompt_token_ids and token_ids"),

    boolean(
        "stream", kEndpoints, [](Request& r) -> bool& { return r.stream; }, "Server-sent events"),
    custom(
        "stream_options", kEndpoints & ~kMessages, read_stream_options,
        R"({"type": "object", "properties": {"include_usage": {"type": "boolean"}, "include_obfuscation": {"type": "boolean"},
               "continuous_usage_stats": {"type": "boolean"}},
               "additionalProperties": false})",
        "include_usage: a last event with the token counts; continuous_usage_stats: each event with those until then"),
    custom("logprobs", kCompletions, read_completion_logprobs, R"({"type": "integer", "minimum": 0, "maximum": 20})",
           "Give each token's log probability and those of so many most likely ones"),
    boolean(
        "logprobs", kChat, [](Request& r) -> bool& { return r.logprobs; }, "Give each token's log probability"),
    integer(
        "top_logprobs", kChat, 0, 20, [](Request& r) -> int32_t& { return r.top_logprobs; },
        "Also those of so many most likely tokens"),
    boolean(
        "echo", kCompletions, [](Request& r) -> bool& { return r.echo; }, "The prompt comes before the answer"),
    integer(
        "prompt_logprobs", kCompletions | kChat, 0, 20, [](Request& r) -> int32_t& { return r.prompt_logprobs; },
        "Give the prompt's log probabilities and those of so many most likely tokens; not with 'stream'"),

    custom("tools", kChat, read_chat_tools, kToolsSchema, "Functions that the model may call"),
    custom("tools", kResponses, read_flat_tools, kToolsSchema, "Functions that the model may call"),
    custom("tools", kMessages, read_anthropic_tools,
           R"({"type": "array", "maxItems": 512, "items": {"$ref": "#/components/schemas/AnthropicTool"}})",
           "Functions that the model may call; those that Anthropic runs are not available"),
    custom("tool_choice", kMessages, read_anthropic_tool_choice,
           R"({"type": "object", "required": ["type"], "properties": {"disable_parallel_tool_use": {"type": "boolean"}},
               "anyOf": [{"properties": {"type": {"enum": ["auto", "any", "none"]}}},
                         {"required": ["name"], "properties": {"type": {"enum": ["tool"]}, "name": {"type": "string"}}}]})",
           "Whether functions are called: as the model likes, some, a named one, none"),
    custom("tool_choice", kChat | kResponses, read_choice,
           R"({"anyOf": [{"$ref": "#/components/schemas/ToolChoice"}]})",
           "Whether functions are called: as the model likes, some, a named one, or some of these"),
    boolean(
        "parallel_tool_calls", kChat | kResponses, [](Request& r) -> bool& { return r.parallel_tool_calls; },
        "Several calls in one answer"),
    custom("chat_template_kwargs", kConversations, read_template_variables, R"({"type": "object"})",
           "Further variables of the chat template"),
    custom("documents", kChat, read_documents, R"({"type": "array", "items": {"type": "object"}})",
           "Documents that the chat template writes, if it knows them"),
    boolean(
        "add_generation_prompt", kChat, [](Request& r) -> bool& { return r.add_generation_prompt; },
        "End the prompt with the assistant's header (default true)"),
    boolean(
        "continue_final_message", kChat, [](Request& r) -> bool& { return r.continue_final_message; },
        "The answer goes on with the last message; needs 'add_generation_prompt': false"),
    custom("prediction", kChat | kCompletions, read_prediction, kPredictionSchema,
           "A text that the answer is likely to repeat, for a server with --speculative-config to guess from"),
    custom("response_format", kChat | kCompletions, read_response_format,
           R"({"anyOf": [{"$ref": "#/components/schemas/ResponseFormat"}]})",
           "Form of the answer: text, a JSON object, or JSON of a schema; with strict false what is not supported of "
           "the schema is left out"),
    custom("structured_outputs", kEndpoints, read_structured_outputs,
           R"({"anyOf": [{"$ref": "#/components/schemas/StructuredOutputs"}]})",
           "vLLM's: the whole answer follows a JSON Schema, a regular expression, a GBNF grammar, or is one of some "
           "texts"),
    custom("guided_json", kEndpoints, read_guided_json,
           R"({"anyOf": [{"type": "object"}, {"type": "string", "minLength": 1}, {"const": true}]})",
           "Older name of structured_outputs.json"),
    custom("guided_regex", kEndpoints, read_guided_regex, R"({"type": "string", "minLength": 1})",
           "Older name of structured_outputs.regex"),
    custom("guided_grammar", kEndpoints, read_guided_grammar, R"({"type": "string", "minLength": 1})",
           "Older name of structured_outputs.grammar"),
    custom("guided_choice", kEndpoints, read_guided_choice,
           R"({"type": "array", "minItems": 1, "maxItems": 1024, "items": {"type": "string", "minLength": 1}})",
           "Older name of structured_outputs.choice"),
    custom("output_config", kMessages, read_output_config,
           R"({"type": "object", "additionalProperties": false, "properties": {"effort":
               {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null]}, "format": {"anyOf": [
               {"type": "null"}, {"type": "object", "required": ["type", "schema"],
               "properties": {"type": {"enum": ["json_schema"]}, "schema": {"type": "object"}}}]}}})",
           "format: the answer is JSON of a schema; effort: as reasoning_effort of /v1/chat/completions"),
    custom("text", kResponses, read_text_format, R"({"type": "object"})", "Form of the answer"),

    integer(
        "priority", kAllEndpoints, -kInt32Max, kInt32Max, [](Request& r) -> int32_t& { return r.params.priority; },
        "Lower is sooner, with a policy that looks at it"),
    text(
        "cache_salt", kAllEndpoints, 1024, [](Request& r) -> std::string& { return r.cache_salt; },
        "Stored prefixes are shared only among requests of one salt"),
    milliseconds(
        "ttft_deadline_ms", [](Request& r) -> double& { return r.params.ttft_deadline_ms; },
        "Wanted time to the first token"),
    milliseconds(
        "e2e_deadline_ms", [](Request& r) -> double& { return r.params.e2e_deadline_ms; },
        "Wanted time to the last token"),
    milliseconds(
        "itl_target_ms", [](Request& r) -> double& { return r.params.itl_target_ms; },
        "Wanted time between two tokens"),
    integer(
        "predicted_output_tokens", kEndpoints, 0, 1 << 24,
        [](Request& r) -> int32_t& { return r.params.predicted_output_tokens; },
        "A guess of the answer's length, for policies that order by it"),

    integer(
        "tenant", kAllEndpoints, 0, kTenantsMax - 1, [](Request& r) -> int32_t& { return r.tenant; },
        "On whose account, for policies that share the engine among tenants; with API keys the key says it"),
    text(
        "user", kAllEndpoints, 1024, [](Request& r) -> std::string& { return r.user; },
        "Without 'tenant' and API keys: each user is a tenant"),
    custom("metadata", kMessages, read_anthropic_metadata,
           R"({"type": "object", "properties": {"user_id": {"type": ["string", "null"]}}})", "user_id: as 'user'"),
    custom(
        "thinking", kMessages, read_anthropic_thinking,
        R"({"type": "object", "required": ["type"], "properties": {"type": {"enum": ["enabled", "adaptive", "disabled"]}}})",
        "enabled, disabled: the chat template's enable_thinking and thinking; budgets have no effect"),
    ignored("cache_control", kMessages, "Accepted, without effect: prefixes are found by content"),
    ignored("context_management", kMessages, "Accepted, without effect"),
    ignored("inference_geo", kMessages, "Accepted, without effect"),
    ignored("speed", kMessages, "Accepted, without effect"),
    ignored("diagnostics", kMessages, "Accepted, without effect"),
    ignored("fallbacks", kMessages, "Accepted, without effect: the model declines nothing"),
    unsupported("compaction", kMessages, "null", "conversations are not summarized: send the whole one"),
    unsupported("thread", kMessages, "null", "conversations are not stored: send the whole one"),
    unsupported("container", kMessages, "null", "there are no containers here"),
    unsupported("mcp_servers", kMessages, "[]", "tools are the client's"),
    ignored("metadata", kChat, "Accepted, without effect"),
    custom("metadata", kResponses, read_metadata,
           R"({"type": "object", "maxProperties": 16, "propertyNames": {"maxLength": 64},
               "additionalProperties": {"type": "string", "maxLength": 512}})",
           "Repeated in the answer"),
    ignored("safety_identifier", kChat | kResponses, "Accepted, without effect"),
    ignored("prompt_cache_key", kChat | kResponses, "Accepted, without effect: prefixes are found by content"),
    ignored("prompt_cache_retention", kChat | kResponses, "Accepted, without effect"),
    ignored("prompt_cache_options", kChat | kResponses, "Accepted, without effect: prefixes are found by content"),
    ignored("service_tier", kConversations, "Accepted, without effect"),
    ignored("verbosity", kChat, "Accepted, without effect"),
    custom("reasoning_effort", kChat, read_reasoning_effort,
           R"({"type": "string", "enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max"]})",
           "The chat template's variable; none: also enable_thinking and thinking false"),
    boolean(
        "include_reasoning", kChat | kResponses, [](Request& r) -> bool& { return r.include_reasoning; },
        "vLLM's: tell what the model marks as reasoning (default true)"),
    custom("reasoning", kResponses, read_reasoning,
           R"({"type": "object", "additionalProperties": false, "properties": {
               "effort": {"enum": ["none", "minimal", "low", "medium", "high", "xhigh", "max", null]},
               "summary": {"enum": ["auto", "concise", "detailed", null]},
               "generate_summary": {"enum": ["auto", "concise", "detailed", null]}}})",
           "effort: as reasoning_effort of /v1/chat/completions; the rest is repeated in the answer"),
    custom("truncation", kResponses, read_truncation, R"({"type": "string", "enum": ["disabled"]})",
           "disabled: an input that is too long is refused; nothing is left out of it"),
    ignored("include", kResponses, "Accepted, without effect"),
    unsupported("store", kChat | kResponses, "false", "answers are not stored"),
    unsupported("background", kResponses, "false", "answers are not stored"),
    unsupported("previous_response_id", kResponses, "null", "answers are not stored: send the conversation as input"),
    unsupported("conversation", kResponses, "null", "conversations are not stored: send them as input"),
    unsupported("context_management", kResponses, "null", "conversations are not summarized: send the whole one"),
    unsupported("moderation", kChat | kResponses, "null", "nothing is moderated here"),
    unsupported("modalities", kChat, R"(["text"])", "the model writes text only"),
    unsupported("audio", kChat, "null", "the model writes text only"),
    unsupported("web_search_options", kChat, "null", "there is no web search here"),
    unsupported("functions", kChat, "null", "use 'tools'"),
    unsupported("function_call", kChat, "null", "use 'tool_choice'"),
    unsupported("prompt", kResponses, "null", "prompt templates are not stored: send the conversation as input"),
    unsupported("top_logprobs", kResponses, "0", "log probabilities are told by /v1/chat/completions"),

    ignored("request_id", kAllEndpoints, "vLLM's, accepted, without effect"),
    ignored("guided_decoding_backend", kEndpoints, "vLLM's, accepted, without effect: there is one"),
    ignored("max_tool_calls", kResponses, "Accepted, without effect"),
    unsupported("spaces_between_special_tokens", kEndpoints, "true", "tokens are joined as the vocabulary says"),
    unsupported("truncate_prompt_tokens", kAllEndpoints, "null",
                "prompts are not shortened: shorten it, or see max_model_len"),
    unsupported("allowed_token_ids", kEndpoints, "null", "use 'structured_outputs' or 'logit_bias'"),
    unsupported("logits_processors", kEndpoints, "null", "requests bring no code"),
    unsupported("use_beam_search", kEndpoints, "false", "use 'n' and 'best_of'"),
    unsupported("length_penalty", kEndpoints, "1.0", "there is no beam search"),
    unsupported("return_tokens_as_token_ids", kCompletions | kChat, "false", "use 'return_token_ids'"),
    unsupported("guided_whitespace_pattern", kEndpoints, "null",
                "JSON has at most one blank, or a new line with an indent"),
    unsupported("chat_template", kChat, "null", "start the server with --chat-template"),
    unsupported("echo", kChat, "false", "use 'continue_final_message'"),
    unsupported("mm_processor_kwargs", kChat, "null", "the model reads text only"),
    unsupported("kv_transfer_params", kEndpoints, "null", "there is one server"),
    unsupported("vllm_xargs", kEndpoints, "null", "there are no further options"),
};

}  // namespace

std::span<const RequestField> request_fields() { return kFields; }

}  // namespace inflight::server
