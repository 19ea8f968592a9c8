// SPDX-License-Identifier: Apache-2.0
// dfs-weight: walks the prefix tree depth first, heaviest branch first, and starts requests as their place is reached.
// The weight of a node is the number of waiting requests whose stored prefix ends at it or below. So requests that
// share a prefix start next to each other, and a prefix is used up before it may be evicted: the offline optimum when
// everything is known (Zheng et al., NeurIPS 2024, theorem 3.1). Source: SGLang's `dfs-weight`: children before the
// node's own.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "inflight/plugin.hpp"

namespace {

constexpr uint32_t kNone = UINT32_MAX;

struct DfsWeight {
  static constexpr inflight::Policy kPolicy =
      inflight::sched_policy("org.inflight.dfs-weight", "depth-first through the prefix tree, heaviest branch first")
          .by("inflight", "Apache-2.0", "1.0")
          .reads(INFLIGHT_COLUMN_CACHED)
          .can(INFLIGHT_CAP_DETERMINISTIC);

  // Node i < total_blocks is a unit; the last one is the root.
  struct Node {
    uint64_t visit = 0;  // the call that last saw it
    uint32_t weight = 0;
    uint32_t parent = kNone;
    uint32_t first_child = kNone, next_sibling = kNone;
    uint32_t first_request = kNone;
  };

  explicit DfsWeight(const inflight::SchedSetup& setup)
      : host(setup.host), root(setup.environment.total_blocks), nodes(size_t{setup.environment.total_blocks} + 1) {}

  Node& visit(uint32_t unit) {
    Node& node = nodes[unit == INFLIGHT_UNIT_ROOT ? root : unit];
    if (node.visit == call) return node;
    node = Node{};
    node.visit = call;
    if (unit != INFLIGHT_UNIT_ROOT) frontier.push_back(unit);
    return node;
  }

  // Hangs every waiting request on the node where its stored prefix ends, and all those nodes on their parents.
  bool build(const inflight_requests_t& waiting) {
    ++call;
    frontier.clear();
    next_request.assign(waiting.count, kNone);
    visit(INFLIGHT_UNIT_ROOT);
    for (uint32_t i = waiting.count; i-- > 0;) {  // backwards: lists then are in order of arrival
      Node& node = visit(waiting.cached_unit[order_of[i]]);
      next_request[order_of[i]] = node.first_request;
      node.first_request = order_of[i];
      ++node.weight;
    }
    for (size_t done = 0; done < frontier.size();) {
      const auto count = static_cast<uint32_t>(frontier.size() - done);
      parents.resize(count);
      if (!host.unit_parents(frontier.data() + done, count, parents.data())) return false;
      for (uint32_t i = 0; i < count; ++i) {
        const uint32_t unit = frontier[done + i];
        Node& parent = visit(parents[i]);
        nodes[unit].parent = parents[i] == INFLIGHT_UNIT_ROOT ? root : parents[i];
        nodes[unit].next_sibling = parent.first_child;
        parent.first_child = unit;
      }
      done += count;
    }
    return true;
  }

  // Prefixes may be as deep as there are units, so nothing here is recursive.
  void push_children(uint32_t index) {
    for (uint32_t child = nodes[index].first_child; child != kNone; child = nodes[child].next_sibling) {
      stack.push_back(child);
    }
  }

  // Parents are met before their children, so backwards each node adds all its weight to its parent's.
  void sum_weights() {
    met.clear();
    for (stack.assign(1, root); !stack.empty();) {
      met.push_back(stack.back());
      stack.pop_back();
      push_children(met.back());
    }
    for (size_t i = met.size(); i-- > 1;) nodes[nodes[met[i]].parent].weight += nodes[met[i]].weight;
  }

  // Fills `out` from its end: a node's own requests, then its children from the lightest to the heaviest.
  void emit(uint32_t* out, uint32_t end) {
    for (stack.assign(1, root); !stack.empty();) {
      const uint32_t index = stack.back();
      stack.pop_back();
      for (uint32_t i = nodes[index].first_request; i != kNone; i = next_request[i]) --end;
      uint32_t* at = out + end;
      for (uint32_t i = nodes[index].first_request; i != kNone; i = next_request[i]) *at++ = i;
      const auto first = static_cast<std::ptrdiff_t>(stack.size());
      push_children(index);
      std::sort(stack.begin() + first, stack.end(), [this](uint32_t a, uint32_t b) {
        return nodes[a].weight != nodes[b].weight ? nodes[a].weight > nodes[b].weight : a < b;
      });
    }
  }

  inflight_plugin_status_t order(const inflight_step_t& step, uint32_t* index, uint32_t* count) {
    const inflight_requests_t& waiting = *step.waiting;
    order_of.resize(waiting.count);
    for (uint32_t i = 0; i < waiting.count; ++i) order_of[i] = i;
    std::sort(order_of.begin(), order_of.end(), [&](uint32_t a, uint32_t b) { return waiting.id[a] < waiting.id[b]; });
    if (!build(waiting)) return INFLIGHT_PLUGIN_E_INTERNAL;
    sum_weights();
    *count = waiting.count;
    emit(index, *count);
    return INFLIGHT_PLUGIN_OK;
  }

  inflight::PluginHost host;
  uint32_t root;
  uint64_t call = 0;
  std::vector<Node> nodes;
  std::vector<uint32_t> frontier, parents, met, stack, next_request, order_of;
};

}  // namespace

INFLIGHT_EXPORT_POLICY(DfsWeight)
