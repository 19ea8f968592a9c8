// SPDX-License-Identifier: Apache-2.0
#include "exec/step_upload.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/limits.h"
#include "base/math.h"
#include "core/attended_tokens.h"
#include "core/sampling_numbers.h"

namespace inflight {
namespace {

constexpr int32_t kAlignment = 16;          // words
constexpr int32_t kAttentionPerWorker = 8;  // items below which a long row is split at its partitions
static_assert(kOwnTokensMax >= limits::kDraftTokensMax);

int32_t bits(float value) { return std::bit_cast<int32_t>(value); }

// Of row `i` of those whose logits are computed: whether it tells of a prompt token; else, whether the device draws.
bool tells(const BatchEntry& entry, int32_t i) { return i < entry.prompt_logprobs_wanted; }
bool draws(const BatchEntry& entry, int32_t i) { return !tells(entry, i) && !entry.host_samples; }

}  // namespace

StepUpload::StepUpload(const ModelSpec& spec, int32_t block_token_count, const StepUploadLimits& limits)
    : head_count_(spec.head_count),
      kv_head_count_(spec.kv_head_count),
      local_kv_head_count_(spec.local_stored_kv_heads()),
      vocabulary_size_(spec.vocabulary_size),
      block_token_count_(block_token_count),
      sliding_window_(spec.sliding_window),
      local_window_(spec.local_window),
      has_state_(spec.has_state()),
      shares_kv_(spec.first_sharing_layer > 0),
      limits_(limits) {}

int32_t StepUpload::append(size_t count) {
  const size_t offset = words_.size();
  words_.resize(align_up(offset + count, static_cast<size_t>(kAlignment)));
  return static_cast<int32_t>(offset);
}

const StepTables& StepUpload::build(const BatchPlan& plan, std::span<const int32_t> adapter_slots) {
  INFLIGHT_CHECK(!plan.entries.empty());
  tables_ = {};
  words_.clear();
  tables_.all.rows = plan.scheduled_token_count;
  tables_.sampled = 0;
  for (const BatchEntry& entry : plan.entries) tables_.sampled += logits_count(entry);
  const int32_t rounds = div_ceil(tables_.sampled, limits_.round_rows);
  results_ = kStepCounters + (limits_.layer_counters + rounds * limits_.round_counters) * kStepCounterStride;
  append(static_cast<size_t>(results_));  // counters and ticket at zero
  tables_.results = append(static_cast<size_t>(tables_.sampled) * kResultWords);
  add_told(plan);  // behind the results
  add_rows(plan);
  runs_.clear();
  for (const BatchEntry& entry : plan.entries) runs_.push_back({&entry, 0, entry.scheduled_token_count});
  add_attention(tables_.all, runs_);
  if (shares_kv_) add_last_rows(plan);
  if (has_state_) add_states(plan);
  add_samples(plan);
  add_adapters(plan, adapter_slots);
  return tables_;
}

void StepUpload::add_told(const BatchPlan& plan) {
  size_t end = words_.size() - static_cast<size_t>(results_);
  told_.clear();
  for (const BatchEntry& entry : plan.entries) {
    for (int32_t i = 0; i < logits_count(entry); ++i) {
      told_.push_back(end);
      const int32_t count = tells(entry, i)   ? entry.sampling->prompt_logprobs
                            : draws(entry, i) ? entry.sampling->logprobs
                                              : 0;
      end += 2 * static_cast<size_t>(std::clamp(count, 0, vocabulary_size_));
    }
  }
  told_.push_back(end);
  append(end - told_.front());
}

// The first unit of each of the entry's blocks.
int32_t StepUpload::add_table(const BatchEntry& entry) {
  const int32_t table = append(entry.block_table.size());
  const KvUnits& units = limits_.units;
  std::ranges::transform(entry.block_table, words_.begin() + table,
                         [&](BlockId block) { return units.first_block + to_integer(block) * units.in_block; });
  return table;
}

// The first unit of the slots of those that local layers read or write.
int32_t StepUpload::add_local_table(const BatchEntry& entry, std::span<const int32_t> slots) {
  const int32_t table = append(entry.block_table.size());
  const int32_t first = first_attended(entry.computed_token_count, local_window_) / block_token_count_;
  const int32_t end = div_ceil(entry.context_token_count(), block_token_count_);
  for (int32_t i = first; i < end; ++i) {
    const int32_t slot = slots[static_cast<size_t>(entry.block_table[static_cast<size_t>(i)])];
    INFLIGHT_CHECK(slot >= 0);
    words_[static_cast<size_t>(table + i)] = slot * limits_.units.in_slot;
  }
  return table;
}

void StepUpload::add_rows(const BatchPlan& plan) {
  RowTables& all = tables_.all;
  const auto rows = static_cast<size_t>(all.rows);
  tables_.tokens = append(rows);
  all.positions = append(rows);
  all.tables = append(rows);
  all.local_tables = limits_.units.in_slot > 0 ? append(rows) : all.tables;
  int32_t row = 0;
  for (const BatchEntry& entry : plan.entries) {
    const int32_t table = add_table(entry);
    const int32_t local_table = limits_.units.in_slot > 0 ? add_local_table(entry, plan.local_slots) : table;
    INFLIGHT_CHECK(int64_t{block_token_count_} * static_cast<int64_t>(entry.block_table.size()) >=
                   entry.context_token_count());
    const auto given = static_cast<int32_t>(entry.tokens.size());
    INFLIGHT_CHECK(given + int{entry.input_on_device} == entry.scheduled_token_count);
    for (int32_t i = 0; i < entry.scheduled_token_count; ++i, ++row) {
      const int32_t token = i < given ? entry.tokens[static_cast<size_t>(i)] : -(entry.row + 1);
      INFLIGHT_CHECK(token < vocabulary_size_ && (token >= 0 || i >= given));
      words_[static_cast<size_t>(tables_.tokens + row)] = token;
      words_[static_cast<size_t>(all.positions + row)] = entry.computed_token_count + i;
      words_[static_cast<size_t>(all.tables + row)] = table;
      words_[static_cast<size_t>(all.local_tables + row)] = local_table;
    }
  }
  INFLIGHT_CHECK(row == all.rows);
}

// The rows of one table after another, by where they stand among the step's. Of a step that only decodes they are all
// of them: its tables serve twice.
void StepUpload::add_last_rows(const BatchPlan& plan) {
  runs_.clear();
  for (const BatchEntry& entry : plan.entries) {
    const int32_t told = entry.prompt_logprobs_wanted, drawn = logits_count(entry) - told;
    if (plan.hidden_row_count > 0) {
      runs_.push_back({&entry, 0, entry.scheduled_token_count});
      continue;
    }
    if (told > 0) runs_.push_back({&entry, entry.first_told_position() - 1 - entry.computed_token_count, told});
    if (drawn > 0) runs_.push_back({&entry, entry.scheduled_token_count - drawn, drawn});
  }
  const RowTables& all = tables_.all;
  RowTables& last = tables_.last;
  for (const RowRun& run : runs_) last.rows += run.count;
  const auto rows = static_cast<size_t>(last.rows);
  tables_.last_rows = append(rows);
  if (last.rows == all.rows) {
    last = all;
    std::iota(words_.begin() + tables_.last_rows, words_.begin() + tables_.last_rows + last.rows, 0);
    return;
  }
  last.positions = append(rows);
  last.tables = append(rows);
  last.local_tables = append(rows);
  int32_t begin = 0;  // of the entry's rows
  size_t run = 0, row = 0;
  for (const BatchEntry& entry : plan.entries) {
    for (; run < runs_.size() && runs_[run].entry == &entry; ++run) {
      for (int32_t i = 0; i < runs_[run].count; ++i, ++row) {
        const int32_t from = begin + runs_[run].first + i;
        words_[static_cast<size_t>(tables_.last_rows) + row] = from;
        for (const auto& [to, table] : {std::pair(last.positions, all.positions), std::pair(last.tables, all.tables),
                                        std::pair(last.local_tables, all.local_tables)}) {
          words_[static_cast<size_t>(to) + row] = words_[static_cast<size_t>(table + from)];
        }
      }
    }
    begin += entry.scheduled_token_count;
  }
  add_attention(last, runs_);
}

void StepUpload::add_attention(RowTables& tables, std::span<const RowRun> runs) {
  tables.attention = add_attention(runs, tables.rows, sliding_window_, kv_head_count_);
  if (local_window_ > 0) {
    tables.local_attention = add_attention(runs, tables.rows, local_window_, local_kv_head_count_);
  }
}

void StepUpload::add_states(const BatchPlan& plan) {
  tables_.state_entry_count = static_cast<int32_t>(plan.entries.size());
  tables_.state_entries = append(plan.entries.size() * kStateEntryWords);
  int32_t row = 0;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const BatchEntry& entry = plan.entries[i];
    int32_t from = entry.computed_token_count > 0 ? entry.row : kNone, kept = 0;
    if (entry.states != nullptr) {
      const StateMoves& moves = *entry.states;
      if (moves.from >= 0) from = limits_.kept_states_from + moves.from;
      const auto count = static_cast<size_t>(moves.kept_count);
      if (count > 0) {
        kept = append(1 + 2 * count) + 1;
        words_[static_cast<size_t>(kept) - 1] = moves.kept_count;
      }
      for (size_t k = 0; k < count; ++k) {
        int32_t* const word = &words_[static_cast<size_t>(kept) + 2 * k];
        word[0] = moves.kept.at(k).token_count;
        word[1] = limits_.kept_states_from + moves.kept.at(k).place;
      }
    }
    const int32_t values[kStateEntryWords] = {row, entry.scheduled_token_count, from, entry.row, kept};
    std::ranges::copy(values, words_.begin() + tables_.state_entries + static_cast<ptrdiff_t>(i * kStateEntryWords));
    row += entry.scheduled_token_count;
  }
}

