// The ragged batch of a pass: checked, and laid out for the kernels.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "cache.hpp"

namespace outrider {

struct Batch {
    std::vector<int64_t> tokens, positions, sequences, parents, wanted;
};

struct Plan {
    int rows = 0;
    std::vector<int> tokens, positions, sequences, parents, wanted;
    std::vector<int> first;  // first row of each sequence
    std::vector<int> tiles;  // first row of each tile, and the number of rows at the end
    // For a row whose ancestors are not simply the rows before it: those of its sequence's rows that are its
    // ancestors, and itself, from the root down. Empty for all others.
    std::vector<std::vector<int32_t>> paths;
};

// std::invalid_argument for whatever does not fit: numbers of entries, ids, order, parents, positions. Nothing
// is changed. `limit` is the number of positions the model has.
Plan plan(const Batch& batch, const std::vector<Cache*>& caches, int vocab, int limit,
          const Kernels& kernels);

}  // namespace outrider
