// A team of threads that runs one function at a time and meets at barriers. The threads wait for a pass by
// spinning briefly, then asleep. Own threads, because two OpenMP runtimes in one process (PyTorch brings its
// own) keep spinning against each other. Where other programs keep the processors busy, a thread that has lost
// its own holds all the others up at every barrier; fewer threads are quicker then, and the team says how many.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace outrider {

class Team {
public:
    explicit Team(int size);
    ~Team();
    // Deletes a team of this process. One from before a fork is left where it is: its threads are gone, and a
    // condition variable waits for its waiters before it can be destroyed.
    struct Dismiss {
        void operator()(Team* team) const {
            if (team->alive()) delete team;
        }
    };
    Team(const Team&) = delete;

    int size() const { return size_; }
    // True in the process that made the team; its threads don't survive a fork.
    bool alive() const;
    // How many threads the next run should have: all, or fewer for some runs after the threads spent most of their
    // time asleep at barriers.
    int advised() const { return advised_.load(); }
    // Calls body(thread) on so many threads, the caller being thread 0; body must not throw. One call at a time:
    // others wait.
    void run(int threads, const std::function<void(int)>& body);
    // Every thread of a run calls this; none goes on before all have come.
    void meet();

private:
    using Clock = std::chrono::steady_clock;
    static constexpr int kShortRest = 16, kLongRest = 128;

    void stop();
    void wait_for_work(int thread);
    void advise(Clock::duration whole);

    const int size_;
    const long process_;
    std::vector<std::thread> threads_;
    std::mutex running_, mutex_;
    std::condition_variable woken_, passed_;
    const std::function<void(int)>* body_ = nullptr;
    int threads_of_run_ = 1;
    bool stop_ = false;
    Clock::duration asleep_{};  // of all threads at the barriers of this run
    // Of recent runs, each counting half of the one after it.
    Clock::duration whole_{}, lost_{};
    int rest_ = 0, next_rest_ = kShortRest;  // runs until more threads are tried
    std::atomic<int> advised_;
    alignas(64) std::atomic<unsigned> work_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<unsigned> round_{0};
    std::atomic<int> sleepers_{0};
};

// The process's team of this size, which lives as long as somebody holds it. All decoders share it: threads of
// several teams, waiting briefly awake for their next pass, would be in the way of the pass that runs.
std::shared_ptr<Team> shared_team(int size);

}  // namespace outrider