AttentionTables StepUpload::add_attention(std::span<const RowRun> runs, int32_t row_count, int32_t window,
                                          int32_t kv_heads) {
  AttentionTables tables;
  tables.combine = append(static_cast<size_t>(row_count) * 2);
  const int32_t shared = head_count_ / kv_heads;
  const int32_t tile_rows = std::max(limits_.item_queries / shared, 1);
  int32_t units = 0;  // items if nothing is split
  for (const RowRun& run : runs) units += div_ceil(run.count, tile_rows);
  const bool few = units * kv_heads < limits_.worker_count * kAttentionPerWorker;
  int32_t row = 0, slots = 0;
  items_.clear();
  for (const RowRun& run : runs) {
    const int32_t end = row + run.count;
    for (int32_t first = row; first < end; first += tile_rows) {
      const int32_t rows = std::min(tile_rows, end - first);
      const int32_t context = run.entry->computed_token_count + run.first + (first - row) + rows;
      const int32_t position = context - rows;  // of the first row
      const int32_t begin = first_attended(position, window) / kAttentionPartition;
      const int32_t partitions = div_ceil(context, kAttentionPartition) - begin;
      const int32_t needed = head_count_ * partitions;
      const bool split = few && rows == 1 && partitions > 1 && slots + needed <= limits_.partial_slots;
      const auto together = static_cast<int32_t>(std::clamp<int64_t>(
          int64_t{partitions} * units * kv_heads / (limits_.worker_count * kAttentionPerWorker), 1, partitions));
      for (int32_t group = 0; group < kv_heads; ++group) {
        if (!split) {
          items_.push_back({first, rows, group, begin, begin + partitions, kNone, partitions, begin});
          continue;
        }
        // Runs of partitions: whoever reads one asks the memory for the next.
        for (int32_t partition = begin; partition < begin + partitions; partition += together) {
          items_.push_back({first, rows, group, partition, std::min(partition + together, begin + partitions),
                            slots + group * shared * partitions, partitions, begin});
        }
      }
      for (int32_t i = first; i < first + rows; ++i) {
        words_[static_cast<size_t>(tables.combine + 2 * i)] = split ? slots : kNone;
        words_[static_cast<size_t>(tables.combine + 2 * i + 1)] = partitions;
      }
      if (split) slots += needed;
    }
    row = end;
  }
  // The longest first, so that the workers come to the end together.
  std::stable_sort(items_.begin(), items_.end(),
                   [](const AttentionItem& a, const AttentionItem& b) { return a.cost() > b.cost(); });
  tables.partial_slots = slots;
  tables.count = static_cast<int32_t>(items_.size());
  tables.list = append(items_.size() * kAttentionItemWords);
  int32_t* word = words_.data() + tables.list;
  for (const AttentionItem& item : items_) {
    const int32_t values[kAttentionItemWords] = {
        item.first_row,     item.rows,    item.group,          item.first_partition,
        item.end_partition, item.partial, item.row_partitions, item.row_first_partition};
    word = std::copy(std::begin(values), std::end(values), word);
  }
  return tables;
}

