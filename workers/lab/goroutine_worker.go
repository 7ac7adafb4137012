// Tasks that wait, without end, by so many goroutines: a worker for `tuner grid`.
//
// Each goroutine counts what it has done in a slot of its own, in the file and the byte layout that
// tuner/probe/counter.py describes.
package main

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	version   = 1
	slotBytes = 64
	slotWords = slotBytes / 8
)

// startTime gives when this process was started, in clock ticks since boot.
func startTime() (uint64, error) {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, err
	}
	text := string(stat)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	return strconv.ParseUint(fields[19], 10, 64)
}

// newFile makes the counter's file; the name of a process that had the same pid before is taken.
func newFile(directory string) (*os.File, error) {
	for attempt := 0; ; attempt++ {
		path := filepath.Join(directory, fmt.Sprintf("%d-%d.counter", os.Getpid(), attempt))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if !os.IsExist(err) {
			return file, err
		}
	}
}

// counters gives the words in which n slots count their items; without a directory nobody reads them.
func counters(directory string, n int) ([]*uint64, error) {
	words := make([]uint64, slotWords*(n+1)) // the header is as long as a slot
	if directory != "" {
		file, err := newFile(directory)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		// Blocks, not a hole: a store into a hole of a full disk ends the process.
		if err := syscall.Fallocate(int(file.Fd()), 0, 0, int64(8*len(words))); err != nil {
			return nil, err
		}
		pages, err := syscall.Mmap(int(file.Fd()), 0, 8*len(words), syscall.PROT_READ|syscall.PROT_WRITE,
			syscall.MAP_SHARED)
		if err != nil {
			return nil, err
		}
		words = unsafe.Slice((*uint64)(unsafe.Pointer(&pages[0])), len(words))
	}
	started, err := startTime()
	if err != nil {
		return nil, err
	}
	words[1], words[2], words[3], words[4], words[5] = version, uint64(os.Getpid()), started, uint64(n), slotBytes
	atomic.StoreUint64(&words[0], binary.NativeEndian.Uint64([]byte("tunercnt"))) // last: now it may be read
	found := make([]*uint64, n)
	for slot := range found {
		found[slot] = &words[slotWords*(slot+1)]
	}
	return found, nil
}

func main() {
	workers := flag.Int("workers", 0, "how many tasks at a time")
	waitS := flag.Float64("wait-s", 0, "how long each task waits, in seconds")
	flag.Parse()
	if flag.NArg() > 0 || *workers < 1 || *waitS <= 0 {
		fmt.Fprintln(os.Stderr, "goroutine_worker: it takes --workers N from 1 on and --wait-s S above 0")
		os.Exit(2)
	}
	slots, err := counters(os.Getenv("TUNER_COUNTER_DIR"), *workers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "goroutine_worker:", err)
		os.Exit(1)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGTERM, syscall.SIGINT)
	var ends atomic.Bool
	var all sync.WaitGroup
	all.Add(*workers)
	for _, slot := range slots {
		go func(done *uint64) {
			for !ends.Load() {
				time.Sleep(time.Duration(*waitS * float64(time.Second)))
				atomic.AddUint64(done, 1)
			}
			all.Done()
		}(slot)
	}
	fmt.Println("working")
	<-told
	ends.Store(true)
	all.Wait()
}
