// A team of threads that runs one function at a time and meets at barriers. The threads wait for a pass by
// spinning briefly, then asleep. Own threads, because two OpenMP runtimes in one process (PyTorch brings its
// own) keep spinning against each other.
#pragma once
#include <atomic>
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
    // Calls body(thread) on every thread, the caller being thread 0; body must not throw. One call at a time:
    // others wait.
    void run(const std::function<void(int)>& body);
    // Every thread of the team calls this; none goes on before all have come.
    void meet();

private:
    void stop();
    void wait_for_work(int thread);

    const int size_;
    const long process_;
    std::vector<std::thread> threads_;
    std::mutex running_, mutex_;
    std::condition_variable woken_, passed_;
    const std::function<void(int)>* body_ = nullptr;
    bool stop_ = false;
    alignas(64) std::atomic<unsigned> work_{0};
    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<unsigned> round_{0};
    std::atomic<int> sleepers_{0};
};

// The process's team of this size, which lives as long as somebody holds it. All decoders share it: threads of
// several teams, waiting briefly awake for their next pass, would be in the way of the pass that runs.
std::shared_ptr<Team> shared_team(int size);

}  // namespace outrider
