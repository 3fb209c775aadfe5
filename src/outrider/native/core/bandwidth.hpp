// How fast this machine reads memory: the bound of a pass, which cannot take less time than reading its weights.
#pragma once
#include <cstdint>
#include <vector>

#include "buffer.hpp"
#include "team.hpp"

namespace outrider {

class Reader {
public:
    // Memory of its own, `bytes` rounded up to whole lines of 64; std::invalid_argument unless both are positive
    // and the threads no more than 1024.
    Reader(size_t bytes, int threads);

    size_t bytes() const { return lines_ * kLine; }
    // Reads every byte once, each thread a share of its own; returns the seconds it took.
    double seconds();
    // Sum of the 64-bit words that were read last. Every word is 1, so it tells how many they were.
    uint64_t sum() const;

private:
    static constexpr size_t kLine = 64;
    size_t lines_;
    Buffer data_;
    Team team_;
    std::vector<uint64_t> sums_;
};

}  // namespace outrider
