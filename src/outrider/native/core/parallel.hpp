// Runs pieces of one-off work, such as packing, on a few threads.
#pragma once
#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

namespace outrider {

// Calls body(i) for i in [0, count); body must not throw.
template <class Body> void parallel_for(int count, int threads, Body body) {
    threads = std::clamp(threads, 1, std::max(1, count));
    std::vector<std::thread> team;
    auto share = [=](int t) {
        for (int i = t; i < count; i += threads) body(i);
    };
    int started = 1;
    try {
        for (; started < threads; ++started) team.emplace_back(share, started);
    } catch (const std::system_error&) {
        // No more threads to be had: the caller takes what is left.
    }
    share(0);
    for (int t = started; t < threads; ++t) share(t);
    for (auto& member : team) member.join();
}

}  // namespace outrider
