#include "batch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "activations.hpp"

namespace outrider {
namespace {

std::string at(const char* what, int64_t value, int row) {
    return std::string(what) + " " + std::to_string(value) + " of row " + std::to_string(row);
}

void refuse(const std::string& message) { throw std::invalid_argument(message); }

// The pending rows on the path to one of them, itself included, from the root down.
std::vector<int32_t> path_to(const std::vector<int>& parents, int row) {
    std::vector<int32_t> path;
    for (; row >= 0; row = parents[row]) path.push_back(row);
    std::reverse(path.begin(), path.end());
    return path;
}

// `pending`: how many pending rows of the row's sequence stay.
void check_row(const Batch& batch, const Cache& cache, int row, int first, int pending, int vocab, int limit) {
    const int64_t token = batch.tokens[row], parent = batch.parents[row], position = batch.positions[row];
    const int64_t length = cache.length();
    if (token < 0 || token >= vocab)
        refuse(at("token", token, row) + " is outside the vocabulary of " + std::to_string(vocab));
    const bool earlier = parent >= 0 ? parent >= first && parent < row : -2 - parent < pending;
    if (!earlier) refuse(at("parent", parent, row) + " is no earlier row of its sequence");
    const int64_t above = parent < -1 ? int64_t(path_to(cache.parents(), int(-2 - parent)).size()) : 0;
    const int64_t expected = parent < 0 ? length + above : batch.positions[parent] + 1;
    if (position != expected)
        refuse(at("position", position, row) + " should be " + std::to_string(expected) + ": the cache holds " +
               std::to_string(length) + " tokens");
    if (position >= limit)
        refuse(at("position", position, row) + " is " + std::to_string(position - limit + 1) +
               " past the last of the model's " + std::to_string(limit) + " positions");
}

}  // namespace

Plan plan(const Batch& batch, const std::vector<Cache*>& caches, int vocab, int limit,
          const Kernels& kernels) {
    const size_t rows = batch.tokens.size();
    if (rows == 0) refuse("a batch needs at least one row");
    constexpr size_t kMost = 1 << 24;  // also of a sequence's rows and those that are pending already
    if (rows > kMost) refuse("a batch takes at most 16777216 rows");
    if (batch.positions.size() != rows || batch.sequences.size() != rows || batch.parents.size() != rows)
        refuse("tokens, positions, sequences and parents must have one entry a row");
    Plan p;
    p.rows = int(rows);
    p.paths.resize(rows), p.numbers.resize(rows), p.parents.resize(rows);
    int64_t sequence = -1;
    // Of the sequence: its first row, how many are pending already, and how many of those, from the first on, each
    // continue the one before.
    int first = 0, pending = 0, straight = 0;
    for (int row = 0; row < p.rows; ++row) {
        const int64_t now = batch.sequences[row];
        if (now < 0 || now >= int64_t(caches.size()) || now < sequence)
            refuse(at("sequence", now, row) + " is out of order: the rows of a sequence stand together, in the "
                                              "order of the " + std::to_string(caches.size()) + " caches");
        const Cache& cache = *caches[now];
        if (now != sequence) {
            first = row, pending = batch.grows ? cache.pending() : 0, straight = 0;
            while (straight < pending && cache.parents()[straight] == straight - 1) ++straight;
            if (rows + pending > kMost) refuse("at most 16777216 rows of a sequence can be pending");
            p.pending = std::max(p.pending, pending);
        }
        sequence = now;
        check_row(batch, cache, row, first, pending, vocab, limit);
        const int parent = int(batch.parents[row]), number = pending + row - first;
        const int above = parent >= 0 ? pending + parent - first : parent == -1 ? -1 : -2 - parent;
        p.numbers[row] = number, p.parents[row] = above;
        const bool plain = above < pending ? above < straight : p.paths[parent].empty();
        if (plain && above == number - 1) continue;
        std::vector<int32_t>& path = p.paths[row];
        if (plain) for (int i = 0; i <= above; ++i) path.push_back(i);
        else path = above < pending ? path_to(cache.parents(), above) : p.paths[parent];
        path.push_back(number);
    }
    if (batch.wanted.size() > kMost) refuse("at most 16777216 rows can be wanted");
    auto narrow = [](const std::vector<int64_t>& wide) { return std::vector<int>(wide.begin(), wide.end()); };
    for (int64_t row : batch.wanted)
        if (row < 0 || row >= p.rows) refuse("wanted row " + std::to_string(row) + " is not in the batch");
    p.tokens = narrow(batch.tokens), p.positions = narrow(batch.positions), p.wanted = narrow(batch.wanted);
    p.sequences = narrow(batch.sequences);
    p.tiles = cut_tiles(p.rows, kernels.group_rows);
    return p;
}

}  // namespace outrider
