// A task that waits, on every host of an inventory, by a goroutine for each: no limit but GOMAXPROCS,
// how many of them run Go code at the same moment.
//
// It is tuner's own and no part of gornir, whose parallel runner it follows as that is described: every host's
// goroutine sends its result through a channel with room for all, and a wait group tells when all are done.
//
// It prints one JSON object: how many hosts were done, how many threads the process had at its end (the runtime
// ends none), what GOMAXPROCS was, how long the run itself took.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

type result struct {
	host   string
	failed bool
}

// run waits on every host at once and gives how many were done.
func run(hosts []string, wait time.Duration) int {
	results := make(chan result, len(hosts))
	var all sync.WaitGroup
	all.Add(len(hosts))
	for _, host := range hosts {
		go func(host string) {
			time.Sleep(wait)
			results <- result{host: host}
			all.Done()
		}(host)
	}
	all.Wait()
	close(results)
	done := 0
	for one := range results {
		if !one.failed {
			done++
		}
	}
	return done
}

// threads gives how many threads this process has.
func threads() (int, error) {
	entries, err := os.ReadDir("/proc/self/task")
	return len(entries), err
}

func main() {
	tasks := flag.Int("tasks", 10000, "how many hosts")
	waitS := flag.Float64("wait-s", 0, "how long each task waits, in seconds")
	flag.Parse()
	if flag.NArg() > 0 || *tasks < 0 || *waitS < 0 {
		fmt.Fprintln(os.Stderr, "goroutine_pool: it takes --tasks N and --wait-s S, neither below 0")
		os.Exit(2)
	}
	hosts := make([]string, *tasks)
	for number := range hosts {
		hosts[number] = fmt.Sprintf("host%d", number)
	}
	begun := time.Now()
	done := run(hosts, time.Duration(*waitS*float64(time.Second)))
	took := time.Since(begun)
	count, err := threads()
	if err != nil {
		fmt.Fprintln(os.Stderr, "goroutine_pool:", err)
		os.Exit(1)
	}
	fmt.Printf("{\"n_done\": %d, \"n_threads\": %d, \"n_procs\": %d, \"run_s\": %.6f}\n",
		done, count, runtime.GOMAXPROCS(0), took.Seconds())
}
