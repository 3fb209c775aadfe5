// Runs pieces of one-off work, such as packing, on a few threads.
#pragma once
#include <algorithm>
#include <thread>
#include <vector>

namespace outrider {

// Calls body(i) for i in [0, count); body must not throw.
template <class Body> void parallel_for(int count, int threads, Body body) {
    threads = std::clamp(threads, 1, std::max(1, count));
    std::vector<std::thread> team;
    for (int t = 1; t < threads; ++t)
        team.emplace_back([=] {
            for (int i = t; i < count; i += threads) body(i);
        });
    for (int i = 0; i < count; i += threads) body(i);
    for (auto& member : team) member.join();
}

}  // namespace outrider