void StepUpload::add_samples(const BatchPlan& plan) {
  const bool last_alone = shares_kv_ && plan.hidden_row_count == 0;  // they are the sampled ones, in this order
  tables_.sampled_rows = append(static_cast<size_t>(tables_.sampled));
  tables_.samples = append(static_cast<size_t>(tables_.sampled) * kSampleWords);
  int32_t begin = 0, row = 0, sample = 0;
  for (const BatchEntry& entry : plan.entries) {
    begin = row;
    row += entry.scheduled_token_count;
    const int32_t count = logits_count(entry);
    INFLIGHT_CHECK(count <= entry.scheduled_token_count && (count == 0 || entry.sampling != nullptr));
    for (int32_t i = 0; i < count; ++i, ++sample) {
      const bool told_prompt = tells(entry, i), drawn = draws(entry, i);
      const int32_t position = told_prompt ? entry.first_told_position() + i : kNone;  // of what the row tells of
      const int32_t from = told_prompt ? begin + position - 1 - entry.computed_token_count : row - count + i;
      words_[static_cast<size_t>(tables_.sampled_rows + sample)] = last_alone ? sample : from;
      // Rows without a token to draw are given greedy sampling, whose outcome nobody reads.
      const bool stays = drawn && entry.draft_token_count == 0;  // on the device, for the next step
      const SamplingParams& sampling = *entry.sampling;
      const auto s = static_cast<size_t>(sample);
      const auto told = static_cast<int32_t>(told_[s + 1] - told_[s]) / 2;
      const int32_t further = entry.draft_token_count - (count - 1 - i);
      const int32_t changes = drawn ? add_changes(entry, from, further) : kNone;
      const int32_t values[kSampleWords] = {
          stays ? entry.row : limits_.spare_row,
          entry.context_token_count() - (count - 1 - i),
          static_cast<int32_t>(sampling.seed),
          static_cast<int32_t>(sampling.seed >> 32),
          bits(drawn ? inverse_temperature(sampling.temperature) : 0.0F),
          bits(sampling.min_p),
          bits(sampling.top_p),
          sampling.top_k,
          changes,
          told,
          results_ + static_cast<int32_t>(told_[s]),
          told_prompt ? entry.history->known_tokens[static_cast<size_t>(position)] : kNone};
      tables_.changes = tables_.changes || changes != kNone || told > 0;
      std::copy(std::begin(values), std::end(values),
                &words_[static_cast<size_t>(tables_.samples + sample * kSampleWords)]);
    }
  }
  INFLIGHT_CHECK(sample == tables_.sampled);
}

