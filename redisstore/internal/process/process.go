// Package process runs a test of the running test binary in processes of their own, so that what nodes
// share is tried between processes. Each says and hears lines.
package process

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

const mark = "DOORWARD_PROCESS"

// A Process is one of them.
type Process struct {
	cmd     *exec.Cmd
	asked   *os.File
	answers chan string
	ended   chan struct{}
}

// Start runs the test of a name, which calls Serve, in a process that ends with t.
func Start(t testing.TB, test string, args ...string) *Process {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	in, asked, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	answered, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{cmd: exec.Command(program, "-test.run=^"+test+"$", "-test.timeout=5m"), asked: asked, answers: make(chan string, 100), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), mark+"="+strings.Join(args, " "))
	p.cmd.ExtraFiles = []*os.File{in, out}
	p.cmd.Stdout, p.cmd.Stderr = os.Stderr, os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	out.Close()
	go func() {
		defer close(p.answers)
		defer answered.Close()
		for r := bufio.NewReader(answered); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			p.answers <- strings.TrimSuffix(line, "\n")
		}
	}()
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.Kill)
	return p
}

// Kill ends the process at once.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	<-p.ended
	p.asked.Close()
}

// Say sends a line.
func (p *Process) Say(t testing.TB, format string, args ...any) {
	t.Helper()
	if _, err := fmt.Fprintf(p.asked, format+"\n", args...); err != nil {
		t.Fatal(err)
	}
}

// Hear returns the next line it answered.
func (p *Process) Hear(t testing.TB) string {
	t.Helper()
	select {
	case line, ok := <-p.answers:
		if !ok {
			t.Fatal("the process ended")
		}
		return line
	case <-time.After(time.Minute):
		t.Fatal("the process does not answer")
	}
	return ""
}

// Serve is for the test that Start runs: it answers each line. It skips the test where nobody has started
// it so. Start is called first, with the arguments.
func Serve(t *testing.T, start func(args []string) (answer func(line string) string)) {
	t.Helper()
	text, ok := os.LookupEnv(mark)
	if !ok {
		t.Skip("is run in processes of other tests")
	}
	in, out := os.NewFile(3, "asked"), os.NewFile(4, "answered")
	answer := start(strings.Fields(text))
	for r := bufio.NewReader(in); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if _, err := fmt.Fprintln(out, answer(strings.TrimSuffix(line, "\n"))); err != nil {
			return
		}
	}
}
