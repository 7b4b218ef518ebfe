package replay

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/config"
)

// traffic is an endless access log, fifty lines a second, of which one in fifty is an
// attempt at POST /login.
type traffic struct {
	left  int // lines
	lines [][]byte
	stamp []byte
	n     int
	rest  []byte
}

const stampLayout = "02/Jan/2006:15:04:05 -0700"

func newTraffic(lines int) *traffic {
	t := &traffic{left: lines}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 50_000 {
		addr := fmt.Sprintf("10.%d.%d.%d", r.IntN(8), r.IntN(100), r.IntN(50)) // 40,000
		line := fmt.Sprintf("%s - - [%s] \"GET /assets/app-%d.js?v=%d HTTP/1.1\" 200 51234 \"https://example.org/\" \"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/125.0.0.0 Safari/537.36\"\n",
			addr, stampLayout, r.IntN(500), r.IntN(9))
		if i%50 == 0 {
			line = fmt.Sprintf("%s - - [%s] \"POST /login HTTP/1.1\" %d 512 \"https://example.org/login\" \"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\"\n",
				addr, stampLayout, []int{200, 200, 302}[r.IntN(3)])
		}
		t.lines = append(t.lines, []byte(line))
	}
	return t
}

func (t *traffic) Read(b []byte) (n int, err error) {
	for n < len(b) {
		if len(t.rest) == 0 {
			if t.left == 0 {
				break
			}
			if t.n%50 == 0 {
				t.stamp = begin.Add(time.Duration(t.n/50)*time.Second).AppendFormat(t.stamp[:0], stampLayout)
			}
			t.rest = t.lines[t.n*7919%len(t.lines)]
			copy(t.rest[bytes.IndexByte(t.rest, '[')+1:], t.stamp)
			t.n++
			t.left--
		}
		c := copy(b[n:], t.rest)
		t.rest = t.rest[c:]
		n += c
	}
	if n == 0 {
		err = io.EOF
	}
	return n, err
}

// Memory does not grow with the log, once all its callers are known.
func TestMemory(t *testing.T) {
	const first, last = 4, 16
	var heap [last + 1]uint64
	calls := 0
	r, err := New(Options{Format: "combined", Reorder: 10 * time.Minute, Alone: true, Progress: func(int64) {
		if calls++; calls == first || calls == last {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heap[calls] = m.HeapAlloc
		}
	}}, at(network(usual), network(strict)))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Run(Log{"traffic", newTraffic(last << 16), begin}); err != nil {
		t.Fatal(err)
	}
	if p := r.Report(); p.Lines != last<<16 || p.Attempts < 20_000 || p.Unreadable != 0 {
		t.Fatalf("%d lines, %d attempts, %d unreadable", p.Lines, p.Attempts, p.Unreadable)
	}
	if grown := int64(heap[last]) - int64(heap[first]); grown > 1<<20 || heap[first] == 0 {
		t.Errorf("%d bytes in use after %d lines, %d more after %d", heap[first], first<<16, grown, last<<16)
	}
}

// BenchmarkRun is for one line. What the process took is shown as MB.
//
//	GOMAXPROCS=1 go test -run '^$' -bench BenchmarkRun -benchtime 10000000x ./internal/replay
func BenchmarkRun(b *testing.B) {
	for name, p := range map[string]Policy{"lockout": at(network(usual)), "seven-rules": at(config.DefaultRules()...)} {
		b.Run(name, func(b *testing.B) {
			r, err := New(Options{Format: "combined", Reorder: 10 * time.Minute, Alone: true}, p)
			if err != nil {
				b.Fatal(err)
			}
			log := newTraffic(b.N)
			b.ResetTimer()
			if err := r.Run(Log{"traffic", log, begin}); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			b.ReportMetric(float64(m.Sys)/1e6, "MB")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
