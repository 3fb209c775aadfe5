// Shares the pieces of a stage among threads: each takes its own range from the front, so that it reads one
// stream of memory, and helps the others when it is done. Which thread takes a piece never changes its result.
#pragma once
#include <atomic>
#include <vector>

namespace outrider {

class Pieces {
public:
    explicit Pieces(int threads) : threads_(threads), counters_(size_t(kSets) * threads) {}

    // Calls body(piece) for this thread's pieces of [0, count). Stages must be separated by a meeting of all
    // threads, and all must enter each: the counters of the next stage are made ready in this one.
    template <class Body> void run(int thread, int& stage, int count, Body body) {
        Counter* now = &counters_[size_t(stage % kSets) * threads_];
        counters_[size_t((stage + 1) % kSets) * threads_ + thread].taken.store(0, std::memory_order_relaxed);
        ++stage;
        for (int i = 0; i < threads_; ++i) {
            const int owner = (thread + i) % threads_;
            const int begin = int(int64_t(count) * owner / threads_), end = int(int64_t(count) * (owner + 1) / threads_);
            // The first look spares the others' cache lines when nothing is left.
            while (begin + now[owner].taken.load(std::memory_order_relaxed) < end) {
                const int piece = begin + now[owner].taken.fetch_add(1, std::memory_order_relaxed);
                if (piece >= end) break;
                body(piece);
            }
        }
    }

private:
    static constexpr int kSets = 3;  // being read by late threads, in use, being made ready
    struct alignas(64) Counter {
        std::atomic<int> taken{0};
    };
    const int threads_;
    std::vector<Counter> counters_;
};

}  // namespace outrider
