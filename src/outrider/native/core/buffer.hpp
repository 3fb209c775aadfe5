// Zeroed memory on a 64-byte boundary; large pieces ask for huge pages, which spare the address lookups of a
// long stream. Or memory that something else owns, which is then only read.
#pragma once
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace outrider {

class Buffer {
public:
    Buffer() = default;
    explicit Buffer(size_t bytes) : bytes_(bytes) {
        const size_t step = bytes >= kLarge ? kLarge : 64;
        const size_t whole = (bytes + step - 1) / step * step;
        if (whole == 0) return;
        data_ = std::aligned_alloc(step, whole);
        if (!data_) throw std::bad_alloc();
#ifdef __linux__
        if (bytes >= kLarge) madvise(data_, whole, MADV_HUGEPAGE);
#endif
        std::memset(data_, 0, whole);
    }
    Buffer(const void* data, size_t bytes, std::shared_ptr<const void> owner)
        : data_(const_cast<void*>(data)), bytes_(bytes), owner_(std::move(owner)) {}
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Buffer() {
        if (!owner_) std::free(data_);
    }

    template <class T> T* as() { return static_cast<T*>(data_); }
    template <class T> const T* as() const { return static_cast<const T*>(data_); }
    size_t bytes() const { return bytes_; }

private:
    static constexpr size_t kLarge = size_t(2) << 20;
    void swap(Buffer& other) {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        std::swap(owner_, other.owner_);
    }
    void* data_ = nullptr;
    size_t bytes_ = 0;
    std::shared_ptr<const void> owner_;
};

}  // namespace outrider