int32_t StepUpload::add_changes(const BatchEntry& entry, int32_t row, int32_t further) {
  const SamplingParams& sampling = *entry.sampling;
  const int32_t output = entry.sampled_position() + further - entry.prompt_token_count;
  INFLIGHT_CHECK(!entry.filtered || !entry.input_on_device);
  if (entry.history == nullptr) return kNone;
  const std::span<const uint32_t> allowed = entry.history->mask(further, vocabulary_size_);
  if (allowed.empty() && !sampling.changes_logits(output)) return kNone;
  biases_.clear();
  const auto add = [&](TokenId token, float bias) {
    if (token >= 0 && token < vocabulary_size_) biases_.emplace_back(token, bias);
  };
  if (allowed.empty()) {
    sampling.ban_early_ends(output, entry.history->end_tokens,
                            [&](TokenId token) { add(token, -std::numeric_limits<float>::infinity()); });
  }
  for (const auto& [token, bias] : sampling.logit_bias) add(token, bias);
  const bool penalises = sampling.penalises();
  const std::span<const TokenId> known = penalises ? entry.history->counts->tokens() : std::span<const TokenId>();
  // What the counts do not hold yet are the step's last tokens up to the row.
  const int32_t uncounted = penalises ? further + int{entry.input_on_device} : 0;
  const size_t places = known.size() + static_cast<size_t>(uncounted);
  const int32_t offset = append(kChangeWords + 2 * (biases_.size() + places));
  const int32_t mask = allowed.empty() ? kNone : append(allowed.size());
  INFLIGHT_CHECK(uncounted <= kOwnTokensMax);
  const int32_t head[kChangeWords] = {static_cast<int32_t>(biases_.size()),
                                      static_cast<int32_t>(known.size()),
                                      uncounted,
                                      tables_.tokens + row,
                                      bits(1.0F / sampling.repetition_penalty),
                                      bits(sampling.repetition_penalty),
                                      bits(sampling.presence_penalty),
                                      bits(sampling.frequency_penalty),
                                      0,
                                      0,
                                      0,
                                      static_cast<int32_t>(places),
                                      mask};
  int32_t* word = std::ranges::copy(head, &words_[static_cast<size_t>(offset)]).out;
  for (const auto& [token, bias] : biases_) *word++ = token;
  for (const auto& [token, bias] : biases_) *word++ = bits(bias);
  word = std::ranges::copy(known, word).out + uncounted;
  if (penalises) std::ranges::copy(entry.history->counts->counts(), word);
  if (mask != kNone) std::memcpy(&words_[static_cast<size_t>(mask)], allowed.data(), allowed.size_bytes());
  return offset;
}

