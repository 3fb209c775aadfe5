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

void check_row(const Batch& batch, const std::vector<Cache*>& caches, int row, int first, int vocab, int limit) {
    const int64_t token = batch.tokens[row], parent = batch.parents[row], position = batch.positions[row];
    const int64_t length = caches[batch.sequences[row]]->length();
    if (token < 0 || token >= vocab)
        refuse(at("token", token, row) + " is outside the vocabulary of " + std::to_string(vocab));
    if (parent != -1 && (parent < first || parent >= row))
        refuse(at("parent", parent, row) + " is no earlier row of its sequence");
    const int64_t expected = parent < 0 ? length : batch.positions[parent] + 1;
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
    if (rows > size_t(1) << 24) refuse("a batch takes at most 16777216 rows");
    if (batch.positions.size() != rows || batch.sequences.size() != rows || batch.parents.size() != rows)
        refuse("tokens, positions, sequences and parents must have one entry a row");
    Plan p;
    p.rows = int(rows);
    p.first.assign(caches.size(), 0);
    p.paths.resize(rows);
    int64_t sequence = -1;
    for (int row = 0; row < p.rows; ++row) {
        const int64_t now = batch.sequences[row];
        if (now < 0 || now >= int64_t(caches.size()) || now < sequence)
            refuse(at("sequence", now, row) + " is out of order: the rows of a sequence stand together, in the "
                                              "order of the " + std::to_string(caches.size()) + " caches");
        if (now != sequence) p.first[now] = row;
        sequence = now;
        const int first = p.first[now];
        check_row(batch, caches, row, first, vocab, limit);
        const int parent = int(batch.parents[row]);
        const bool chain = parent < 0 ? row == first : parent == row - 1 && p.paths[parent].empty();
        if (!chain) {
            if (parent >= 0) {
                p.paths[row] = p.paths[parent];
                if (p.paths[row].empty())
                    for (int i = first; i <= parent; ++i) p.paths[row].push_back(i - first);
            }
            p.paths[row].push_back(row - first);
        }
    }
    if (batch.wanted.size() > size_t(1) << 24) refuse("at most 16777216 rows can be wanted");
    auto narrow = [](const std::vector<int64_t>& wide) { return std::vector<int>(wide.begin(), wide.end()); };
    for (int64_t row : batch.wanted)
        if (row < 0 || row >= p.rows) refuse("wanted row " + std::to_string(row) + " is not in the batch");
    p.tokens = narrow(batch.tokens), p.positions = narrow(batch.positions), p.wanted = narrow(batch.wanted);
    p.sequences = narrow(batch.sequences), p.parents = narrow(batch.parents);
    p.tiles = cut_tiles(p.rows, kernels.group_rows);
    return p;
}

}  // namespace outrider
