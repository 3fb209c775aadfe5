// The ragged batch of a pass: checked, and laid out for the kernels.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "cache.hpp"

namespace outrider {

struct Batch {
    std::vector<int64_t> tokens, positions, sequences, parents, wanted;
    // The rows come after those that are pending in the caches, instead of in their place: parent −2 − i is
    // pending row i of the sequence.
    bool grows = false;
};

struct Plan {
    int rows = 0;
    std::vector<int> tokens, positions, sequences, wanted;
    // Of each row, its own number and its parent's, −1 for none, among the pending rows of its sequence.
    std::vector<int> numbers, parents;
    int pending = 0;         // the most rows that are pending already in one of the caches
    std::vector<int> tiles;  // first row of each tile, and the number of rows at the end
    // For a row whose ancestors are not simply the rows before it: those of its sequence's pending rows that are its
    // ancestors, and itself, from the root down. Empty for all others.
    std::vector<std::vector<int32_t>> paths;
};

// std::invalid_argument for whatever does not fit: numbers of entries, ids, order, parents, positions. Nothing
// is changed. `limit` is the number of positions the model has.
Plan plan(const Batch& batch, const std::vector<Cache*>& caches, int vocab, int limit,
          const Kernels& kernels);

}  // namespace outrider
