#include "team.hpp"

#include <algorithm>
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

Team::Team(int size) : size_(size), process_(this_process()), advised_(size) {
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

void Team::run(int threads, const std::function<void(int)>& body) {
    std::lock_guard<std::mutex> running(running_);
    const auto begin = Clock::now();
    {
        std::lock_guard<std::mutex> lock(mutex_);
        threads_of_run_ = threads, body_ = &body, asleep_ = {};
        if (threads > 1) work_.fetch_add(1);
    }
    if (threads > 1) woken_.notify_all();
    body(0);
    meet();
    if (size_ > 1) advise(Clock::now() - begin);
}

// Half the threads are as quick as all of them where these lose half of the time, waiting for those of them that
// have lost their processors. More are tried again after a while, later each time that it was in vain.
void Team::advise(Clock::duration whole) {
    std::lock_guard<std::mutex> lock(mutex_);
    const int threads = threads_of_run_;
    whole_ = whole_ / 2 + whole;
    lost_ = lost_ / 2 + (threads > 1 ? asleep_ / (threads - 1) : Clock::duration());
    if (lost_ > whole_ / 2) {
        advised_ = (threads + 1) / 2;
        rest_ = next_rest_;
        next_rest_ = std::min(2 * next_rest_, kLongRest);
        lost_ = {};
    } else if (rest_ > 0 && --rest_ == 0) {
        if (threads == size_) {
            next_rest_ = kShortRest;
        } else {
            advised_ = std::min(2 * threads, size_);
            rest_ = kShortRest;
        }
    }
}

void Team::meet() {
    if (threads_of_run_ == 1) return;
    const unsigned round = round_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_of_run_ - 1) {
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
    const auto begin = Clock::now();
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    passed_.wait(lock, [&] { return round_.load() != round; });
    sleepers_.fetch_sub(1);
    asleep_ += Clock::now() - begin;
}

void Team::wait_for_work(int thread) {
    unsigned done = 0;
    for (;;) {
        const auto asleep = Clock::now() + kAwake;
        for (int spins = 0; work_.load(std::memory_order_acquire) == done; ++spins) {
            relax();
            if (spins % 64 == 0 && Clock::now() > asleep) {
                std::unique_lock<std::mutex> lock(mutex_);
                woken_.wait(lock, [&] { return work_.load() != done; });
                break;
            }
        }
        const std::function<void(int)>* body;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            if (stop_) return;
            done = work_.load();
            if (thread >= threads_of_run_) continue;
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
