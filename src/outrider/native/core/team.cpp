#include "team.hpp"

#include <chrono>
#include <map>
#ifndef _WIN32
#include <unistd.h>
#endif

namespace outrider {
namespace {

long this_process() {
#ifdef _WIN32
    return 0;
#else
    return long(getpid());
#endif
}

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

constexpr int kSpins = 4000;      // at a barrier, before falling asleep
constexpr auto kAwake = std::chrono::microseconds(200);  // after a pass, before falling asleep

}  // namespace

Team::Team(int size) : size_(size), process_(this_process()) {
    try {
        for (int t = 1; t < size; ++t) threads_.emplace_back([this, t] { wait_for_work(t); });
    } catch (...) {  // the system has no more threads to give
        stop();
        throw;
    }
}

Team::~Team() { stop(); }

void Team::stop() {
    {
        std::lock_guard<std::mutex> lock(mutex_);
        stop_ = true;
        work_.fetch_add(1);
    }
    woken_.notify_all();
    for (auto& thread : threads_) thread.join();
}

bool Team::alive() const { return process_ == this_process(); }

void Team::run(const std::function<void(int)>& body) {
    std::lock_guard<std::mutex> running(running_);
    if (size_ > 1) {
        std::lock_guard<std::mutex> lock(mutex_);
        body_ = &body;
        work_.fetch_add(1);
    }
    woken_.notify_all();
    body(0);
    meet();
}

void Team::meet() {
    if (size_ == 1) return;
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == size_ - 1) {
        arrived_.store(0, std::memory_order_relaxed);
        round_.store(round + 1);
        if (sleepers_.load() > 0) {
            { std::lock_guard<std::mutex> lock(mutex_); }
            passed_.notify_all();
        }
        return;
    }
    for (int spins = 0; spins < kSpins; ++spins) {
        if (round_.load(std::memory_order_acquire) != round) return;
        relax();
    }
    // The others have lost their processors, to other programs most likely: leave them this one.
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    passed_.wait(lock, [&] { return round_.load() != round; });
    sleepers_.fetch_sub(1);
}

void Team::wait_for_work(int thread) {
    unsigned done = 0;
    for (;;) {
        const auto asleep = std::chrono::steady_clock::now() + kAwake;
        for (int spins = 0; work_.load(std::memory_order_acquire) == done; ++spins) {
            relax();
            if (spins % 64 == 0 && std::chrono::steady_clock::now() > asleep) {
                std::unique_lock<std::mutex> lock(mutex_);
                woken_.wait(lock, [&] { return work_.load() != done; });
                break;
            }
        }
        done = work_.load(std::memory_order_acquire);
        const std::function<void(int)>* body;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (stop_) return;
            body = body_;
        }
        (*body)(thread);
        meet();
    }
}

std::shared_ptr<Team> shared_team(int size) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<Team>> teams;
    std::lock_guard<std::mutex> lock(mutex);
    std::shared_ptr<Team> team = teams[size].lock();
    if (!team || !team->alive()) {
        team = std::shared_ptr<Team>(new Team(size), Team::Dismiss());
        teams[size] = team;
    }
    return team;
}

}  // namespace outrider