// Rows that lie side by side and have one adapter, in tiles.
void StepUpload::add_adapters(const BatchPlan& plan, std::span<const int32_t> slots) {
  adapter_tiles_.clear();
  int32_t row = 0;
  for (size_t i = 0; i < slots.size(); ++i) {
    const int32_t end = row + plan.entries[i].scheduled_token_count;
    for (; slots[i] != kNone && row < end;) {
      int32_t* const last =
          adapter_tiles_.empty() ? nullptr : &adapter_tiles_[adapter_tiles_.size() - kAdapterTileWords];
      int32_t count = std::min(end - row, limits_.adapter_tile_rows);
      if (last != nullptr && last[0] == slots[i] && last[1] + last[2] == row && last[2] < limits_.adapter_tile_rows) {
        count = std::min(end - row, limits_.adapter_tile_rows - last[2]);
        last[2] += count;
      } else {
        adapter_tiles_.insert(adapter_tiles_.end(), {slots[i], row, count});
      }
      row += count;
    }
    row = end;
  }
  tables_.adapter_tile_count = static_cast<int32_t>(adapter_tiles_.size()) / kAdapterTileWords;
  tables_.adapter_tiles = append(adapter_tiles_.size());
  std::ranges::copy(adapter_tiles_, words_.begin() + tables_.adapter_tiles);
}

void StepUpload::append_stages(std::span<const Stage> stages, int32_t number) {
  const int32_t offset = append(stages.size() * kStageWords);
  std::memcpy(&words_[static_cast<size_t>(offset)], stages.data(), stages.size_bytes());
  words_[kStepStageCount] = static_cast<int32_t>(stages.size());
  words_[kStepStages] = offset;
  words_[kStepCopyStride] = limits_.copy_stride;
  words_[kStepNumber] = number;
  words_[kStepDone] = limits_.spare_row + 1;
  words_[kStepLastCounter] = kNone;
  for (const Stage& stage : stages) {
    if (stage.items == 0 || stage.batch == 0) continue;
    if (stage.counter != words_[kStepLastCounter]) words_[kStepLastCount] = 0;
    words_[kStepLastCounter] = stage.counter;
    words_[kStepLastCount] += stage.items;
  }
}

}  // namespace inflight
