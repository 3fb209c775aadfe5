"""The accepted path into the cache, stops cut inside the run, counters."""
