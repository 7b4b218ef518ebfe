package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/doorward/doorward/cmd/doorward/internal/plain"
)

// A progress is a line on a terminal that says how far logs are read. Without a terminal
// it says nothing.
type progress struct {
	out   io.Writer // nil: no terminal
	begun time.Time
	shown time.Time
	read  int64 // bytes of the files
	total int64 // bytes; -1: nobody knows
	width int   // of the line that stands there
}

// onTerminal returns w if it is one, else nil.
func onTerminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return w
		}
	}
	return nil
}

// lines shows how many lines were read.
func (p *progress) lines(n int64) {
	now := time.Now()
	if p.out == nil || now.Sub(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown = now
	p.show(p.text(n, now.Sub(p.begun)))
}

func (p *progress) text(n int64, passed time.Duration) string {
	text := fmt.Sprintf("%s MB", plain.Count(p.read>>20))
	rest := ""
	if p.total > 0 {
		done := min(float64(p.read)/float64(p.total), 1)
		const width = 20
		full := int(done * width)
		text = fmt.Sprintf("[%s%s] %3.0f %% of %s MB", strings.Repeat("#", full), strings.Repeat(".", width-full), 100*done, plain.Count(p.total>>20))
		if done > 0.01 {
			left := time.Duration(float64(passed) * (1 - done) / done)
			rest = fmt.Sprintf(", %v left", left.Round(time.Second))
		}
	}
	return fmt.Sprintf("%s, %s lines, %s a second%s", text, plain.Count(n), plain.Count(int64(float64(n)/max(passed.Seconds(), 0.001))), rest)
}

// tried shows how many policies were tried.
func (p *progress) tried(done, of int) {
	if p.out != nil {
		p.show(fmt.Sprintf("%d of %d policies tried", done, of))
	}
}

func (p *progress) show(text string) {
	fmt.Fprintf(p.out, "\r%s%s", text, strings.Repeat(" ", max(p.width-len(text), 0)))
	p.width = len(text)
}

// clear removes the line.
func (p *progress) clear() {
	if p.out != nil && p.width > 0 {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.width))
		p.width = 0
	}
}

// counted counts what is read of a file.
type counted struct {
	io.Reader
	bar  *progress
	read int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.read += int64(n)
	c.bar.read += int64(n)
	return n, err
}

// Seek is for a log that is read twice.
func (c *counted) Seek(offset int64, whence int) (int64, error) {
	s, ok := c.Reader.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	if whence == io.SeekStart {
		c.bar.read -= c.read
		c.read = 0
	}
	return s.Seek(offset, whence)
}

func (c *counted) Close() error {
	if f, ok := c.Reader.(*os.File); ok && f != os.Stdin {
		return f.Close()
	}
	return nil
}
