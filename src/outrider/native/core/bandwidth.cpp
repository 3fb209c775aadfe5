#include "bandwidth.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <stdexcept>

namespace outrider {
namespace {

constexpr size_t kWords = 8;         // of a line
constexpr size_t kAhead = 2048;      // bytes ahead of the sums that are asked for

void add_line(const uint64_t* line, uint64_t* sums) {
    __builtin_prefetch(reinterpret_cast<const char*>(line) + kAhead);
    for (size_t word = 0; word < kWords; ++word) sums[word] += line[word];
}

// Two streams with prefetch: plain sums reach what the widest vectors do, as memory is all they wait for.
uint64_t sum_lines(const uint64_t* words, size_t lines) {
    const size_t half = lines / 2;
    uint64_t first[kWords] = {}, second[kWords] = {};
    for (size_t line = 0; line < half; ++line) {
        add_line(words + line * kWords, first);
        add_line(words + (half + line) * kWords, second);
    }
    if (lines % 2) add_line(words + (lines - 1) * kWords, second);
    return std::accumulate(first, first + kWords, std::accumulate(second, second + kWords, uint64_t(0)));
}

int checked(int threads) {
    if (threads < 1 || threads > 1024) throw std::invalid_argument("threads must be from 1 to 1024");
    return threads;
}

}  // namespace

Reader::Reader(size_t bytes, int threads)
    : lines_((bytes + kLine - 1) / kLine), data_(lines_ * kLine), team_(checked(threads)), sums_(threads) {
    if (bytes == 0) throw std::invalid_argument("there must be bytes to read");
    std::fill_n(data_.as<uint64_t>(), lines_ * kWords, uint64_t(1));
}

double Reader::seconds() {
    const uint64_t* words = data_.as<uint64_t>();
    const size_t threads = size_t(team_.size());
    const auto started = std::chrono::steady_clock::now();
    team_.run(team_.size(), [&](int thread) {
        const size_t begin = lines_ * thread / threads, end = lines_ * (thread + 1) / threads;
        sums_[thread] = sum_lines(words + begin * kWords, end - begin);
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
}

uint64_t Reader::sum() const { return std::accumulate(sums_.begin(), sums_.end(), uint64_t(0)); }

}  // namespace outrider
