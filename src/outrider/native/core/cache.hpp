// Keys and values of one sequence, in pages of 64 slots that are never moved. Caches whose texts begin alike may
// hold the same pages: one that others hold too is copied before it is written.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "buffer.hpp"
#include "kernels.hpp"

namespace outrider {

struct Page {
    std::shared_ptr<Buffer> data;

    size_t bytes() const { return data->bytes(); }
    int holders() const { return int(data.use_count()); }
};

class Cache {
public:
    // Begins with what `pages`, all of them full, hold of the text; std::invalid_argument for pages of another shape.
    Cache(int layers, int kv_heads, int dim, std::vector<Page> pages = {});

    int length() const { return length_; }
    int pending() const { return pending_; }
    // Of each pending row, which of them it continues; −1 where it continues what is committed.
    const std::vector<int>& parents() const { return parents_; }
    size_t bytes() const { return pages_.size() * page_bytes(); }
    size_t page_bytes() const { return page_floats() * sizeof(float); }
    bool fits(int layers, int kv_heads, int dim) const {
        return layers == layers_ && kv_heads == kv_heads_ && dim == dim_;
    }

    // Commits pending rows, a path from the root down, and drops the rest; std::invalid_argument otherwise, and
    // nothing is changed. std::runtime_error while somebody else has the cache, here and in truncate and read.
    void keep(const std::vector<int>& rows);
    void truncate(int length);
    // The first `count` pages, for others to begin with; std::invalid_argument unless committed tokens fill them.
    std::vector<Page> pages(int count);

    // Makes room for `parents.size()` more pending rows; what was pending is dropped unless it is to stay.
    void reserve(const std::vector<int>& parents, bool stay);
    void drop() { pending_ = 0; }
    // Writes one head's key and value, [dim] each, into a slot.
    void store(int layer, int head, int slot, const float* key, const float* value);
    // Reads them back, for a caller from outside; std::invalid_argument where there is no such slot.
    void read(int layer, int head, int slot, float* key, float* value);
    int dim() const { return dim_; }
    Keys keys(int layer, int head) const;

    // Claims the cache for one user, a pass or a call from outside; false where it is taken.
    bool claim() { return !busy_.exchange(true); }
    void release() { busy_ = false; }

private:
    int width() const { return round_up(dim_, kLanes); }
    size_t head_floats() const { return size_t(kSlots) * (dim_ + width()); }
    size_t page_floats() const { return head_floats() * layers_ * kv_heads_; }
    size_t offset(int layer, int head) const { return (size_t(layer) * kv_heads_ + head) * head_floats(); }
    void load(int layer, int head, int slot, float* key, float* value) const;
    void copy_slot(int from, int to);
    Page new_page() const { return {std::make_shared<Buffer>(page_bytes())}; }

    std::atomic<bool> busy_{false};
    int layers_, kv_heads_, dim_;
    int length_ = 0, pending_ = 0;
    std::vector<int> parents_;
    std::vector<Page> pages_;
    std::vector<float*> page_starts_;
};

}  // namespace outrider
