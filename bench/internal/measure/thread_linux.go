package measure

import (
	"runtime"
	"syscall"
	"time"
)

// processorTime returns how long this process has had a processor.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A watch tells whether the thread lost its processor.
type watch struct{ seen int64 }

// suspicious is how long an attempt takes that is worth asking about. Who gets the
// processor keeps it for longer.
const suspicious = 20 * time.Microsecond

func watchThread() *watch {
	runtime.LockOSThread()
	return &watch{switches()}
}

func (w *watch) done() { runtime.UnlockOSThread() }

// lost reports whether the system gave the processor to others since the last question,
// if what took so long is suspicious.
func (w *watch) lost(took time.Duration) bool {
	if took < suspicious {
		return false
	}
	before := w.seen
	w.seen = switches()
	return w.seen != before
}

// switches counts how often the thread lost its processor without asking for it.
func switches() int64 {
	const thread = 1 // RUSAGE_THREAD, which package syscall does not name
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		panic(err)
	}
	return u.Nivcsw
}
