#include "cache.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

namespace outrider {
namespace {

// A call from outside has the cache to itself.
class Claim {
public:
    explicit Claim(Cache& cache) : cache_(cache) {
        if (!cache.claim()) throw std::runtime_error("the cache is in use by a running pass");
    }
    ~Claim() { cache_.release(); }

private:
    Cache& cache_;
};

}  // namespace

Cache::Cache(int layers, int kv_heads, int dim, std::vector<Page> pages)
    : layers_(layers), kv_heads_(kv_heads), dim_(dim), pages_(std::move(pages)) {
    if (layers < 1 || kv_heads < 1 || dim < 1) throw std::invalid_argument("a cache needs layers, heads and a size");
    constexpr int kMost = 1 << 16;  // of each: the bytes of a page then fit 64 bits
    if (layers > kMost || kv_heads > kMost || dim > kMost)
        throw std::invalid_argument("a cache takes at most 65536 layers, heads and values of a head");
    for (Page& page : pages_) {
        if (!page.data || page.bytes() != page_bytes()) throw std::invalid_argument("a page is of a cache of another shape");
        page_starts_.push_back(page.data->as<float>());
    }
    length_ = int(pages_.size()) * kSlots;
}

std::vector<Page> Cache::pages(int count) {
    const Claim claim(*this);
    if (count < 0 || int64_t(count) * kSlots > length_)
        throw std::invalid_argument("the " + std::to_string(length_) + " committed tokens do not fill " +
                                    std::to_string(count) + " pages of " + std::to_string(kSlots));
    return {pages_.begin(), pages_.begin() + count};
}

void Cache::keep(const std::vector<int>& rows) {
    const Claim claim(*this);
    int last = -1;
    for (int row : rows) {
        if (row < 0 || row >= pending_ || parents_[row] != last)
            throw std::invalid_argument("row " + std::to_string(row) + " does not continue the path of kept rows; " +
                                        std::to_string(pending_) + " rows are pending");
        last = row;
    }
    for (int i = 0; i < int(rows.size()); ++i)
        if (rows[i] != i) copy_slot(length_ + rows[i], length_ + i);
    length_ += int(rows.size());
    pending_ = 0;
}

void Cache::truncate(int length) {
    const Claim claim(*this);
    if (length < 0 || length > length_)
        throw std::invalid_argument("cannot truncate to " + std::to_string(length) + " of " + std::to_string(length_) +
                                    " tokens");
    length_ = length;
    pending_ = 0;
}

void Cache::reserve(const std::vector<int>& parents, bool stay) {
    parents_.resize(stay ? pending_ : 0);
    parents_.insert(parents_.end(), parents.begin(), parents.end());
    pending_ = 0;
    const size_t slots = size_t(length_) + parents_.size();
    for (size_t i = size_t(length_) / kSlots; i < pages_.size(); ++i) {
        if (pages_[i].holders() == 1) continue;
        const Page own = new_page();
        std::memcpy(own.data->as<float>(), page_starts_[i], page_bytes());
        pages_[i] = own;
        page_starts_[i] = own.data->as<float>();
    }
    while (pages_.size() * kSlots < slots) {
        pages_.push_back(new_page());
        page_starts_.push_back(pages_.back().data->as<float>());
    }
    pending_ = int(parents_.size());
}

void Cache::store(int layer, int head, int slot, const float* key, const float* value) {
    float* base = page_starts_[slot / kSlots] + offset(layer, head);
    const int place = slot % kSlots;
    float* keys = base + size_t(place / kLanes) * kLanes * dim_ + place % kLanes;
    for (int d = 0; d < dim_; ++d) keys[d * kLanes] = key[d];
    float* values = base + size_t(kSlots) * dim_ + size_t(place) * width();
    for (int d = 0; d < dim_; ++d) values[d] = value[d];
}

void Cache::read(int layer, int head, int slot, float* key, float* value) {
    const Claim claim(*this);
    if (layer < 0 || layer >= layers_ || head < 0 || head >= kv_heads_ || slot < 0 || slot >= length_ + pending_)
        throw std::invalid_argument("no such slot");
    load(layer, head, slot, key, value);
}

void Cache::load(int layer, int head, int slot, float* key, float* value) const {
    const float* base = page_starts_[slot / kSlots] + offset(layer, head);
    const int place = slot % kSlots;
    const float* keys = base + size_t(place / kLanes) * kLanes * dim_ + place % kLanes;
    const float* values = base + size_t(kSlots) * dim_ + size_t(place) * width();
    for (int d = 0; d < dim_; ++d) key[d] = keys[d * kLanes], value[d] = values[d];
}

void Cache::copy_slot(int from, int to) {
    std::vector<float> key(dim_), value(dim_);
    for (int layer = 0; layer < layers_; ++layer)
        for (int head = 0; head < kv_heads_; ++head) {
            load(layer, head, from, key.data(), value.data());
            store(layer, head, to, key.data(), value.data());
        }
}

Keys Cache::keys(int layer, int head) const {
    const size_t start = offset(layer, head);
    return {page_starts_.data(), start, start + size_t(kSlots) * dim_, length_};
}

}  // namespace outrider
