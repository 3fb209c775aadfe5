// Attention of a pass. The places of a sequence are taken in segments of fixed length, each from its own start,
// and a query's results over its segments are added up in their order: the same sums whether one thread takes
// all segments or many threads take one each. A segment's keys and values stay in the cache while all queries of
// a chunk of rows use them.
#pragma once
#include "workspace.hpp"

namespace outrider {

// Memory for a pass's attention: of all rows, and of those that go on after the last layer's keys and values.
struct AttentionSpace {
    std::vector<Buffer> all, last;
};

class Attention {
public:
    // Attention of some rows of the batch, ascending. `space` lends the memory, which grows and stays.
    Attention(Workspace& workspace, const std::vector<int>& rows, std::vector<Buffer>& space);

    // Rotates a thread's share of the queries and keys of the whole batch; keys and values go to the caches.
    void place(int thread, int index, const Layer& layer);
    // A thread's share of attended = softmax(queries · keys) · values, for the rows given, one after another. The
    // threads may meet in here.
    void attend(int thread, int index, const Layer& layer);

private:
    // Pairs of (index of a row, head among those that share keys) that one call of the kernel takes.
    struct Group {
        int count = 0;
        int indices[kQueries], heads[kQueries];
    };
    // Rows of a sequence, by their indices, grouped for places that all of them see in the same slots, and for places
    // where branches part.
    struct Chunk {
        int sequence, first, end;
        int places;  // that its longest row sees
        std::vector<Group> together, apart;
    };
    struct Item {
        int chunk, segment;
    };

    Chunk chunk_of(int first, int end) const;
    std::vector<Group> groups_of(int first, int end, bool branches) const;
    void over(int thread, int index, const Layer& layer, int chunk, int head, int segment);
    float* state_of(int thread, const Chunk& chunk, int index, int head, int segment);
    int first_of(int row, const Layer& layer) const;
    void finish(const float* part, int index, int head);

    Workspace& w_;
    const std::vector<int>& rows_;
    const int groups_;  // heads that share keys
    const int part_stride_;
    std::vector<Chunk> chunks_;
    std::vector<Item> items_;  // where threads share out segments; else empty
    int segments_ = 0;         // of the longest chunk
    float *parts_ = nullptr, *scratch_ = nullptr;
    size_t scores_ = 0, scratch_stride_ = 0;
};

}  // namespace outrider
